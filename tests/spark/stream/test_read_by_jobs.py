"""What a stream has written is read by a job as Spark reads it: what a batch left behind that failed does not count."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG
from deltalake import DeltaTable as Library
from deltalake import write_deltalake

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, DeltaTable, Files
from airflow_abs.core.graph.job_graph import JobVertex, build_job_graph
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.spark.connect.session import open_session
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.declared import find_targets, take_sources
from airflow_abs.testing import run_locally
from airflow_abs.testing.job_run import JobRun
from airflow_abs.testing.rows import describe_difference
from tests.job_runner import OPTIONS, program_of
from tests.spark.stream.streams import Place
from tests.spark.stream.test_supervise import run

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark


def by_key(orders: Any) -> Any:
    return orders.selectExpr("id", "concat('a:b %', key) AS key")


def test_a_job_reads_the_files_of_whole_batches(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    place = Place(connect_server, tmp_path, by_key, partition_by=("key",))
    place.deliver(0)
    plan = place.compile()
    run(place, plan)
    place.deliver(1)
    run(place, plan)
    out = tmp_path / "out"
    for number, file in enumerate(sorted(out.glob("key=*/*.parquet"))[:5]):  # as a killed batch leaves them
        shutil.copy(file, file.with_name(f"part-0000{number}-of-a-failed-batch.c000.snappy.parquet"))
    with open_session(connect_server) as session:
        expected = session.read.parquet(str(out)).toArrow()
        everything = session.read.parquet(str(out / "key=*")).count()
    assert (len(expected), everything > 200) == (200, True)
    with DAG("read"), AdaptiveSparkJob("job") as job:
        AdaptiveSparkOperator(task_id="orders", source=Files(str(out)))
    for parallelism in (1, 3):
        found = run_locally(job, parallelism, endpoint=connect_server)["orders"].rows
        assert describe_difference(found, expected) is None


@pytest.mark.sample
def test_a_stream_ends_in_a_table_with_every_row_once(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    place = Place(connect_server, tmp_path, by_key)
    out, table = tmp_path / "out", str(tmp_path / "table")
    write_deltalake(table, pa.schema([("id", pa.int64()), ("key", pa.string())]).empty_table())
    graph = build_job_graph([JobVertex("orders", has_source=True, has_sink=True)], [], 8)

    def load(run_id: str) -> None:
        folder = JobFolder(tmp_path / "exchange", "dag", run_id, "job")
        source = Files(str(out), incremental=True)
        taken = take_sources(folder, graph, {"orders": source}, Path, lambda _: True)
        (target,) = find_targets({"orders": DeltaTable(table, mode="append")}, TableAccess(lambda _: {}, Path)).values()
        programs = {"orders": program_of("orders", None, {}, taken["orders"], target)}
        planned = JobRun.planned(connect_server, folder, graph, programs, OPTIONS)
        assert asyncio.run(planned.run_regions()) == {}
        planned.commit()

    plan = b""
    for hour in range(3):
        place.deliver(hour)
        plan = plan or place.compile()
        run(place, plan)
        left = next(out.glob("*.parquet"))
        shutil.copy(left, left.with_name(f"part-0000{hour}-of-a-failed-batch.c000.snappy.parquet"))
        load(f"hour-{hour}")
        load(f"hour-{hour}")  # cleared
    assert sorted(pa.table(Library(table).scan())["id"].to_pylist()) == list(range(300))
