"""Thrift's compact protocol: just enough for what Parquet stores.

pyarrow does not show where pages and page indexes lie, so they are read from the bytes. A struct becomes a dict from
field id to value, a list a list, a binary `bytes`; callers know the names of fields. To change
a struct, take it apart into fields, which stay as they were written, and put them together again.
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_MAX_DEPTH = 32
_INTEGER, _STRUCT = 5, 12
_LONGEST_DELTA = 15


class ThriftError(ValueError):
    """The bytes are no compact-protocol struct."""


def read_struct(data: bytes | memoryview, offset: int = 0) -> dict[int, Any]:
    """Decode the struct that starts at `offset`; bytes behind it are not looked at.

    Raises:
        ThriftError: truncated or malformed.
    """
    try:
        return _Reader(bytes(data), offset).struct(0)
    except (IndexError, struct.error, OverflowError) as error:
        raise ThriftError(f"truncated Thrift struct ({len(data)} bytes from offset {offset})") from error


@dataclass(frozen=True, slots=True)
class RawField:
    """A field of a struct as it is written: its type in the protocol's number, and the bytes of its value (none for a
    boolean, whose type is its value)."""

    id: int
    kind: int
    value: bytes

    @classmethod
    def integer(cls, field_id: int, value: int) -> RawField:
        """A field of 32 bits."""
        return cls(field_id, _INTEGER, _zigzag(value))


def split_struct(data: bytes, offset: int = 0) -> list[RawField]:
    """The fields of the struct that starts at `offset`, in order; errors as `read_struct`."""
    try:
        return _Reader(data, offset).raw_struct()
    except (IndexError, struct.error, OverflowError) as error:
        raise ThriftError(f"truncated Thrift struct ({len(data)} bytes from offset {offset})") from error


def join_struct(fields: Iterable[RawField]) -> bytes:
    """The bytes of a struct with these fields."""
    written, last = bytearray(), 0
    for field in fields:
        delta = field.id - last
        is_short = 0 < delta <= _LONGEST_DELTA
        written += bytes([delta << 4 | field.kind]) if is_short else bytes([field.kind]) + _zigzag(field.id)
        written += field.value
        last = field.id
    return bytes(written) + b"\0"


def split_structs(value: bytes) -> list[bytes]:
    """The structs of a list, each as it is written; errors as `read_struct`."""
    try:
        return _Reader(value, 0).raw_structs()
    except (IndexError, struct.error, OverflowError) as error:
        raise ThriftError(f"truncated Thrift list ({len(value)} bytes)") from error


def join_structs(structs: Sequence[bytes]) -> bytes:
    """The bytes of a list of structs."""
    size = len(structs)
    header = bytes([size << 4 | _STRUCT]) if size < 15 else bytes([0xF0 | _STRUCT]) + _varint(size)
    return header + b"".join(structs)


def _zigzag(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63))


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


class _Reader:
    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position

    def struct(self, depth: int) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        field_id = 0
        while header := self._byte():
            delta, kind = header >> 4, header & 0x0F
            field_id = field_id + delta if delta else self._zigzag()
            # a boolean field has its value in the type: 1 is true, 2 is false
            fields[field_id] = kind == 1 if kind <= 2 else self._value(kind, depth)
        return fields

    def raw_struct(self) -> list[RawField]:
        fields: list[RawField] = []
        field_id = 0
        while header := self._byte():
            delta, kind = header >> 4, header & 0x0F
            field_id = field_id + delta if delta else self._zigzag()
            start = self._position
            if kind > 2:
                self._value(kind, 0)
            fields.append(RawField(field_id, kind, self._data[start : self._position]))
        return fields

    def raw_structs(self) -> list[bytes]:
        size, kind = self._list_header()
        if kind != _STRUCT:
            raise ThriftError(f"a list of Thrift type {kind}, expected one of structs")
        found = []
        for _ in range(size):
            start = self._position
            self.struct(1)
            found.append(self._data[start : self._position])
        return found

    def _value(self, kind: int, depth: int) -> Any:  # noqa: PLR0911  (one for each type of the protocol)
        if depth > _MAX_DEPTH:
            raise ThriftError(f"Thrift values nested deeper than {_MAX_DEPTH}")
        match kind:
            case 1 | 2:  # a boolean as an element of a list is a byte of its own
                return self._byte() == 1
            case 3:
                return int.from_bytes(self._take(1), signed=True)
            case 4 | 5 | 6:
                return self._zigzag()
            case 7:
                return struct.unpack("<d", self._take(8))[0]
            case 8:
                return self._take(self._varint())
            case 9 | 10:
                return self._list(depth)
            case 11:
                return self._map(depth)
            case 12:
                return self.struct(depth + 1)
        raise ThriftError(f"unknown Thrift type {kind} at byte {self._position}")

    def _list(self, depth: int) -> list[Any]:
        size, kind = self._list_header()
        return [self._value(kind, depth + 1) for _ in range(size)]

    def _list_header(self) -> tuple[int, int]:
        """Number and type of the elements."""
        header = self._byte()
        size, kind = header >> 4, header & 0x0F
        if size == 15:
            size = self._varint()
        self._check_size(size)
        return size, kind

    def _map(self, depth: int) -> dict[Any, Any]:
        size = self._varint()
        if size == 0:
            return {}
        self._check_size(size)
        kinds = self._byte()
        return {self._value(kinds >> 4, depth + 1): self._value(kinds & 0x0F, depth + 1) for _ in range(size)}

    def _check_size(self, size: int) -> None:
        if size > len(self._data) - self._position:  # every element takes at least a byte: refuse before allocating
            raise ThriftError(f"Thrift collection of {size} elements in {len(self._data)} bytes")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        data, position = self._data, self._position
        byte = data[position]
        position += 1
        value = byte & 0x7F
        shift = 7
        while byte & 0x80:
            if shift > 63:
                raise ThriftError(f"Thrift integer longer than 64 bits at byte {position}")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
        self._position = position
        return value

    def _byte(self) -> int:
        byte = self._data[self._position]
        self._position += 1
        return byte

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise IndexError(end)
        taken = self._data[self._position : end]
        self._position = end
        return taken
