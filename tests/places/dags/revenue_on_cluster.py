"""The example `daily_revenue` with a Spark server per run on a cluster; its join waits while a file is there.

Of its two DAGs, one gives up soon on a cluster without room.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import LAST_COMPLETE_DAY as DAY
from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Ephemeral, Files, JobOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ.get("AIRFLOW_ABS_DEMO_DATA", "/tmp/data")
MART = os.environ.get("AIRFLOW_ABS_DEMO_OUT", "/tmp/mart")
CONF = json.loads(os.environ.get("AIRFLOW_ABS_PLACE_CONF", "{}"))
GATES = os.environ.get("AIRFLOW_ABS_PLACE_GATES", "/tmp/gates")


def only_valid(orders: DataFrame) -> DataFrame:
    return orders.where("status IN ('F', 'O')").select("order_id", "customer_id", "amount")


def enrich(orders: DataFrame, customers: DataFrame, gate: str) -> DataFrame:
    from pyspark.sql import functions as sf

    def wait(order_id: int) -> int:
        import time
        from pathlib import Path

        closed = Path(gate)
        while closed.exists():
            Path(f"{gate}.reached").touch()
            time.sleep(0.2)
        return order_id

    joined = orders.join(customers, "customer_id")
    return joined.select(sf.udf(wait, "long")("order_id").alias("order_id"), "amount", "region", "segment")


def total_by_region(enriched: DataFrame, day: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(
        sf.lit(day).cast("date").alias("day"),
        sf.count("order_id").alias("orders"),
        sf.sum("amount").alias("revenue"),
        sf.max("amount").alias("largest_order"),
    )


for dag_id, options in {"revenue_on_cluster": None, "impatient_on_cluster": JobOptions(resource_timeout=40)}.items():
    with DAG(
        dag_id,
        schedule=None,
        start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
        default_args={"retry_delay": 5},
    ):
        server = Ephemeral("cluster", conf=CONF, start_timeout=600, lifetime=1800, trusted_network=True)
        with AdaptiveSparkJob("revenue", conn_id="run_spark", spark=server, options=options):
            orders = AdaptiveSparkOperator(
                task_id="orders", source=Files(f"{LAKE}/orders/ds={DAY}"), transform=only_valid
            )
            customers = AdaptiveSparkOperator(task_id="customers", source=Files(f"{LAKE}/customers"))
            enriched = AdaptiveSparkOperator(
                task_id="enriched",
                inputs={"orders": orders.hash("customer_id"), "customers": customers.broadcast(durable=True)},
                transform=enrich,
                transform_kwargs={"gate": GATES + "/{{ run_id }}"},
            )
            AdaptiveSparkOperator(
                task_id="by_region",
                inputs={"enriched": enriched.hash("region")},
                transform=total_by_region,
                transform_kwargs={"day": DAY},
                sink=Files(f"{MART}/ds={DAY}", mode="overwrite"),
            )
