"""What `plan` refuses to store, because the plan is a file that is there to be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions, VertexOptions
from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.hooks.catalogs import table_access


@pytest.mark.parametrize("of_job", [True, False])
def test_a_secret_among_the_settings_of_spark(tmp_path: Path, of_job: bool) -> None:
    secret = {"spark.hadoop.fs.s3a.secret.key": "s3cr3t"}
    with (
        DAG("daily") as dag,
        AdaptiveSparkJob("job", exchange=str(tmp_path), options=JobOptions(spark_conf=secret if of_job else None)),
    ):
        AdaptiveSparkOperator(
            task_id="orders",
            source=Files("/lake/orders"),
            sink=Files("/mart/orders"),
            options=VertexOptions(spark_conf=None if of_job else secret),
        )
    with pytest.raises(JobGraphError) as refused:
        dag.get_task("job.plan")._programs(JobFolder(tmp_path, "daily", "monday", "job"), table_access())
    assert str(refused.value).startswith(
        "vertex 'orders': 'spark.hadoop.fs.s3a.secret.key' of its spark_conf is a secret that Airflow masks, and would"
    )
    assert "s3cr3t" not in str(refused.value)
