"""The record of a stream's life on every kind of storage: written whole, checked when read, done without if need be."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from airflow_abs.core.stream_life.life import (
    KEPT_BATCHES,
    KEPT_CHANGES,
    KEPT_NOTES,
    KEPT_TEXT,
    Batch,
    Note,
    StateChange,
    StreamLife,
)
from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.exchange.streaming.life_record import continue_life, read_life, write_life

LIFE = StreamLife(
    "clicks/run/by_minute",
    "by_minute 1",
    (StateChange(1.5, "Created", "WaitingForResources", "started"),),
    (Note(2.0, "somebody has asked it to drain"),),
    (Batch(0, 3.0, 0.25, 100, 7, 12, 4096, 5.5), Batch(1, 4.0, 0.5, 0)),
    restarts=2,
    rescales=1,
    alarm="the lag grew",
)


def test_what_was_written_is_read(job: JobFolder) -> None:
    checkpoint = job.root / "checkpoint"
    assert read_life(checkpoint) is None
    write_life(checkpoint, LIFE)
    assert read_life(checkpoint) == LIFE
    assert continue_life(checkpoint) == LIFE


def test_a_damaged_one_is_named_to_who_looks_and_begun_anew_by_who_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_life(tmp_path, LIFE)
    place = tmp_path / "_airflow_abs" / "life.json"
    place.write_bytes(place.read_bytes()[:-20])
    with pytest.raises(DamagedFileError, match=r"life\.json: .* bytes that do not end in a checksum"):
        read_life(tmp_path)
    assert continue_life(tmp_path) == StreamLife()
    assert "the stream's record cannot be read, and starts over" in caplog.text


def test_one_that_does_not_say_what_it_has_to_is_damaged(tmp_path: Path) -> None:
    write_json(tmp_path / "_airflow_abs" / "life.json", {"changes": [], "batches": [{"number": "seven"}]})
    with pytest.raises(DamagedFileError, match="number"):
        read_life(tmp_path)


def test_a_storage_that_refuses_costs_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "_airflow_abs").write_text("a file where the folder would be")
    with caplog.at_level(logging.WARNING):
        write_life(tmp_path, LIFE)
    assert "the stream's record cannot be written" in caplog.text


def test_the_largest_record_is_small(tmp_path: Path) -> None:
    life = LIFE
    for number in range(KEPT_BATCHES):
        life = life.with_batch(Batch(10**9 + number, 2e9 + 0.123456, 1e4 / 3, 10**12, 10**12, 10**12, 10**14, 1e7 / 3))
    for number in range(KEPT_CHANGES):
        life = life.with_change(StateChange(2e9 + number / 3, "WaitingForResources", "Finished", "é" * 2 * KEPT_TEXT))
    for number in range(KEPT_NOTES):
        life = life.with_note(Note(2e9 + number / 3, "x" * KEPT_TEXT))
    write_life(tmp_path, life)
    assert (tmp_path / "_airflow_abs" / "life.json").stat().st_size < 2**20
