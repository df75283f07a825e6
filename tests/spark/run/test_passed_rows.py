"""Rows that pass the edges inside one operation, as Spark's UI counts them, against DuckDB's."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.durability.prediction import JobHistory, PassedHistory
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.manifest import Manifest, PassedRows
from airflow_abs.exchange.records.reports import report
from airflow_abs.exchange.runs.past_run import past_run
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.run import progress_by_vertex
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.passed_rows import UnmatchedPlanError, find_passed
from airflow_abs.spark.run.subtask import run_subtask
from airflow_abs.spark.server.embedded import embedded_status, ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from tests.job_runner import JobRun, plan_run, program_of

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

ORDERS, CUSTOMERS = 1_500_000, 20_000


def valid(orders: Any) -> Any:
    return orders.where("status = 'F'").select("customer_id", "amount")


def enrich(orders: Any, customers: Any) -> Any:
    return orders.where("amount >= 10").join(customers, "customer_id").select("region", "amount")


def by_region(enriched: Any) -> Any:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(sf.sum("amount").alias("amount"), sf.count("*").alias("orders"))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    (folder / "orders").mkdir()
    (folder / "customers").mkdir()
    # a third of the customers that orders name are not there, and a tenth of the orders name none
    duckdb.sql(
        "COPY (SELECT i AS order_id, i % 100 AS amount, CASE WHEN i % 7 < 4 THEN 'F' ELSE 'O' END AS status, "
        f"CASE WHEN i % 10 > 0 THEN hash(i) % {CUSTOMERS * 3 // 2} END::BIGINT AS customer_id "
        f"FROM range({ORDERS}) t(i)) "
        f"TO '{folder}/orders/part.parquet'"
    )
    duckdb.sql(
        f"COPY (SELECT i AS customer_id, 'region ' || i % 5 AS region FROM range({CUSTOMERS}) t(i)) "
        f"TO '{folder}/customers/part.parquet'"
    )
    return folder


@pytest.fixture(scope="module")
def server_with_ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectEndpoint]:
    folder = tmp_path_factory.mktemp("spark")
    folder.chmod(0o700)
    try:
        endpoint = ensure_embedded_server(folder, settings=EmbeddedSettings(2, "1500m", idle_seconds=600, ui=True))
        pages = f"http://{embedded_status(folder).ui_address}/api/v1/applications"
        with urllib.request.urlopen(pages, timeout=120):  # Spark loads its REST API: a job may be over by then
            yield endpoint
    finally:
        stop_embedded_server(folder)


@pytest.fixture(autouse=True)
def explained_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_by_vertex, "_EXPLAIN_AFTER_SECONDS", 0.0)


NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}


def plan_chain(endpoint: ConnectEndpoint, lake: Path, root: Path, conf: dict[str, str], **job: Any) -> JobRun:
    options: dict[str, Any] = {"spark_conf": conf}
    return plan_run(
        endpoint,
        root / "exchange",
        [
            JobVertex("orders", has_source=True),
            JobVertex("customers", has_source=True),
            JobVertex("enriched"),
            JobVertex("by_region", has_sink=True),
        ],
        [
            JobEdge("orders", "enriched", "orders", Partitioning.HASH, ("customer_id",)),
            JobEdge("customers", "enriched", "customers", Partitioning.HASH, ("customer_id",)),
            JobEdge("enriched", "by_region", "enriched", Partitioning.HASH, ("region",)),
        ],
        [
            program_of("orders", valid, source=Files(str(lake / "orders")), **options),
            program_of("customers", source=Files(str(lake / "customers")), **options),
            program_of("enriched", enrich, **options),
            program_of("by_region", by_region, sink=Files(str(root / "out")), **options),
        ],
        **{"durability": "auto", "durability_budget": 0.0, "slots": 2, **job},
    )


def run_inside(endpoint: ConnectEndpoint, lake: Path, root: Path, **conf: str) -> tuple[JobRun, Manifest]:
    """The chain as one operation, with someone who listens to its progress."""
    job = plan_chain(endpoint, lake, root, conf)
    (region,) = job.plan.regions
    decision = job.decide(region.name)
    attempt = SubtaskAttempt(region.name, 0, 1, decision.digest)

    async def run() -> Manifest:
        async with open_connection(endpoint) as connection:
            return await run_subtask(connection, job.folder, attempt, Path, on_progress=lambda step, progress: None)

    return job, asyncio.run(run())


def expected(lake: Path) -> dict[str, int]:
    """Behind the filters of the step that reads them; an inner join reads no row without a key."""
    orders = (
        f"(SELECT * FROM '{lake}/orders/part.parquet' WHERE status = 'F' AND amount >= 10 AND customer_id IS NOT NULL)"
    )
    joined = f"{orders} JOIN '{lake}/customers/part.parquet' USING (customer_id)"
    counts = {"orders": orders, "customers": f"'{lake}/customers/part.parquet'", "enriched": joined}
    return {name: duckdb.sql(f"SELECT count(*) FROM {query}").fetchall()[0][0] for name, query in counts.items()}


@pytest.mark.spark
def test_rows_of_a_shuffled_join_are_counted_where_spark_moves_them(
    server_with_ui: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    job, manifest = run_inside(server_with_ui, lake, tmp_path, **NO_BROADCAST)
    assert manifest.uncounted == ""
    assert {name: each.rows for name, each in manifest.passed.items()} == expected(lake)
    assert {name: each.how for name, each in manifest.passed.items()} == {
        "orders": "shuffled",
        "customers": "shuffled",
        "enriched": "passed on",  # what is shuffled behind it are partial results
    }
    moved = manifest.passed["orders"].bytes
    assert moved is not None
    assert 1_000_000 < moved < 20 * expected(lake)["orders"]
    assert manifest.passed["enriched"].bytes is None
    assert report(manifest, 1)["inside"]["orders"] == {
        "rows": expected(lake)["orders"],
        "bytes": moved,
        "how": "shuffled",
        "partial_results": None,
    }
    groups = manifest.passed["enriched"].partial_results
    assert groups is not None
    assert 5 <= groups <= 1000  # five regions, by Spark task
    view = read_run(job.folder)
    told = [view.regions[-1].describe_edge(edge) for edge in view.regions[-1].inside]
    assert re.search(
        r"^orders -> enriched.orders: kept inside Spark.*; [\d,]+ rows shuffled, about [\d.]+ MiB in", told[0]
    )
    history = past_run(view, "", 0.0, lambda error: False)
    assert {name: each.rows for name, each in history.passed.items()} == expected(lake)
    assert history.passed["orders"] == PassedHistory(expected(lake)["orders"], moved)
    assert history.passed["enriched"].written_rows == groups
    assert history.spent == view.regions[-1].spent
    assert sorted(history.spent) == ["by_region", "customers", "enriched", "orders"]
    assert min(history.spent.values()) >= 0  # customers may be over while orders run: that takes no time of its own
    assert 0 < sum(history.spent.values()) <= manifest.seconds
    # the next day goes by them, and what it would write is what is written
    known = JobHistory((history,))
    today = plan_chain(server_with_ui, lake, tmp_path, NO_BROADCAST, run_id="next", history=known).plan
    assert {
        edge.producer: "Spark counted: it was never written" in edge.reason for edge in today.edges
    } == dict.fromkeys(("orders", "customers", "enriched"), True)
    predicted = today.predictions["orders"]
    written = plan_chain(server_with_ui, lake, tmp_path, NO_BROADCAST, run_id="written", durability="always")
    asyncio.run(written.run_region("orders"))
    orders = read_run(written.folder).region("orders")
    assert predicted.output_rows == sum(each.rows or 0 for each in orders.subtasks) == expected(lake)["orders"]
    assert 1 / 3 < predicted.output_bytes / sum(each.bytes_out or 0 for each in orders.subtasks) < 3


@pytest.mark.spark
def test_rows_of_a_broadcast_are_counted_and_those_that_nobody_moves_too(
    server_with_ui: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    _, manifest = run_inside(server_with_ui, lake, tmp_path)
    assert manifest.uncounted == ""
    assert {name: each.rows for name, each in manifest.passed.items()} == expected(lake)
    assert {name: each.how for name, each in manifest.passed.items()} == {
        "orders": "passed on",
        "customers": "broadcast",
        "enriched": "passed on",
    }


@pytest.mark.spark
def test_without_a_ui_nothing_is_counted_and_that_is_said(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    job, manifest = run_inside(connect_server, lake, tmp_path)
    assert (manifest.passed, manifest.uncounted) == ({}, "Spark's UI is off")
    view = read_run(job.folder)
    told = view.regions[-1].describe_edge(view.regions[-1].inside[0])
    assert told.endswith("; rows not counted: Spark's UI is off")


INLINED = {f"__airflow_abs_inlined_{number}": name for number, name in enumerate(("orders", "customers", "enriched"))}
MARKED = """== Physical Plan ==
AdaptiveSparkPlan (16)
+- HashAggregate (15)
   +- Exchange (14)
      +- HashAggregate (13)
         +- CollectMetrics (12)
            +- Project (11)
               +- SortMergeJoin Inner (10)
                  :- Sort (5)
                  :  +- Exchange (4)
                  :     +- Filter (3)
                  :        +- CollectMetrics (2)
                  :           +- Scan parquet  (1)
                  +- Sort (9)
                     +- Exchange (8)
                        +- CollectMetrics (7)
                           +- Scan parquet  (6)


(1) Scan parquet
Location: InMemoryFileIndex [file:/orders]

(2) CollectMetrics
Arguments: __airflow_abs_inlined_0.1, [count(1) AS count(1)#181L]

(6) Scan parquet
Location: InMemoryFileIndex [file:/customers]

(7) CollectMetrics
Arguments: __airflow_abs_inlined_1.2, [count(1) AS count(1)#182L]

(12) CollectMetrics
Arguments: __airflow_abs_inlined_2.3, [count(1) AS count(1)#183L]
"""
RAN = """== Physical Plan ==
AdaptiveSparkPlan (38)
+- == Final Plan ==
   ResultQueryStage (21), Statistics(sizeInBytes=8.0 EiB)
   +- Execute InsertIntoHadoopFsRelationCommand (20)
      +- WriteFiles (19)
         +- * HashAggregate (18)
            +- AQEShuffleRead (17), coalesced
               +- ShuffleQueryStage (16), Statistics(sizeInBytes=1.0 KiB, rowCount=5)
                  +- Exchange (15)
                     +- * HashAggregate (14)
                        +- * Project (13)
                           +- * BroadcastHashJoin Inner BuildRight (12)
                              :- AQEShuffleRead (5), local
                              :  +- ShuffleQueryStage (4), Statistics(sizeInBytes=1.0 KiB, rowCount=5)
                              :     +- Exchange (3)
                              :        +- * Filter (2)
                              :           +- Scan parquet  (1)
                              +- BroadcastQueryStage (9), Statistics(sizeInBytes=1.0 KiB, rowCount=5)
                                 +- BroadcastExchange (8)
                                    +- Scan parquet  (7)
+- == Initial Plan ==
   Execute InsertIntoHadoopFsRelationCommand (37)
   +- WriteFiles (36)
      +- HashAggregate (35)
         +- Exchange (34)
            +- Scan parquet  (30)


(1) Scan parquet
Location: InMemoryFileIndex [file:/orders]

(7) Scan parquet
Location: InMemoryFileIndex [file:/customers]

(30) Scan parquet
Location: InMemoryFileIndex [file:/customers]
"""
NODES: list[tuple[str, dict[str, str]]] = [
    ("Execute InsertIntoHadoopFsRelationCommand", {}),
    ("AdaptiveSparkPlan", {}),
    ("WholeStageCodegen (5)", {"duration": "1 s"}),
    ("HashAggregate", {"number of output rows": "5"}),
    ("AQEShuffleRead", {"number of partitions": "1"}),
    ("Exchange", {"shuffle records written": "10", "shuffle bytes written": "480.0 B"}),
    ("HashAggregate", {"number of output rows": "10"}),
    ("BroadcastHashJoin Inner BuildRight", {"number of output rows": "900"}),
    (
        "Exchange",
        {
            "shuffle records written": "1,000",
            "shuffle bytes written": "total (min, max (stageId: taskId))\n17.5 MiB (8.6 MiB, 8.7 MiB (stage 2.0))",
        },
    ),
    ("Filter", {"number of output rows": "1,000"}),
    ("Scan parquet ", {"number of output rows": "2,000"}),
    ("BroadcastExchange", {"number of output rows": "70", "data size": "1024.0 KiB"}),
    ("Scan parquet ", {"number of output rows": "70"}),
]
EDGES = [(1, 0), (3, 1), (4, 3), (5, 4), (6, 5), (7, 6), (8, 7), (9, 8), (10, 9), (11, 7), (12, 11)]


def execution(description: str) -> dict[str, Any]:
    """As Spark's REST API tells it."""
    return {
        "planDescription": description,
        "nodes": [
            {
                "nodeId": number,
                "nodeName": name,
                "metrics": [{"name": key, "value": value} for key, value in told.items()],
            }
            for number, (name, told) in enumerate(NODES)
        ],
        "edges": [{"fromId": below, "toId": above} for below, above in EDGES],
    }


def test_the_last_count_before_the_next_step_is_that_of_the_edge() -> None:
    assert find_passed(MARKED, INLINED, execution(RAN)) == {
        "orders": PassedRows(1000, round(17.5 * 2**20), "shuffled"),
        "customers": PassedRows(70, None, "broadcast"),
        "enriched": PassedRows(900, None, "passed on", partial_results=10),
    }


def test_of_a_vertex_that_is_read_twice_nothing_is_told() -> None:
    twice = {**INLINED, "__airflow_abs_inlined_1": "orders"}
    assert sorted(find_passed(MARKED, twice, execution(RAN))) == ["enriched"]


@pytest.mark.parametrize(
    ("marked", "ran", "why"),
    [
        (MARKED.replace("HashAggregate (13)", "Window (13)"), RAN, "Spark changed its plan while it ran"),
        # the same operators, and the tables in another order
        (MARKED.replace("/orders", "/x").replace("/customers", "/orders"), RAN, "Spark changed its plan while it ran"),
        (MARKED, RAN.replace("Final Plan", "Plan"), "Spark's plan cannot be read"),
        (MARKED[20:], RAN, "Spark's plan cannot be read"),
    ],
)
def test_where_the_plans_differ_nothing_is_told(marked: str, ran: str, why: str) -> None:
    with pytest.raises(UnmatchedPlanError, match=why):
        find_passed(marked, INLINED, execution(ran))


def test_rows_that_pass_say_how_and_how_much() -> None:
    assert str(PassedRows(1, None, "passed on")) == "1 row passed on"
    assert str(PassedRows(2000, 3 * 2**20, "shuffled")) == "2,000 rows shuffled, about 3.0 MiB in Spark's own format"
    assert str(PassedRows(90, None, "passed on", 1)) == "90 rows passed on, grouped into 1 partial result"
