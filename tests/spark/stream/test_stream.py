"""What of a stream follows the slots, on a plan that Spark has analysed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.state_partitions import ROCKSDB, STATE_STORE
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.stream.query import SESSION_SETTINGS
from airflow_abs.spark.stream.stream import Stream
from airflow_abs.spark.template import relations_in
from tests.spark.stream.streams import Place

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark


def options_of_reads(plan: bytes) -> list[tuple[bool, str]]:
    """Whether each read is a stream, and of how many files a batch."""
    start = protos().Plan.FromString(plan).command.write_stream_operation_start
    reads = [each.read for each in relations_in(start.input) if each.WhichOneof("rel_type") == "read"]
    return sorted((read.is_streaming, read.data_source.options["maxFilesPerTrigger"]) for read in reads)


def test_partitions_and_files_of_a_batch_are_so_many_for_each_slot(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    def joined(orders: Any) -> Any:
        known = orders.sparkSession.read.schema("id BIGINT").parquet(str(tmp_path / "known"))
        return orders.join(orders.select("id"), "id").join(known, "id", "left_semi")

    for name in ("in", "known"):
        (tmp_path / name).mkdir()
    plan = Place(connect_server, tmp_path, joined).compile()
    stream = Stream("orders", plan, {"a": "b"}, rescale=Rescale(partitions_per_slot=2, files_per_slot=3))
    conf, scaled = stream.at(4)
    assert conf == {**SESSION_SETTINGS, "a": "b", "spark.sql.shuffle.partitions": "8"}
    assert options_of_reads(scaled) == [(False, ""), (True, "12"), (True, "12")]
    assert options_of_reads(plan) == [(False, ""), (True, "1"), (True, "1")]


def test_what_does_not_follow_stays_as_it_was_compiled() -> None:
    assert Stream("orders", b"plan", {"a": "b"}).at(4) == ({**SESSION_SETTINGS, "a": "b"}, b"plan")
    assert Stream("orders", b"", {}, rescale=Rescale()).at(4)[1] == b""


def test_state_that_is_to_be_repartitioned_is_kept_by_rocksdb() -> None:
    stream = Stream("orders", b"", {}, rescale=Rescale(repartition_state="local[2]"))
    assert stream.at(4)[0][STATE_STORE] == ROCKSDB
    assert stream.partitions(4) == 4
    assert Stream("orders", b"plan", {}).partitions(4) is None
