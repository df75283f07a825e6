# ruff: noqa: S608 - the SQL is put together from our own numbers and conditions
"""What `prune=` saves: sales in one folder a day, of which a query wants one month, with and without it, and in Spark.

A table in the shape of TPC-DS's `store_sales` at scale 1 (2.9 million rows, 1,823 days, some sold on no day) and its
`date_dim`. All four read the days of November 2000 and sum by store: a job of ours whose sales join the days, one that
is pruned by them, and one query of Spark's with its own dynamic partition pruning, and without. Outputs are compared
with DuckDB's.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from airflow_abs.testing import run_locally

SALES, DAYS, FIRST_DAY = 2_880_404, 1823, 2_450_816
TARGET_BYTES = "16MB"
ROUNDS = 3
CHOSEN = "d_year = 2000 AND d_moy = 11"
SPARK_DPP = "spark.sql.optimizer.dynamicPartitionPruning.enabled"

Row = dict[str, int | float | str]
Outcome = tuple[dict[str, Any], list[tuple[Any, ...]]]


def make_lake(folder: Path, sales: int = SALES, days: int = DAYS) -> None:
    """`store_sales`, a file for each day, and `date_dim`."""
    duckdb.sql(f"""
        COPY (
            SELECT CASE WHEN hash(range) % 25 > 0 THEN ({FIRST_DAY} + hash(range * 3) % {days})::INT END
                       AS sold_date_sk,
                   (hash(range * 5) % 18000)::INT AS item_sk, (hash(range * 7) % 100000)::INT AS customer_sk,
                   (1 + hash(range * 11) % 12)::INT AS store_sk, (1 + hash(range * 13) % 100)::INT AS quantity,
                   ((hash(range * 17) % 20000) / 100)::DECIMAL(7, 2) AS sales_price,
                   ((hash(range * 19) % 20000) / 100 - 100)::DECIMAL(7, 2) AS net_profit
            FROM range({sales})
        ) TO '{folder}/store_sales' (FORMAT parquet, PARTITION_BY (sold_date_sk))
    """)
    duckdb.sql(f"""
        COPY (
            SELECT ({FIRST_DAY} + range)::INT AS d_date_sk, year(day)::INT AS d_year, month(day)::INT AS d_moy
            FROM (SELECT range, DATE '1998-01-02' + range::INT AS day FROM range({days}))
        ) TO '{folder}/date_dim.parquet' (FORMAT parquet)
    """)


def expected(folder: Path) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = duckdb.sql(f"""
        SELECT store_sk, sum(quantity), sum(net_profit)
        FROM read_parquet('{folder}/store_sales/*/*.parquet', hive_partitioning = true)
        JOIN '{folder}/date_dim.parquet' ON TRY_CAST(sold_date_sk AS INT) = d_date_sk
        WHERE {CHOSEN} GROUP BY 1 ORDER BY 1
    """).fetchall()
    return rows


def job(folder: Path, *, pruned: bool) -> AdaptiveSparkJob:
    from airflow.sdk import DAG

    exchange = f"file://{folder}/exchange"  # declared; it runs in a temporary one
    with (
        DAG("pruning"),
        AdaptiveSparkJob("job", target_bytes=TARGET_BYTES, durability="always", exchange=exchange) as made,
    ):
        dates = AdaptiveSparkOperator(
            task_id="dates",
            source=Files(str(folder / "date_dim.parquet")),
            sql=f"SELECT d_date_sk FROM {{source}} WHERE {CHOSEN}",
        )
        wanted = "SELECT store_sk, quantity, net_profit FROM {source}"
        if pruned:
            source = Files(str(folder / "store_sales"), prune={"sold_date_sk": dates.column("d_date_sk")})
            sold = AdaptiveSparkOperator(task_id="sold", source=source, sql=wanted)
        else:
            sold = AdaptiveSparkOperator(
                task_id="sold",
                source=Files(str(folder / "store_sales")),
                inputs={"dates": dates.broadcast()},
                sql=f"{wanted} JOIN {{dates}} ON sold_date_sk = d_date_sk",
            )
        AdaptiveSparkOperator(
            task_id="by_store",
            inputs={"sold": sold.hash("store_sk")},
            sql="SELECT store_sk, sum(quantity), sum(net_profit) FROM {sold} GROUP BY store_sk",
        )
    return made


def run_job(endpoint: ConnectEndpoint, folder: Path, *, pruned: bool) -> Outcome:
    """With the three small results collected, as a test of a job does it; `plan`'s proof is part of it."""
    ran = run_locally(job(folder, pruned=pruned), None, endpoint=endpoint)
    decision = ran["sold"].decision
    (source,) = [entry for entry in decision.inputs if entry.kind == "source"]
    read = {"files": source.parts, "bytes": source.bytes, "subtasks": decision.parallelism}
    return read, sorted(tuple(row.values()) for row in ran["by_store"].rows.to_pylist())


def run_query(endpoint: ConnectEndpoint, folder: Path, *, pruned: bool) -> Outcome:
    from pyspark.sql import functions as sf

    with open_session(endpoint) as session:
        session.conf.set(SPARK_DPP, str(pruned).lower())
        dates = session.read.parquet(str(folder / "date_dim.parquet")).where(CHOSEN)
        sales = session.read.parquet(str(folder / "store_sales"))
        joined = sales.join(dates, sales["sold_date_sk"] == dates["d_date_sk"])
        frame = joined.groupBy("store_sk").agg(sf.sum("quantity"), sf.sum("net_profit"))
        rows = sorted(tuple(row) for row in frame.collect())
    # Of the larger of the two scans: that of sales.
    _, operators = frame.executionInfo.metrics.extract_graph()
    scans = [{each.name: each.value for each in operator.metrics} for operator in operators.values()]
    read = max(scans, key=lambda scan: scan.get("filesSize", 0))
    return {"files": read["numFiles"], "bytes": read["filesSize"], "subtasks": "-"}, rows


ARMS: dict[str, Callable[[ConnectEndpoint, Path], Outcome]] = {
    "a job that joins the days": lambda endpoint, folder: run_job(endpoint, folder, pruned=False),
    "a job with prune=": lambda endpoint, folder: run_job(endpoint, folder, pruned=True),
    "one query, Spark's pruning off": lambda endpoint, folder: run_query(endpoint, folder, pruned=False),
    "one query, Spark's pruning on": lambda endpoint, folder: run_query(endpoint, folder, pruned=True),
}


def run() -> list[Row]:
    """One row for each way: files and bytes of sales that were read, subtasks, medians of seconds."""
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        settings = EmbeddedSettings(cores=os.cpu_count() or 1, driver_memory="3g", idle_seconds=600)
        try:
            endpoint = ensure_embedded_server(folder / "spark", settings=settings)
            make_lake(folder)
            rounds = [measure(endpoint, folder) for _ in range(ROUNDS + 1)][1:]  # the first one warms up
        finally:
            stop_embedded_server(folder / "spark")
    return [
        each | {"seconds": round(statistics.median(float(taken[number]["seconds"]) for taken in rounds), 2)}
        for number, each in enumerate(rounds[-1])
    ]


def measure(endpoint: ConnectEndpoint, folder: Path) -> list[Row]:
    """Every way once.

    Raises:
        RuntimeError: one of them has other rows than DuckDB.
    """
    rows: list[Row] = []
    for name, arm in ARMS.items():
        started = time.perf_counter()
        read, found = arm(endpoint, folder)
        seconds = time.perf_counter() - started
        if found != expected(folder):
            raise RuntimeError(f"{name}: {found}; expected {expected(folder)}")
        rows.append({"way": name, **read, "seconds": seconds})
    return rows
