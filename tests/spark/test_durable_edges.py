"""A day on which edges are kept inside Spark gives the rows of a day on which all are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.plan import read_plan
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import VertexProgram
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from tests.job_runner import JobRun, run_job

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


def run(
    server: ConnectEndpoint, lake: Path, root: Path, transforms: Mapping[str, Any] | None = None, **options: Any
) -> JobRun:
    programs = [
        VertexProgram("orders", None, {}, Files(str(lake / "orders"))),
        VertexProgram("customers", None, {}, Files(str(lake / "customers"))),
        VertexProgram("valid", only_valid, {}),
        VertexProgram("enriched", enrich, {}, sink=Files(str(root / "enriched"))),
        VertexProgram("totals", total, {}),
        VertexProgram("counts", count, {}),
        VertexProgram("shares", share, {}, sink=Files(str(root / "shares"))),
    ]
    programs = [replace(each, transform=(transforms or {}).get(each.name, each.transform)) for each in programs]
    return run_job(server, root / "exchange", VERTICES, EDGES, programs, max_parallelism=4, **options)


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


def test_a_day_without_failures_writes_before_a_sink_s_readers_alone(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    job = run(connect_server, lake, tmp_path, durability="auto")
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
        target_bytes=9000,
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
