"""The pipeline that the fault tests run: four regions over real files, with an answer from DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from tests.job_runner import JobRun, plan_run, program_of

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

REGIONS = ("orders", "customers", "enriched", "by_region")
ANSWER = """
    SELECT region, sum(amount) AS revenue, count(*) AS orders
    FROM read_parquet('{lake}/orders/*') JOIN read_parquet('{lake}/customers/*') USING (customer_id) GROUP BY region"""


def make_lake(folder: Path, rows: int = 40_000) -> Path:
    """Orders in 4 files, customers in 2."""
    for name, parts, query in (
        ("orders", 4, "SELECT range AS order_id, (hash(range) % 500)::INT AS customer_id, "
                      "((hash(range * 7) % 100000) / 100)::DECIMAL(12,2) AS amount, md5(range::VARCHAR) AS note "
                      f"FROM range({rows}) WHERE range % 4 = {{part}}"),
        ("customers", 2, "SELECT range::INT AS customer_id, ['north','south','east','west'][1 + range % 4] AS region "
                         "FROM range(500) WHERE range % 2 = {part}"),
    ):  # fmt: skip
        (folder / name).mkdir(parents=True)
        for part in range(parts):
            sql = query.format(part=part)
            duckdb.sql(f"COPY ({sql}) TO '{folder}/{name}/part-{part}.parquet' (FORMAT parquet)")
    return folder


def enrich(orders: Any, customers: Any) -> Any:
    return orders.join(customers, "customer_id")


def total_by_region(enriched: Any) -> Any:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(sf.sum("amount").alias("revenue"), sf.count("*").alias("orders"))


def plan_revenue(server: ConnectEndpoint, lake: Path, folder: Path, **options: Any) -> JobRun:
    """Planned, with about 3 subtasks of orders and enriched, which has the `spark_conf`; sink in `folder/mart`.

    `declared` are further arguments of `program_of` by vertex.
    """
    transforms = {"enriched": enrich, "by_region": total_by_region, **options.pop("transforms", {})}
    declared = options.pop("declared", {})
    declared = {**declared, "enriched": {"spark_conf": options.pop("spark_conf", {}), **declared.get("enriched", {})}}
    return plan_run(
        server,
        folder / "exchange",
        [
            JobVertex("orders", has_source=True),
            JobVertex("customers", has_source=True),
            JobVertex("enriched", parallelism=options.pop("enriched", 3)),
            JobVertex("by_region", parallelism=1, has_sink=True),
        ],
        [
            JobEdge("orders", "enriched", "orders", Partitioning.HASH, ("customer_id",)),
            JobEdge("customers", "enriched", "customers", Partitioning.BROADCAST),
            JobEdge("enriched", "by_region", "enriched", Partitioning.HASH, ("region",)),
        ],
        [
            program_of("orders", None, {}, Files(f"{lake}/orders"), **declared.get("orders", {})),
            program_of("customers", None, {}, Files(f"{lake}/customers")),
            program_of("enriched", transforms["enriched"], **declared["enriched"]),
            program_of("by_region", transforms["by_region"], {}, sink=Files(str(folder / "mart"))),
        ],
        **{"target_bytes": 700 * 1024, "max_parallelism": 16, **options},
    )


def answer(lake: Path) -> Sequence[tuple[Any, ...]]:
    return sorted(duckdb.sql(ANSWER.format(lake=lake)).fetchall())


def output(folder: Path) -> Sequence[tuple[Any, ...]]:
    return sorted(duckdb.sql(f"SELECT * FROM read_parquet('{folder}/mart/*.parquet')").fetchall())
