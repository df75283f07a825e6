"""What a person clears afterwards: only that runs again, also when the run's data was released."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.manifest import read_manifests
from airflow_abs.exchange.runs.cleaning import release_job
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.storage.whole_files import write_json
from tests.faults.pipeline import answer, make_lake, output, plan_revenue
from tests.faults.test_restarts import run_try
from tests.job_runner import JobRun, plan_run, program_of

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lake(tmp_path_factory.mktemp("lake"))


def finished(server: ConnectEndpoint, lake: Path, folder: Path) -> JobRun:
    run = plan_revenue(server, lake, folder)
    for region in ("orders", "customers", "enriched", "by_region"):
        asyncio.run(run.run_region(region))
    run.commit()
    return run


def attempts(run: JobRun, region: str) -> list[int]:
    return [manifest.attempt for manifest in read_manifests(run.folder, region, len(run.reports[region]))]


@pytest.mark.sample
def test_a_cleared_subtask_runs_again_alone(connect_server: ConnectEndpoint, lake: Path, tmp_path: Path) -> None:
    run = finished(connect_server, lake, tmp_path)
    run_try(run, "enriched", 2, index=1)
    run_try(run, "by_region", 2)
    run.commit()
    assert output(tmp_path) == answer(lake)
    assert (attempts(run, "enriched"), attempts(run, "by_region")) == ([1, 2, 1], [2])
    assert set(attempts(run, "orders")) == {1}


def test_a_subtask_cleared_after_the_release_has_its_inputs_again(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = finished(connect_server, lake, tmp_path)
    release_job(run.folder)
    run_try(run, "by_region", 2)
    run.commit()
    assert output(tmp_path) == answer(lake)
    assert attempts(run, "enriched") == [1001] * 3
    assert set(attempts(run, "orders")) == {1001}  # once, although three subtasks of enriched needed each of them


def test_the_other_subtasks_of_a_sink_keep_what_they_published(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = plan_run(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("orders", has_source=True), JobVertex("copy", parallelism=3, has_sink=True)],
        [JobEdge("orders", "copy", "orders", Partitioning.HASH, ("customer_id",))],
        [
            program_of("orders", None, {}, Files(f"{lake}/orders")),
            program_of("copy", None, {}, sink=Files(f"{tmp_path}/mart", mode="append")),
        ],
        max_parallelism=8,
    )
    for region in ("orders", "copy"):
        asyncio.run(run.run_region(region))
    run.commit()
    release_job(run.folder)
    run_try(run, "copy", 2, index=1)
    run.commit()
    assert attempts(run, "copy") == [1, 2, 1]
    import duckdb

    counted = "SELECT count(*), count(DISTINCT order_id), sum(amount) FROM read_parquet('{}/*.parquet')"
    mart, orders = (duckdb.sql(counted.format(place)).fetchall() for place in (f"{tmp_path}/mart", f"{lake}/orders"))
    assert mart == orders


@pytest.mark.parametrize("target_bytes", [20 * 1024, 10_000_000])
def test_a_wider_or_narrower_decision_leaves_no_orphans(
    target_bytes: int, connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    """Everything from `decide` of the join on is cleared, and decides otherwise this time."""
    run = plan_revenue(connect_server, lake, tmp_path, enriched=None, target_bytes=80 * 1024)
    for region in ("orders", "customers", "enriched", "by_region"):
        asyncio.run(run.run_region(region))
    run.commit()
    before = run.decisions["enriched"].parallelism
    run.plan = replace(run.plan, options=replace(run.plan.options, target_bytes=target_bytes))
    write_json(run.folder.plan_path, run.plan.to_json())
    run.decide("enriched")
    assert run.decisions["enriched"].parallelism != before
    for region in ("enriched", "by_region"):
        asyncio.run(run.run_region(region, attempt=3))
    run.commit()
    assert output(tmp_path) == answer(lake)
    assert attempts(run, "enriched") == [3] * run.decisions["enriched"].parallelism
