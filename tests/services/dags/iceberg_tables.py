"""From one Iceberg table to another, by a key."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, IcebergTable

TOTALS = "SELECT region, sum(amount) AS amount FROM {sales} GROUP BY region"

with DAG("iceberg_tables", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    with AdaptiveSparkJob("job"):
        sales = AdaptiveSparkOperator(task_id="sales", source=IcebergTable("lake.db.sales", where="amount > 10"))
        AdaptiveSparkOperator(
            task_id="totals",
            inputs={"sales": sales.hash("region")},
            sql=TOTALS,
            sink=IcebergTable("lake.db.totals", mode="overwrite_partitions", files=1),
        )
