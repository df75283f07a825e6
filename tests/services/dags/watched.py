"""Jobs to be looked at: one that takes its time, two that fail in a single subtask, one that nobody may see.

Of the two that fail one does so in its worker, until somebody gives its customer credit; the other in the triggerer,
once the file `handed_over` is there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import LAST_COMPLETE_DAY as DAY
from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ.get("AIRFLOW_ABS_DEMO_DATA", "/tmp/airflow_abs_demo/data")
MART = os.environ.get("AIRFLOW_ABS_DEMO_OUT", "/tmp/airflow_abs_demo/mart")


def keep(orders: DataFrame) -> DataFrame:
    return orders.select("order_id", "customer_id", "amount")


def nap(orders: DataFrame) -> DataFrame:
    def slowly(batches):  # type: ignore[no-untyped-def]
        import time

        for batch in batches:
            time.sleep(8)
            yield batch

    return orders.mapInPandas(slowly, orders.schema)


def refuse(orders: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    def await_triggerer(batches):  # type: ignore[no-untyped-def]
        import time
        from pathlib import Path

        deadline = time.monotonic() + 240
        while not Path(LAKE, "handed_over").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        yield from batches

    refused = sf.raise_error(sf.lit("customer 13 has no credit line"))
    awaited = orders.mapInPandas(await_triggerer, orders.schema)
    return awaited.withColumn("limit", sf.when(sf.col("customer_id") == 13, refused).otherwise(sf.col("amount")))


def refuse_without_credit(orders: DataFrame) -> DataFrame:
    def check(batches):  # type: ignore[no-untyped-def]
        from pathlib import Path

        for batch in batches:
            if 13 in set(batch["customer_id"]) and not Path(LAKE, "credit").exists():
                raise ValueError("customer 13 has no credit line")
            yield batch

    return orders.mapInPandas(check, orders.schema)


for name, transform, defer_after, target_bytes in (
    ("napping", nap, 10.0, None),
    ("refusing", refuse_without_credit, 60.0, 50_000),  # less than the orders of the hot customer
    ("refusing_late", refuse, 0.2, None),
    ("secret", keep, 10.0, None),
):
    with DAG(name, schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), catchup=False):
        with AdaptiveSparkJob("job", options=JobOptions(defer_after=defer_after), target_bytes=target_bytes):
            orders = AdaptiveSparkOperator(task_id="orders", source=Files(f"{LAKE}/orders/ds={DAY}"), transform=keep)
            work = AdaptiveSparkOperator(
                task_id="work",
                inputs={"orders": orders.hash("customer_id")},
                transform=transform,
                pool="default_pool",  # of the author's own: they are not queued for slots in the triggerer
            )
            AdaptiveSparkOperator(
                task_id="out", inputs={"work": work.rebalance()}, sink=Files(f"{MART}/{name}/ds={DAY}")
            )
