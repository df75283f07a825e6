"""Whatever becomes of a record of the exchange, reading it gives a named error or a whole record, never a bare one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_abs.exchange.errors import StoredFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.whole_files import decode_json, encode_json
from tests.exchange.records.stored_records import (
    READERS,
    VALUES,
    Way,
    decide_again,
    error_of,
    replaced,
    view,
    ways_into,
    without,
)

pytestmark = pytest.mark.slow


def read(root: Path, name: str, data: bytes) -> None:
    """Read the record that lies there with this content, alone and in the whole run, up to an error of the exchange.

    One of a stored file says which.
    """
    file = root / name
    kept = file.read_bytes()
    file.write_bytes(data)
    try:
        for use in (READERS[name], view, decide_again):
            error = error_of(use, JobFolder(root / "exchange", "dag", "run", "job"))
            assert not isinstance(error, StoredFileError) or error.path in str(error)
    finally:
        file.write_bytes(kept)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_record_with_another_structure_is_refused_by_name_or_whole(
    copied: Path, name: str, data: st.DataObject
) -> None:
    where = str(copied / name)
    payload = decode_json((copied / name).read_bytes(), where=where)
    for _ in range(data.draw(st.integers(1, 3))):
        way = data.draw(st.sampled_from(list(ways_into(payload)) or [()]))
        if way == ():
            break
        if data.draw(st.booleans()):
            payload = without(payload, way)
        else:
            payload = replaced(payload, way, data.draw(st.sampled_from(VALUES)))
    read(copied, name, encode_json(payload))


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_record_with_other_bytes_is_refused_by_name(copied: Path, name: str, data: st.DataObject) -> None:
    whole = (copied / name).read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, min(len(whole), start + 20)))
    read(copied, name, whole[:start] + data.draw(st.binary(max_size=8)) + whole[stop:])


MUTATIONS = 5_000  # over all records


@pytest.mark.parametrize("name", READERS)
def test_thousands_of_mutations_are_each_a_whole_record_or_an_error_that_names_the_file(
    copied: Path, name: str
) -> None:
    """By seed, without the rest of the run: half of them of bytes, half of them of fields under a right checksum."""
    chance = random.Random(name)  # noqa: S311
    whole = (copied / name).read_bytes()
    payload = decode_json(whole, where=name)
    ways, folder = list(ways_into(payload)), JobFolder(copied / "exchange", "dag", "run", "job")
    refused = 0
    try:
        for number in range(-(-MUTATIONS // len(READERS))):
            mutated = mutate_bytes(whole, chance) if number % 2 else mutate_fields(payload, ways, chance)
            (copied / name).write_bytes(mutated)
            error = error_of(READERS[name], folder)
            if error is not None:
                assert isinstance(error, StoredFileError), f"{error!r} of {mutated[:500]!r}"
                assert name.rpartition("/")[2] in error.path
                assert error.path in str(error)
                refused += 1
    finally:
        (copied / name).write_bytes(whole)
    assert refused > 0 or name.rpartition("/")[2].startswith(("try-", "recovery-"))  # those count as not there


def mutate_bytes(whole: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(whole) + 1)
    match chance.randrange(4):
        case 0:
            return whole[:start]
        case 1:
            return whole[:start] + chance.randbytes(chance.randrange(1, 8)) + whole[start:]
        case 2:
            return whole[:start] + whole[min(len(whole), start + chance.randrange(1, 20)) :]
        case _:
            flipped = bytearray(whole)
            flipped[start % len(whole)] ^= 1 << chance.randrange(8)
            return bytes(flipped)


def mutate_fields(payload: dict[str, Any], ways: Sequence[Way], chance: random.Random) -> bytes:
    way = chance.choice(ways)
    changed = without(payload, way) if chance.random() < 0.3 else replaced(payload, way, chance.choice(VALUES))
    return encode_json(changed)
