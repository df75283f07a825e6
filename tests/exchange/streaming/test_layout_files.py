"""How a query is laid out is read from what Spark leaves of it, on every kind of storage."""

from __future__ import annotations

import json
import struct

import pytest

from airflow_abs.core.streaming.query_layout import QueryLayout, StatefulOperator, StateStore
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.whole_files import write_atomic
from airflow_abs.exchange.streaming.layout_files import read_layout, sink_has_batch

OFFSETS = b"""v1
{"batchWatermarkMs":0,"batchTimestampMs":1767225600000,"conf":{"spark.sql.shuffle.partitions":"4"}}
{"logOffset":0}
-"""
SETTINGS = {"spark.sql.shuffle.partitions": "4"}
KEY = {"type": "struct", "fields": [{"name": "käse", "type": "long", "nullable": True, "metadata": {}}]}
VALUE = {"type": "struct", "fields": []}


def utf(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def schema(version: str = "v2") -> bytes:
    key, value = json.dumps(KEY, ensure_ascii=False), json.dumps(VALUE)
    pieces = struct.pack(">i", 2) + utf(key[:10]) + utf(key[10:])
    return utf(version) + pieces + struct.pack(">i", 1) + utf(value)


def metadata(kind: str, *names: str) -> bytes:
    stores = [{"storeName": name, "numColsPrefixKey": 0, "numPartitions": 4} for name in names]
    told = {"operatorInfo": {"operatorId": 0, "operatorName": kind}, "stateStoreInfo": stores}
    return b"v1\n" + json.dumps(told).encode()


def test_sources_settings_operators_and_the_schemas_of_their_stores_are_read(job: JobFolder) -> None:
    spark = job.root / "spark"
    write_atomic(spark / "offsets/7", OFFSETS)
    write_atomic(spark / "state/0/_metadata/metadata", metadata("dedupe", "default"))
    write_atomic(spark / "state/0/0/_metadata/schema", schema())
    write_atomic(spark / "state/10/_metadata/metadata", metadata("symmetricHashJoin", "left", "right"))
    write_atomic(spark / "state/10/0/left/_metadata/schema", schema())
    assert read_layout(spark, 7) == QueryLayout(
        2,
        (
            StatefulOperator(0, "dedupe", (StateStore("default", KEY, VALUE),)),
            StatefulOperator(10, "symmetricHashJoin", (StateStore("left", KEY, VALUE),)),
        ),
        SETTINGS,
    )


def test_a_query_without_state_has_no_operators(job: JobFolder) -> None:
    write_atomic(job.root / "spark/offsets/0", OFFSETS)
    assert read_layout(job.root / "spark", 0) == QueryLayout(2, (), SETTINGS)


@pytest.mark.parametrize("data", [schema("v3"), schema()[:-1], b"", utf("v2") + struct.pack(">i", 1) + utf("{")])
def test_a_store_that_is_described_otherwise_is_left_out(job: JobFolder, data: bytes) -> None:
    spark = job.root / "spark"
    write_atomic(spark / "offsets/0", OFFSETS)
    write_atomic(spark / "state/0/_metadata/metadata", metadata("dedupe", "default"))
    write_atomic(spark / "state/0/0/_metadata/schema", data)
    assert read_layout(spark, 0) == QueryLayout(2, (StatefulOperator(0, "dedupe"),), SETTINGS)


@pytest.mark.parametrize("data", [b"v2\n{}", b"v1\n", b"v1\n{}\n-", b"\xff"])
def test_a_checkpoint_that_is_written_otherwise_has_no_layout(job: JobFolder, data: bytes) -> None:
    write_atomic(job.root / "spark/offsets/0", data)
    assert read_layout(job.root / "spark", 0) is None


def test_the_log_of_a_sink_has_a_batch_by_itself_or_in_a_compacted_file(job: JobFolder) -> None:
    sink = job.root / "mart"
    assert not sink_has_batch(sink, 9)
    write_atomic(sink / "_spark_metadata/9.compact", b"v1")
    write_atomic(sink / "_spark_metadata/10", b"v1")
    assert [sink_has_batch(sink, batch) for batch in (8, 9, 10)] == [False, True, True]
