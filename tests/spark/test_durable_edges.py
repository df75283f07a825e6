"""A day on which edges are kept inside Spark gives the rows of a day on which all are written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.records.manifest import read_manifest
from airflow_abs.exchange.records.plan import PlannedStep, read_plan
from airflow_abs.exchange.records.reports import report
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark import durable_edges
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.execute import Progress
from airflow_abs.spark.connect.operations import derive_id, release_session, set_config
from airflow_abs.spark.run.stage_order import StageOrder, explain_marked, order_stages
from airflow_abs.spark.run.subtask import SubtaskAttempt, run_subtask
from airflow_abs.spark.run.subtask_spec import SubtaskSpec
from airflow_abs.spark.run.work import AttemptWork
from tests.job_runner import JobRun, plan_run, program_of

pytestmark = pytest.mark.spark

HASH, BROADCAST, RESCALE = Partitioning.HASH, Partitioning.BROADCAST, Partitioning.RESCALE

# orders --rescale--> valid --hash--> enriched (sink) --hash--> totals ----hash--> shares (sink)
#                customers -broadcast-^            `--hash--> counts ---hash--^
VERTICES = [
    JobVertex("orders", has_source=True),
    JobVertex("customers", has_source=True),
    JobVertex("valid"),
    JobVertex("enriched", has_sink=True),
    JobVertex("totals"),
    JobVertex("counts"),
    JobVertex("shares", has_sink=True),
]
EDGES = [
    JobEdge("orders", "valid", "orders", RESCALE),
    JobEdge("valid", "enriched", "valid", HASH, ("customer_id",)),
    JobEdge("customers", "enriched", "customers", BROADCAST),
    JobEdge("enriched", "totals", "enriched", HASH, ("region",)),
    JobEdge("enriched", "counts", "enriched", HASH, ("region",)),
    JobEdge("totals", "shares", "totals", HASH, ("region",)),
    JobEdge("counts", "shares", "counts", HASH, ("region",)),
]

INFERRED = [replace(EDGES[0], partitioning=Partitioning.INFERRED), *EDGES[1:]]


def only_valid(orders: Any) -> Any:
    return orders.where("amount % 7 <> 0")


def enrich(valid: Any, customers: Any) -> Any:
    return valid.join(customers, "customer_id").select("order_id", "customer_id", "amount", "region")


def total(enriched: Any) -> Any:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(sf.sum("amount").alias("amount"))


def count(enriched: Any) -> Any:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(sf.countDistinct("customer_id").alias("customers"))


def share(totals: Any, counts: Any) -> Any:
    return totals.join(counts, "region").selectExpr("region", "amount DIV customers AS share")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    (folder / "orders").mkdir()
    (folder / "customers").mkdir()
    for number in range(3):
        ids = list(range(number * 1000, (number + 1) * 1000))
        rows = {"order_id": ids, "customer_id": [each * 13 % 97 for each in ids], "amount": [each * 31 for each in ids]}
        pq.write_table(pa.table(rows), folder / "orders" / f"{number}.parquet")
    customers = {"customer_id": list(range(90)), "region": [f"r{each % 6}" for each in range(90)]}
    pq.write_table(pa.table(customers), folder / "customers" / "0.parquet")
    return folder


def plan(
    server: ConnectEndpoint,
    lake: Path,
    root: Path,
    edges: Sequence[JobEdge] = EDGES,
    *,
    transforms: Mapping[str, Any] | None = None,
    **options: Any,
) -> JobRun:
    programs = [
        program_of("orders", None, {}, Files(str(lake / "orders"))),
        program_of("customers", None, {}, Files(str(lake / "customers"))),
        program_of("valid", only_valid, {}),
        program_of("enriched", enrich, {}, sink=Files(str(root / "enriched"))),
        program_of("totals", total, {}),
        program_of("counts", count, {}),
        program_of("shares", share, {}, sink=Files(str(root / "shares"))),
    ]
    programs = [replace(each, transform=(transforms or {}).get(each.name, each.transform)) for each in programs]
    return plan_run(server, root / "exchange", VERTICES, edges, programs, max_parallelism=4, **options)


def run(server: ConnectEndpoint, lake: Path, root: Path, edges: Sequence[JobEdge] = EDGES, **given: Any) -> JobRun:
    job = plan(server, lake, root, edges, **given)
    for region in job.plan.regions:
        asyncio.run(job.run_region(region.name))
    job.commit()
    return job


def check_rows(lake: Path, root: Path) -> None:
    """Against DuckDB's."""
    with duckdb.connect() as db:
        for name in ("orders", "customers"):
            db.execute(f"CREATE VIEW {name} AS FROM read_parquet('{lake / name}/*.parquet')")
        db.execute(
            "CREATE VIEW enriched AS SELECT order_id, customer_id, amount, region FROM orders "
            "JOIN customers USING (customer_id) WHERE amount % 7 <> 0"
        )
        db.execute(
            "CREATE VIEW shares AS SELECT region, (sum(amount) // count(DISTINCT customer_id))::BIGINT AS share "
            "FROM enriched GROUP BY region"
        )
        for name in ("enriched", "shares"):
            db.execute(f"CREATE VIEW found AS FROM read_parquet('{root / name}/**/*.parquet')")
            differing = db.sql(
                f"(FROM found EXCEPT ALL FROM {name}) UNION ALL (FROM {name} EXCEPT ALL FROM found)"
            ).fetchall()
            assert differing == []
            assert db.sql("SELECT count(*) FROM found").fetchall()[0][0] > 0
            db.execute("DROP VIEW found")


async def run_watched(job: JobRun, region: str) -> tuple[StageOrder, list[Progress]]:
    """Run its only subtask, and return what its first step was expected to do, and the progress of that step."""
    attempt = SubtaskAttempt(region, 0, 1, job.decide(region).digest)
    spec, seen = SubtaskSpec.load(job.folder, attempt), []
    step, work = spec.region.steps[0], AttemptWork.of(spec, attempt, {}, {})

    def watch(of: PlannedStep, progress: Progress) -> None:
        seen.extend([progress] if of == step else [])

    async with open_connection(job.endpoint) as connection:
        manifest = await run_subtask(connection, job.folder, attempt, Path, on_progress=watch)
        session_id = derive_id(str(job.folder.path), "explained")
        await set_config(connection, session_id, work.settings())
        explained = await explain_marked(connection, session_id, work.bind_step(0, spec.whole(), "x"))
        await release_session(connection, session_id)
    job.reports[region] = [report(manifest, 1)]
    return order_stages(explained, step.vertex, step.inlined), seen


@pytest.mark.sample
def test_a_day_without_failures_writes_before_a_sink_s_readers_alone_and_tells_how_far_each_vertex_is(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    job = plan(connect_server, lake, tmp_path, durability="auto")
    order, seen = asyncio.run(run_watched(job, "enriched"))
    assert [set(stage.vertices) for stage in order.stages] == [{"customers"}, {"orders", "valid", "enriched"}]
    shares = [order.shares(progress.stages) for progress in seen]
    assert all(each["customers"] >= each["enriched"] for each in shares)
    assert all(after[name] >= before[name] for before, after in pairwise(shares) for name in before)
    asyncio.run(job.run_region("shares"))
    job.commit()
    check_rows(lake, tmp_path)
    assert {region.name: region.vertices for region in job.plan.regions} == {
        "enriched": ("orders", "customers", "valid", "enriched"),
        "shares": ("totals", "counts", "shares"),
    }
    stored = read_plan(job.folder)
    assert stored == job.plan
    assert [f"{edge.producer} {edge.consumer} {edge.reason}" for edge in stored.edges if edge.durable] == [
        "enriched totals durable: enriched has a sink",
        "enriched counts durable: enriched has a sink",
    ]
    assert list(stored.predictions) == ["orders", "customers", "valid", "enriched", "totals", "counts", "shares"]
    inner = job.decisions["enriched"]
    assert (inner.parallelism, inner.rule) == (1, "single_subtask")


def test_a_day_of_failures_writes_more_and_has_the_same_rows(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    # 500 stops in some seconds of work: half a second twice, every hundredth of a second, is above a hop of 2.5 s
    job = run(
        connect_server,
        lake,
        tmp_path,
        durability="auto",
        failures_per_run=500.0,
        failures_per_day=1e6,
        target_bytes=3000,
    )
    check_rows(lake, tmp_path)
    assert all(edge.durable for edge in job.plan.edges)
    assert [region.name for region in job.plan.regions] == [region.name for region in job.graph.regions]
    assert job.decisions["enriched"].parallelism > 1


def test_transforms_are_called_once_however_regions_are_joined(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    called = []

    def counted(transform: Any) -> Any:
        @wraps(transform)
        def calls(**frames: Any) -> Any:
            called.append(transform.__name__)
            return transform(**frames)

        return calls

    steps = {"valid": only_valid, "enriched": enrich, "totals": total, "counts": count, "shares": share}
    transforms = {name: counted(transform) for name, transform in steps.items()}
    job = run(connect_server, lake, tmp_path, durability="auto", transforms=transforms)
    check_rows(lake, tmp_path)
    assert list(job.plan.fused) == ["orders", "customers", "valid", "totals", "counts"]
    assert sorted(called) == sorted(transform.__name__ for transform in steps.values())


def test_always_asks_for_nothing_and_writes_every_edge(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    job = run(connect_server, lake, tmp_path, durability="always")
    check_rows(lake, tmp_path)
    assert (job.plan.edges, job.plan.predictions, job.plan.fused) == ((), {}, {})


def test_a_small_day_of_always_is_one_subtask_for_each_sink_and_writes_every_edge(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    job = run(connect_server, lake, tmp_path, durability="always", share_tasks=True)
    check_rows(lake, tmp_path)
    assert [region.name for region in job.plan.regions] == ["enriched", "shares"]
    assert read_plan(job.folder) == job.plan
    assert all(edge.durable for edge in job.plan.edges)
    results = {region.name: [step.result for step in region.steps] for region in job.plan.regions}
    whole = [f"{name}.whole" for name in ("orders", "customers", "valid")]
    assert results["enriched"][:3] == whole
    assert results["shares"] == ["totals.whole", "counts.whole", "shares.sink"]
    manifest = read_manifest(job.folder, "enriched", 0)
    assert [manifest.results[name].rows for name in whole] == [3000, 90, 2571]  # 3 of 3000 * 6 / 7, rounded
    assert (job.decisions["enriched"].parallelism, job.decisions["enriched"].rule) == (1, "single_subtask")


def waits_for(other: Path, own: Path, column: str) -> Any:
    """A transform that gives its rows; that with the number 0 in a column once the other one has got there, too."""

    def wait(batches: Any) -> Any:
        for batch in batches:
            if 0 in batch.column(column).to_pylist():
                own.touch()
                deadline = time.monotonic() + 60
                while not other.exists():
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{other.name} does not run beside {own.name}")
                    time.sleep(0.05)
            yield batch

    return lambda rows: rows.mapInArrow(wait, rows.schema)


@pytest.mark.sample
def test_steps_of_a_shared_task_that_do_not_read_each_other_run_side_by_side(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    orders, customers = tmp_path / "orders-run", tmp_path / "customers-run"
    transforms = {
        "orders": waits_for(customers, orders, "order_id"),
        "customers": waits_for(orders, customers, "customer_id"),
    }
    job = run(connect_server, lake, tmp_path, durability="always", share_tasks=True, transforms=transforms)
    assert [step.result for step in job.plan.region("enriched").steps[:2]] == ["orders.whole", "customers.whole"]
    check_rows(lake, tmp_path)


def test_a_large_day_of_always_has_a_task_for_every_step(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    job = run(connect_server, lake, tmp_path, durability="always", share_tasks=True, target_bytes=1000)
    check_rows(lake, tmp_path)
    assert (job.plan.regions, job.plan.fused) != ((), {})
    assert job.decisions["enriched"].parallelism > 1
    assert {"orders", "valid"}.isdisjoint(job.plan.fused)


@pytest.mark.sample
@pytest.mark.parametrize("share_tasks", [False, True])
def test_a_step_that_reads_row_by_row_runs_in_the_subtasks_of_what_it_reads(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, share_tasks: bool
) -> None:
    options = {"chaining": True, "target_bytes": 1000, "share_tasks": share_tasks}
    job = run(connect_server, lake, tmp_path, INFERRED, durability="always", **options)
    check_rows(lake, tmp_path)
    assert job.plan.fused["orders"] == "valid"
    region = job.plan.region("valid")
    assert (region.vertices, [step.result for step in region.steps][1:]) == (("orders", "valid"), [])
    assert job.decisions["valid"].parallelism == 3  # the files of orders
    (edge,) = (each for each in job.plan.edges if each.producer == "orders")
    assert (edge.durable, edge.reason.partition(":")[0]) == (False, "chained")
    assert not list(Path(str(job.folder.path)).rglob("orders.whole"))


def fail_at(job: JobRun, template: int, attempt: int = 1) -> None:
    """Let an attempt at `enriched` end where it reads this template."""
    broken = Path(job.folder.step_path("enriched", template))
    intact = broken.read_bytes()
    broken.write_bytes(b"")
    with pytest.raises(DamagedFileError):
        asyncio.run(job.run_subtask("enriched", 0, attempt))
    broken.write_bytes(intact)


def fail_behind_three_steps(job: JobRun) -> JobRun:
    """Its shared task has a first attempt that wrote three results and no more."""
    job.decide("enriched")
    fail_at(job, 3)
    return job


@pytest.mark.sample
def test_after_a_failure_one_operation_runs_in_steps_and_a_third_try_goes_on_behind_them(
    connect_server: ConnectEndpoint,
    lake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durable_edges, "_WORTH_STEPS_SECONDS", 0.0)  # else a day of this size has no such steps
    job = plan(connect_server, lake, tmp_path, durability="auto")
    job.decide("enriched")
    planned = [step.result for step in job.plan.region("enriched").steps]
    inner = ["orders.whole", "customers.whole", "valid.whole"]
    assert [step.result for step in job.plan.region("enriched").retry_steps] == [*inner, *planned]
    fail_at(job, 0)
    fail_at(job, len(planned) + len(inner), attempt=2)
    asyncio.run(job.run_subtask("enriched", 0, attempt=3))
    attempts = [Path(job.folder.attempt_path("enriched", 0, attempt)) for attempt in (2, 3)]
    written = [sorted(each.name for each in attempt.iterdir() if each.is_dir()) for attempt in attempts]
    assert written == [sorted(inner), sorted(planned)]
    manifest = read_manifest(job.folder, "enriched", 0)
    assert list(manifest.results) == planned
    assert {name: each.rows for name, each in manifest.inner.items()} == {
        "orders": 3000,
        "customers": 90,
        "valid": 2571,
    }
    job.reports["enriched"] = [report(manifest, 1)]
    asyncio.run(job.run_region("shares"))
    job.commit()
    check_rows(lake, tmp_path)


def test_a_try_goes_on_behind_the_steps_that_one_before_it_has_written(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    job = fail_behind_three_steps(plan(connect_server, lake, tmp_path, durability="always", share_tasks=True))
    asyncio.run(job.run_subtask("enriched", 0, attempt=2))
    manifest = read_manifest(job.folder, "enriched", 0)
    attempts = {name: {file.path.split("/")[2] for file in each.files} for name, each in manifest.results.items()}
    again = {"attempt-1"}
    assert attempts == {"orders.whole": again, "customers.whole": again, "valid.whole": again} | {
        name: {"attempt-2"} for name in list(manifest.results)[3:]
    }


@pytest.mark.sample
def test_a_step_whose_files_are_lost_is_written_again_and_so_is_everything_made_of_it(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    job = fail_behind_three_steps(plan(connect_server, lake, tmp_path, durability="always", share_tasks=True))
    lost = next(Path(job.folder.attempt_path("enriched", 0, 1)).glob("customers.whole/part-*.parquet"))
    lost.write_bytes(b"")
    asyncio.run(job.run_subtask("enriched", 0, attempt=2))
    manifest = read_manifest(job.folder, "enriched", 0)
    attempts = {name: {file.path.split("/")[2] for file in each.files} for name, each in manifest.results.items()}
    kept = {name for name, found in attempts.items() if found == {"attempt-1"}}
    assert kept == {"orders.whole", "valid.whole"}  # what does not read customers
    assert all(attempts[name] == {"attempt-2"} for name in attempts.keys() - kept)
