"""What is done about the state of a stream before each of its starts; what Spark would write is written by the test."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_abs.core.streaming.failures import QueryFailure
from airflow_abs.core.streaming.state_partitions import ROCKSDB, STATE_STORE
from airflow_abs.exchange.streaming.lease import CheckpointLease, Holder
from airflow_abs.exchange.streaming.repartitioning import read_repartitioning
from airflow_abs.exchange.streaming.spark_checkpoint import SparkCheckpoint, read_spark_checkpoint
from airflow_abs.spark.stream import state_partitions
from airflow_abs.spark.stream.repartition import RepartitionError, RepartitionRequest
from airflow_abs.spark.stream.state_partitions import StatePartitions


@dataclass(slots=True)
class Checkpoint:
    """A deduplication in `root`, as Spark writes it; `fails` after so many of the four things that it writes."""

    root: Path
    fails: int | None = None
    notes: list[str] = field(default_factory=list)

    def write(self, name: str, text: str = "v1\n{}") -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def begin(self, batch: int, partitions: int, store: str = ROCKSDB) -> None:
        conf = {"spark.sql.shuffle.partitions": str(partitions), STATE_STORE: store}
        self.write(f"checkpoint/spark/offsets/{batch}", "v1\n" + json.dumps({"conf": conf}) + '\n{"logOffset":0}')
        metadata = {"operatorInfo": {"operatorName": "dedupe"}, "stateStoreInfo": [{"storeName": "default"}]}
        self.write("checkpoint/spark/state/0/_metadata/metadata", "v1\n" + json.dumps(metadata))

    def finish(self, batch: int) -> None:
        self.write(f"out/_spark_metadata/{batch}")
        self.write(f"checkpoint/spark/commits/{batch}")

    async def repartition(self, request: RepartitionRequest, environment: object, renew: object) -> None:
        steps = (
            lambda: self.begin(request.batch, request.partitions),
            lambda: self.write(f"checkpoint/spark/state/0/0/{request.batch + 1}.zip"),
            lambda: self.write(f"checkpoint/spark/commits/{request.batch}"),
            lambda: self.write(f"out/_spark_metadata/{request.batch}"),
        )
        for step in steps[: self.fails]:
            step()
        if self.fails is not None:
            raise RepartitionError("the disk is full")

    def partitions(self, process: str = "one", master: str = "local[1]") -> StatePartitions:
        lease = CheckpointLease(self.root / "checkpoint", Holder("task", process), time.time)
        lease.take()
        return StatePartitions("clicks", lease, self.root / "out", master, self.notes.append)

    @property
    def spark(self) -> SparkCheckpoint:
        return read_spark_checkpoint(self.root / "checkpoint/spark")


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    made = Checkpoint(tmp_path)
    made.begin(0, 2)
    made.finish(0)
    monkeypatch.setattr(state_partitions, "run_repartition", made.repartition)
    monkeypatch.setattr(state_partitions, "application_environment", dict)
    monkeypatch.setattr(state_partitions, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(state_partitions, "_GRACE_SECONDS", 0.0)
    return made


async def nothing_begun() -> QueryFailure | None:
    raise AssertionError("no batch was begun")


def prepare(state: StatePartitions, wanted: int | None, *, is_alone: bool = True) -> QueryFailure | None:
    return asyncio.run(state.prepare(wanted, nothing_begun, is_alone=is_alone))


def test_state_is_cut_into_as_many_partitions_as_the_start_has(checkpoint: Checkpoint) -> None:
    assert prepare(checkpoint.partitions(), 3) is None
    assert checkpoint.spark == SparkCheckpoint(1, 1, 3)
    assert checkpoint.notes[0].startswith("its state has 3 partitions instead of 2 now, as batch 1 (")


def test_nothing_is_done_for_as_many_as_there_are_or_where_nothing_follows_the_slots(checkpoint: Checkpoint) -> None:
    for wanted in (2, None):
        prepare(checkpoint.partitions(), wanted)
    assert (checkpoint.spark, checkpoint.notes) == (SparkCheckpoint(0, 0, 2), [])


def test_without_the_option_the_state_keeps_its_partitions(checkpoint: Checkpoint) -> None:
    prepare(checkpoint.partitions(master=""), 3)
    assert checkpoint.notes == [
        "its state keeps 2 partitions instead of 3: Spark fixes them with the first batch of a checkpoint; "
        "Rescale(repartition_state=...) repartitions it"
    ]


def test_state_in_another_store_keeps_its_partitions(checkpoint: Checkpoint) -> None:
    checkpoint.begin(0, 2, store="a.HDFSBackedStateStoreProvider")
    prepare(checkpoint.partitions(), 3)
    assert checkpoint.notes[0].startswith(
        "its state keeps 2 partitions instead of 3: it is kept by HDFSBackedStateStoreProvider, and Spark"
    )
    assert checkpoint.spark.state_partitions == 2


def test_while_another_query_may_run_nothing_is_touched(checkpoint: Checkpoint) -> None:
    prepare(checkpoint.partitions(), 3, is_alone=False)
    assert checkpoint.notes == [
        "its state keeps 2 partitions instead of 3: its last query was on another Spark server, where it may still "
        "run; the next start tries it again"
    ]
    assert checkpoint.spark.begun == 0


def test_a_batch_that_was_begun_is_done_first(checkpoint: Checkpoint) -> None:
    checkpoint.begin(1, 2)

    async def finish() -> QueryFailure | None:
        checkpoint.finish(1)
        return None

    asyncio.run(checkpoint.partitions().prepare(3, finish))
    assert checkpoint.spark == SparkCheckpoint(2, 2, 3)


def test_a_batch_that_fails_is_told_and_nothing_is_repartitioned(checkpoint: Checkpoint) -> None:
    checkpoint.begin(1, 2)

    async def fail() -> QueryFailure | None:
        return QueryFailure("a broken file")

    assert asyncio.run(checkpoint.partitions().prepare(3, fail)) == QueryFailure("a broken file")
    assert checkpoint.spark == SparkCheckpoint(1, 0, 2)


@pytest.mark.parametrize("written", range(5))
def test_what_fails_is_undone_and_given_up_after_two_times(checkpoint: Checkpoint, written: int) -> None:
    checkpoint.fails = written
    state = checkpoint.partitions()
    for _ in range(2):
        prepare(state, 3)
        assert checkpoint.spark == SparkCheckpoint(0, 0, 2)
        assert read_repartitioning(checkpoint.root / "checkpoint") is None
    assert checkpoint.notes == ["its state has 2 partitions as before, 3 were undone: the disk is full"] * 2
    prepare(state, 3)
    assert checkpoint.notes[-1] == (
        "its state keeps 2 partitions instead of 3: that was undone 2 times; the next try of the task tries it again"
    )


@pytest.mark.parametrize("written", range(4))
def test_what_another_process_left_midway_is_undone_and_done_again(checkpoint: Checkpoint, written: int) -> None:
    prepare(checkpoint.partitions(), 3)
    gone = ("out/_spark_metadata/1", "checkpoint/spark/commits/1", "checkpoint/spark/state/0/0/2.zip")
    for name in (*gone, "checkpoint/spark/offsets/1")[: 4 - written]:
        (checkpoint.root / name).unlink()
    prepare(checkpoint.partitions("two"), 3)
    assert "its state has 2 partitions as before, 3 were undone: it was left midway" in checkpoint.notes
    assert checkpoint.spark == SparkCheckpoint(1, 1, 3)


def test_one_that_is_whole_is_gone_on_from_by_the_next_process(checkpoint: Checkpoint) -> None:
    prepare(checkpoint.partitions(), 3)
    prepare(checkpoint.partitions("two"), 3)
    assert (checkpoint.spark, len(checkpoint.notes)) == (SparkCheckpoint(1, 1, 3), 1)


def test_it_is_undone_if_the_query_fails_before_its_first_batch_with_it(checkpoint: Checkpoint) -> None:
    state = checkpoint.partitions()
    prepare(state, 3)
    checkpoint.begin(2, 3)  # and fails
    prepare(state, 2)
    assert checkpoint.spark == SparkCheckpoint(0, 0, 2)
    assert checkpoint.notes[-1].endswith("the query has ended before its first batch with it was done")


def test_rows_that_were_published_are_not_taken_back(checkpoint: Checkpoint) -> None:
    state = checkpoint.partitions()
    prepare(state, 3)
    checkpoint.begin(2, 3)
    checkpoint.write("out/_spark_metadata/2")
    prepare(state, 3)
    assert checkpoint.spark == SparkCheckpoint(2, 1, 3)


def test_it_is_forgotten_once_a_batch_has_followed(checkpoint: Checkpoint) -> None:
    state = checkpoint.partitions()
    prepare(state, 3)
    checkpoint.begin(2, 3)
    checkpoint.finish(2)
    prepare(state, 3)
    assert read_repartitioning(checkpoint.root / "checkpoint") is None
    assert checkpoint.spark == SparkCheckpoint(2, 2, 3)
