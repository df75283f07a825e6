"""What importing costs: Airflow parses DAG files all day, so nothing heavy may come with it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow

HEAVY = {"pyspark", "grpc", "pyarrow", "pandas", "numpy", "s3fs", "aiobotocore", "botocore", "boto3", "moto", "flask"}

RUNNING = {
    f"airflow_abs.exchange.{name}"
    for name in (
        "records.plan",
        "records.decisions",
        "publish.publication",
        "runs.cleaning",
        "runs.run_reading",
    )
}
"""What tasks need when they run: every worker and every parse would pay for it."""

REPORT = "import sys; print(' '.join(sorted({name.split('.')[0] for name in sys.modules} | set(sys.modules))))"


def loaded_by(code: str, environment: dict[str, str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{code}\n{REPORT}"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_neither_airflow_nor_spark(airflow_environment: Any) -> None:
    loaded = loaded_by("import airflow_abs, airflow_abs.core.graph.job_graph", airflow_environment.variables)
    assert not loaded & (HEAVY | {"airflow", "fsspec", "upath"})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("daily_revenue", marks=pytest.mark.sample),
        "diamond",
        "iceberg_revenue",
        "pipelined",
        "taskflow_revenue",
    ],
)
def test_parsing_a_dag_loads_neither_pyspark_nor_grpc_nor_what_running_takes(
    airflow_environment: Any, name: str
) -> None:
    code = f"import sys; sys.path.insert(0, {airflow_environment.dags!r}); import {name}"
    assert not loaded_by(code, airflow_environment.variables) & (HEAVY | RUNNING)


def test_deciding_and_publishing_load_neither_pyspark_nor_grpc(airflow_environment: Any) -> None:
    code = f"import airflow_abs.execution.decide, airflow_abs.execution.metrics, {', '.join(RUNNING)}"
    assert not loaded_by(code, airflow_environment.variables) & (HEAVY - {"numpy"})
