"""A whole job on a Spark server of one core: every region is one slot wide, and none waits for another without end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from tests.job_runner import plan_run, program_of, rows

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

KIB = 1024


@pytest.fixture(scope="module")
def one_core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectEndpoint]:
    from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
    from airflow_abs.spark.server.embedded_state import EmbeddedSettings

    folder = tmp_path_factory.mktemp("one-core")
    folder.chmod(0o700)
    try:
        yield ensure_embedded_server(folder, settings=EmbeddedSettings(cores=1, driver_memory="1g", idle_seconds=600))
    finally:
        stop_embedded_server(folder)


def joined(orders: Any, customers: Any) -> Any:
    return orders.join(customers, "customer_id")


def summed(joined: Any) -> Any:
    from pyspark.sql import functions as sf

    return joined.groupBy("region").agg(sf.sum("cents").alias("cents"), sf.count("*").alias("orders"))


@pytest.mark.parametrize(("strategy", "subpartitions"), [("balanced", 20), ("power_of_two", 16)])
def test_a_job_of_two_sources_a_join_and_a_total_ends_on_one_slot(
    one_core: ConnectEndpoint, tmp_path: Path, strategy: str, subpartitions: int
) -> None:
    lake = tmp_path / "lake"
    for name, query in {
        "orders": "SELECT range AS order_id, (hash(range) % 500)::BIGINT AS customer_id, range % 97 AS cents",
        "customers": "SELECT range AS customer_id, 'region ' || (range % 7) AS region",
    }.items():
        (lake / name).mkdir(parents=True)
        for part in range(3):
            count = 20_000 if name == "orders" else 200
            of = f"{query} FROM range({part * count}, {(part + 1) * count})"
            duckdb.sql(f"COPY ({of}) TO '{lake / name}/{part}.parquet' (FORMAT parquet)")
    vertices = [
        JobVertex("orders", has_source=True),
        JobVertex("customers", has_source=True),
        JobVertex("joined"),
        JobVertex("summed", has_sink=True),
    ]
    edges = [
        JobEdge("orders", "joined", "orders", Partitioning.HASH, ("customer_id",)),
        JobEdge("customers", "joined", "customers", Partitioning.HASH, ("customer_id",)),
        JobEdge("joined", "summed", "joined", Partitioning.HASH, ("region",)),
    ]
    programs = [
        program_of("orders", None, {}, Files(str(lake / "orders"))),
        program_of("customers", None, {}, Files(str(lake / "customers"))),
        program_of("joined", joined),
        program_of("summed", summed, sink=Files(str(tmp_path / "out"))),
    ]
    options = {"strategy": strategy, "max_parallelism": 20, "target_bytes": 16 * KIB, "slots": None}
    run = plan_run(one_core, tmp_path / "exchange", vertices, edges, programs, **options)
    assert run.plan.slots == 1
    assert {region.subpartitions for region in run.plan.regions if region.inputs} == {subpartitions}
    assert asyncio.run(run.run_regions()) == {}
    run.commit()
    assert run.decisions["joined"].parallelism > 3
    if strategy == "power_of_two":
        assert len({len(each.subpartitions or ()) for each in run.decisions["joined"].subtasks}) == 1
    query = f"""
        SELECT region, sum(cents), count(*) FROM '{lake}/orders/*.parquet' JOIN '{lake}/customers/*.parquet'
        USING (customer_id) GROUP BY region"""
    assert rows(f"SELECT region, cents, orders FROM '{tmp_path}/out/**/*.parquet'") == rows(query)
