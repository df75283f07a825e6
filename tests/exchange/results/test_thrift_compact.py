from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.exchange.results.thrift_compact import (
    RawField,
    ThriftError,
    join_struct,
    join_structs,
    read_struct,
    split_struct,
    split_structs,
)


def varint(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def zigzag(value: int) -> bytes:
    return varint((value << 1) ^ (value >> 63))


EVERY_TYPE = b"".join(
    [
        b"\x11",  # field 1: true
        b"\x12",  # field 2: false
        b"\x13\xff",  # field 3: a byte
        b"\x14" + zigzag(-300),  # field 4: 16 bits
        b"\x15" + zigzag(70_000),  # field 5: 32 bits
        b"\x16" + zigzag(-(1 << 40)),  # field 6: 64 bits
        b"\x17" + struct.pack("<d", 2.5),  # field 7
        b"\x18\x03abc",  # field 8
        b"\x19\x25" + zigzag(1) + zigzag(-1),  # field 9: a list of two integers
        b"\x1a\x11\x01",  # field 10: a set of one boolean
        b"\x1b\x01\x85\x01k" + zigzag(9),  # field 11: a map with one entry, text to integer
        b"\x1c\x15\x02\x00",  # field 12: a struct whose field 1 is 1
        b"\x1b\x00",  # field 13: an empty map
        b"\x05" + zigzag(100) + zigzag(7),  # field 100, whose id is given in full
        b"\x19\xf5" + varint(20) + zigzag(1) * 20,  # field 101: a long list
        b"\x00",
    ]
)


def test_every_type_is_decoded() -> None:
    assert read_struct(EVERY_TYPE + b"rest") == {
        1: True,
        2: False,
        3: -1,
        4: -300,
        5: 70_000,
        6: -(1 << 40),
        7: 2.5,
        8: b"abc",
        9: [1, -1],
        10: [True],
        11: {b"k": 9},
        12: {1: 1},
        13: {},
        100: 7,
        101: [1] * 20,
    }


def test_a_struct_is_found_at_its_offset() -> None:
    assert read_struct(b"junk" + EVERY_TYPE, 4) == read_struct(EVERY_TYPE)


@given(st.integers(0, len(EVERY_TYPE) - 1))
def test_a_truncated_struct_is_refused(keep: int) -> None:
    with pytest.raises(ThriftError, match=r"truncated Thrift struct|Thrift collection of \d+ elements in \d+ bytes"):
        read_struct(EVERY_TYPE[:keep])


@given(st.binary(max_size=200))
def test_no_bytes_give_another_error(data: bytes) -> None:
    with contextlib.suppress(ThriftError):
        read_struct(data)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_of_64_bits_come_back(value: int) -> None:
    assert read_struct(b"\x16" + zigzag(value) + b"\x00") == {1: value}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x1d", "unknown Thrift type 13"),
        (b"\x16" + b"\xff" * 20, "Thrift integer longer than 64 bits"),
        (b"\x19\xf5" + varint(1 << 40), "Thrift collection of 1099511627776 elements in 8 bytes"),
        (b"\x1c" * 40, "Thrift values nested deeper than 32"),
        (b"\x19" * 60 + b"\x00" * 9, "Thrift values nested deeper than 32"),
    ],
)
def test_what_no_writer_writes_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ThriftError, match=message):
        read_struct(data)


def test_a_struct_that_is_taken_apart_and_put_together_is_what_it_was() -> None:
    fields = split_struct(EVERY_TYPE + b"rest")
    assert [field.id for field in fields] == list(read_struct(EVERY_TYPE))
    assert join_struct(fields) == EVERY_TYPE


@given(fields=st.dictionaries(st.integers(1, 200), st.integers(-(1 << 31), (1 << 31) - 1), min_size=1))
def test_fields_that_are_put_together_are_read(fields: dict[int, int]) -> None:
    written = join_struct(RawField.integer(number, fields[number]) for number in sorted(fields))
    assert read_struct(written) == fields


@pytest.mark.parametrize("count", [0, 1, 14, 15, 300])
def test_a_list_of_structs_is_taken_apart_and_put_together(count: int) -> None:
    structs = [join_struct([RawField.integer(1, number)]) for number in range(count)]
    assert split_structs(join_structs(structs)) == structs


def test_what_is_no_list_of_structs_is_refused() -> None:
    with pytest.raises(ThriftError, match="a list of Thrift type 5, expected one of structs"):
        split_structs(b"\x15" + zigzag(1))
    with pytest.raises(ThriftError, match="truncated Thrift list"):
        split_structs(b"")
    with pytest.raises(ThriftError, match="truncated Thrift struct"):
        split_struct(b"\x15")
