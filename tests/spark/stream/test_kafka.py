"""What is particular to a source that is a Kafka topic, on plans as Spark Connect sends them; no broker."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.exchange.errors import CheckpointMisfitError
from airflow_abs.exchange.streaming.stored_query import store_query
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.stream.fit import Candidate, check_fit
from airflow_abs.spark.stream.query import StreamProgress
from airflow_abs.spark.stream.stream import Stream
from airflow_abs.spark.stream.trial import without_rows
from airflow_abs.spark.template import relations_in


def plan_of(out: str, **options: str) -> bytes:
    proto = protos()
    read = proto.Read(is_streaming=True, data_source=proto.Read.DataSource(format="kafka", options=options))
    start = proto.WriteStreamOperationStart(input=proto.Relation(read=read), format="parquet", path=out)
    return bytes(proto.Plan(command=proto.Command(write_stream_operation_start=start)).SerializeToString())


def source_of(plan: bytes) -> Any:
    start = protos().Plan.FromString(plan).command.write_stream_operation_start
    (source,) = [each.read.data_source for each in relations_in(start.input) if each.WhichOneof("rel_type") == "read"]
    return source


def test_slots_decide_how_much_is_read_at_once_and_in_how_many_parts() -> None:
    plan = plan_of("/out", subscribe="clicks")
    stream = Stream("clicks", plan, {}, rescale=Rescale(partitions_per_slot=2, files_per_slot=9, records_per_slot=500))
    assert source_of(stream.at(4)[1]).options == {
        "subscribe": "clicks",
        "maxOffsetsPerTrigger": "2000",
        "minPartitions": "8",
    }
    as_declared = Stream("clicks", plan, {}, rescale=Rescale())
    assert source_of(as_declared.at(3)[1]).options == {"subscribe": "clicks", "minPartitions": "3"}


def test_the_secrets_of_a_connection_are_in_what_is_started_only_and_are_redacted() -> None:
    plan = plan_of("/out", subscribe="clicks", **{"kafka.bootstrap.servers": "from-the-connection:9"})
    login = 'Login required username="a" password="p\\"w";'
    told = {"kafka.bootstrap.servers": "k:9093", "kafka.sasl.jaas.config": login}
    key = {"kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nMIGH\n"}
    conf = {"spark.sql.redaction.string.regex": "mine"}
    stream = Stream("clicks", plan, conf, source_options=lambda: told, sink_options=lambda: key)
    settings, started = stream.at(1)
    assert source_of(started).options == {"subscribe": "clicks", **told}
    start = protos().Plan.FromString(started).command.write_stream_operation_start
    assert start.options == key
    assert login not in str(stream)
    pattern = settings["spark.sql.redaction.string.regex"]
    assert pattern.endswith("|mine")
    shown = re.sub(pattern, "*", str(start))  # what Spark shows of a plan, in the same notation
    assert "sasl.jaas" in str(start)
    for secret in ("sasl.jaas", "p\\", "MIGH"):
        assert secret not in shown
    assert "k:9093" in shown


@pytest.mark.parametrize("as_text", [False, True])
def test_how_far_a_stream_is_behind_is_told_by_its_offsets(as_text: bool) -> None:
    def offsets(*at: int) -> object:
        told = {"clicks": dict(zip("01", at, strict=False))}
        return json.dumps(told) if as_text else told

    source = {
        "numInputRows": 100,
        "startOffset": offsets(0),
        "endOffset": offsets(100),
        "latestOffset": offsets(250, 50),
    }
    told = {"batchId": 4, "timestamp": "2026-01-01T00:00:10.500Z", "batchDuration": 2000}
    progress = StreamProgress.from_spark(json.dumps({**told, "durationMs": {"addBatch": 1}, "sources": [source]}))
    assert progress is not None
    # 150 of partition 0, 50 of one that is new: two more batches of 2 s after this one
    assert (progress.rows_behind, progress.wait_of_next, progress.files) == (200, 6.0, ())


def test_without_offsets_nobody_knows_how_far_it_is_behind() -> None:
    progress = StreamProgress(1, 10, 2.0, 0, 0)
    assert progress.wait_of_next is None
    assert replace(progress, rows=0, rows_behind=7).wait_of_next is None
    assert replace(progress, rows=0, rows_behind=0).wait_of_next == 2.0


@pytest.mark.parametrize(("options", "has"), [({"includeHeaders": "true"}, True), ({"includeheaders": "false"}, False)])
def test_a_trial_has_the_column_that_headers_add(tmp_path: Path, options: dict[str, str], has: bool) -> None:
    schema = source_of(without_rows(plan_of("/out", subscribe="clicks", **options), tmp_path)).schema
    assert ("headers ARRAY<STRUCT<key: STRING, value: BINARY>>" in schema) is has
    assert schema.startswith("key BINARY, value BINARY")


class Went:
    """A stream that has done one batch into `out`, with the plan that it was started with."""

    def __init__(self, root: Path, plan: bytes) -> None:
        self.checkpoint, self.out = root / "checkpoint", root / "out"
        for folder, text in (("offsets", "v1\n{}\n{}"), ("commits", 'v1\n{"nextBatchWatermarkMs":0}')):
            file = self.checkpoint / "spark" / folder / "0"
            file.parent.mkdir(parents=True)
            file.write_text(text)
        log = self.out / "_spark_metadata/0"
        log.parent.mkdir(parents=True)
        log.write_text("v1\n" + json.dumps({"path": "x"}))
        store_query(self.checkpoint, plan)

    def verdict(self, plan: bytes) -> str:
        candidate = Candidate("stream 'clicks'", plan, {}, self.checkpoint, self.out)
        try:
            asyncio.run(check_fit(Connection.__new__(Connection), candidate))
        except CheckpointMisfitError as error:
            return str(error)
        return ""


def test_another_topic_is_refused_and_the_same_ones_in_another_order_are_not(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    went = Went(tmp_path, plan_of(out, subscribe="clicks,views", startingOffsets="earliest"))
    told = went.verdict(plan_of(out, subscribe="orders", startingOffsets="earliest"))
    assert "it reads Kafka's orders now, and has read Kafka's clicks, views: Spark resumes in the same" in told
    assert "reads Kafka's clicks now" in went.verdict(plan_of(out, subscribe="clicks", startingOffsets="earliest"))
    assert went.verdict(plan_of(out, subscribe="clicks,views", startingOffsets="earliest")) == ""
