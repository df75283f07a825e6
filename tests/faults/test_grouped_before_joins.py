"""Partial aggregates of rows that their consumer joins first: lost, in pieces, in steps, cleared, of a hot key."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.durability.prediction import NO_HISTORY, JobHistory, RunHistory
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.records.manifest import Manifest, read_manifest, read_manifests
from airflow_abs.exchange.records.reports import report
from airflow_abs.exchange.records.tries import TryRecord, write_try
from airflow_abs.exchange.runs.cleaning import release_job
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark import durable_edges
from tests.faults.damage import committed_files, delete
from tests.faults.pipeline import answer, make_lake, output, plan_revenue
from tests.faults.test_restarts import run_try
from tests.job_runner import JobRun, plan_run, program_of

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

CHANCE = random.Random(7)  # noqa: S311
KNOWN = JobHistory((RunHistory(0.0, (), partial_shares={"orders": 0.01}),))
"""A run that found a hundred orders of each customer."""
PARTIAL = "partial sum(amount), count(*) by customer_id"
CUSTOMERS = 500


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lake(tmp_path_factory.mktemp("lake"))


def spend(orders: Any, customers: Any) -> Any:
    from pyspark.sql import functions as sf

    joined = orders.join(customers, "customer_id")
    return joined.groupBy("customer_id", "region").agg(sf.sum("amount").alias("amount"), sf.count("*").alias("orders"))


def total(enriched: Any) -> Any:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(sf.sum("amount").alias("revenue"), sf.sum("orders").alias("orders"))


def planned(server: ConnectEndpoint, lake: Path, folder: Path, **options: Any) -> JobRun:
    given: dict[str, Any] = {"transforms": {"enriched": spend, "by_region": total}, "history": KNOWN, **options}
    run = plan_revenue(server, lake, folder, **given)
    (carried,) = (each.written for each in run.plan.region("enriched").inputs if each.name == "enriched.orders")
    assert carried == (PARTIAL if given["history"] is KNOWN else PARTIAL.partition(" by ")[0])
    return run


def run_regions(run: JobRun, *regions: str) -> None:
    for region in regions:
        asyncio.run(run.run_region(region))


def attempts(run: JobRun, region: str) -> list[int]:
    return [manifest.attempt for manifest in read_manifests(run.folder, region, len(run.reports[region]))]


def rows_written(manifest: Manifest) -> int:
    return sum(result.rows for result in manifest.results.values())


def lose(run: JobRun, region: str, index: int) -> None:
    for path, file in committed_files(run.folder, region, index):
        delete(path, file, CHANCE)


@pytest.mark.sample
def test_lost_partial_aggregates_are_recomputed(connect_server: ConnectEndpoint, lake: Path, tmp_path: Path) -> None:
    run = planned(connect_server, lake, tmp_path)
    run_regions(run, "orders", "customers")
    manifests = read_manifests(run.folder, "orders", len(run.reports["orders"]))
    assert {rows_written(each) for each in manifests} == {CUSTOMERS}
    assert sum(result.combined or 0 for each in manifests for result in each.results.values()) == 40_000
    lose(run, "orders", 1)
    run_regions(run, "enriched")
    lose(run, "orders", 0)  # which the next one needs again to recompute what was made of it
    lose(run, "enriched", 2)
    run_regions(run, "by_region")
    run.commit()
    assert output(tmp_path) == answer(lake)
    assert attempts(run, "orders") == [1001, 1001, *[1] * (len(manifests) - 2)]
    assert attempts(run, "enriched") == [1, 1, 1001]


def test_a_producer_that_ran_in_pieces_is_recomputed_in_pieces(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = planned(connect_server, lake, tmp_path, target_bytes=1 << 30)
    stored = run.decide("orders")
    assert stored.decision.parallelism == 1
    failed = TryRecord(1, stored.digest, 1, "", "failed", "SubtaskOutOfMemoryError", time.time())
    write_try(run.folder, "orders", 0, failed)
    pieces = run_try(run, "orders", 2)
    assert rows_written(pieces) == 2 * CUSTOMERS  # each piece has all customers
    run.reports["orders"] = [report(pieces, 1)]
    run_regions(run, "customers")
    lose(run, "orders", 0)
    run_regions(run, "enriched", "by_region")
    run.commit()
    assert output(tmp_path) == answer(lake)
    again = read_manifest(run.folder, "orders", 0)
    assert (again.attempt, rows_written(again)) == (2001, 2 * CUSTOMERS)


@pytest.mark.parametrize("released", [False, True])
def test_cleared_subtasks_run_again(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, released: bool
) -> None:
    run = planned(connect_server, lake, tmp_path)
    run_regions(run, "orders", "customers", "enriched", "by_region")
    run.commit()
    if released:
        release_job(run.folder)
    run_try(run, "enriched", 2, index=1)
    run_try(run, "by_region", 2)
    run.commit()
    assert output(tmp_path) == answer(lake)
    assert set(attempts(run, "orders")) == {1001 if released else 1}
    assert attempts(run, "enriched")[1] == 2


def without_a_quarter(orders: Any) -> Any:
    return orders.where("order_id % 4 <> 3")


@pytest.mark.parametrize("durability", ["auto", "always"])
def test_regions_of_several_steps_write_and_read_partial_aggregates(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orders and their filter are one operation, as all who read them are, or share a task. The first try of each
    region fails; the next one of an operation runs it in steps."""
    monkeypatch.setattr(durable_edges, "_WORTH_STEPS_SECONDS", 0.0)
    run = plan_run(
        connect_server,
        tmp_path / "exchange",
        [
            JobVertex("orders", has_source=True),
            JobVertex("valid"),
            JobVertex("customers", has_source=True),
            JobVertex("enriched", parallelism=1 if durability == "always" else None),  # which keeps it apart
            JobVertex("by_region", has_sink=True),
        ],
        [
            JobEdge("orders", "valid", "orders", Partitioning.HASH, ("order_id",)),
            JobEdge("valid", "enriched", "orders", Partitioning.HASH, ("customer_id",), durable=True),
            JobEdge("customers", "enriched", "customers", Partitioning.HASH, ("customer_id",)),
            JobEdge("enriched", "by_region", "enriched", Partitioning.HASH, ("region",)),
        ],
        [
            program_of("orders", None, {}, Files(f"{lake}/orders")),
            program_of("valid", without_a_quarter),
            program_of("customers", None, {}, Files(f"{lake}/customers")),
            program_of("enriched", spend),
            program_of("by_region", total, {}, sink=Files(str(tmp_path / "mart"))),
        ],
        max_parallelism=16,
        durability=durability,
        share_tasks=True,
        history=JobHistory((RunHistory(0.0, (), partial_shares={"valid": 0.01}),)),
    )
    regions = {region.name: region for region in run.plan.regions}
    (home,) = (name for name, region in regions.items() if "enriched" in region.vertices)
    assert regions["valid"].vertices == ("orders", "valid")
    assert PARTIAL in [each.written for each in regions[home].inputs]
    for name, region in regions.items():
        run.decide(name)
        if durability == "auto":
            assert len(region.retry_steps) > len(region.steps)
        _fail_at(run, name, 0)
        _run_alone(run, name, 2)
    valid = read_manifest(run.folder, "valid", 0)
    assert {each.rows for each in valid.results.values() if each.combined == 30_000} == {CUSTOMERS}
    lose(run, "valid", 0)
    for name in dict.fromkeys((home, "by_region")):
        _run_alone(run, name, 3)
    run.commit()
    expected = f"""SELECT region, sum(amount), count(*) FROM '{lake}/orders/*.parquet'
        JOIN '{lake}/customers/*.parquet' USING (customer_id) WHERE order_id % 4 <> 3 GROUP BY region"""
    assert output(tmp_path) == sorted(duckdb.sql(expected).fetchall())


def _run_alone(run: JobRun, region: str, attempt: int) -> None:
    """Its only subtask."""
    asyncio.run(run.run_subtask(region, 0, attempt))
    run.reports[region] = [report(read_manifest(run.folder, region, 0), 1)]


def _fail_at(run: JobRun, region: str, template: int) -> None:
    """Let the first attempt end where it reads this template."""
    broken = Path(run.folder.step_path(region, template))
    intact = broken.read_bytes()
    broken.write_bytes(b"")
    with pytest.raises(DamagedFileError):
        asyncio.run(run.run_subtask(region, 0, 1))
    broken.write_bytes(intact)


def group_and_join(orders: Any, customers: Any) -> Any:
    from pyspark.sql import functions as sf

    spent = orders.groupBy("customer_id").agg(sf.sum("amount").alias("amount"), sf.count("*").alias("orders"))
    return spent.join(customers, "customer_id")


@pytest.mark.parametrize(
    ("transform", "history"), [(spend, KNOWN), (group_and_join, NO_HISTORY)], ids=["joined first", "grouped first"]
)
def test_a_hot_key_is_one_row_of_each_producer(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, transform: Any, history: JobHistory
) -> None:
    hot = tmp_path / "lake"
    (hot / "orders").mkdir(parents=True)
    (hot / "customers").symlink_to(lake / "customers")
    for part in range(4):
        rows = f"SELECT * REPLACE (CASE WHEN order_id % 20 < 8 THEN 7 ELSE customer_id END AS customer_id) FROM '{lake}"
        duckdb.sql(f"COPY ({rows}/orders/part-{part}.parquet') TO '{hot}/orders/part-{part}.parquet'")
    run = planned(
        connect_server,
        hot,
        tmp_path,
        transforms={"enriched": transform, "by_region": total},
        history=history,
        enriched=None,
        target_bytes=8 * 1024,
        max_parallelism=128,
    )
    run_regions(run, "orders", "customers", "enriched", "by_region")
    run.commit()
    assert output(tmp_path) == answer(hot)
    written = [rows_written(each) for each in read_manifests(run.folder, "orders", len(run.reports["orders"]))]
    assert max(written) <= CUSTOMERS
    decision = run.decisions["enriched"]
    assert decision.parallelism > 1
    assert decision.max_over_mean < 1.3
