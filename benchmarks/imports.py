"""CPU seconds of what every Airflow process does first: import the package, and parse a DAG file."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROUNDS = 5
SDK = "import airflow.sdk; from airflow.sdk import DAG, BaseOperator, TaskGroup, task"
CASES = {
    "airflow.sdk": SDK,
    "airflow.sdk, airflow_abs": f"{SDK}; from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files",
    "airflow.sdk, parse daily_revenue": f"{SDK}; import daily_revenue",
    "what decide loads": f"{SDK}; import daily_revenue, airflow_abs.triggers.decide, "
    "airflow_abs.exchange.records.decisions",
    "what a subtask loads": f"{SDK}; import daily_revenue, grpc.aio, airflow_abs.spark.run.subtask; "
    "from airflow_abs.spark.connect.protocol import protos; protos()",
    "what plan loads": f"{SDK}; import daily_revenue, airflow_abs.spark.planning, pyspark.sql.connect.session",
}
REPORT = "import resource; r = resource.getrusage(resource.RUSAGE_SELF); print(r.ru_utime + r.ru_stime)"


def run() -> list[dict[str, float | str]]:
    """One row per case: CPU seconds of a fresh interpreter, and its ratio over `airflow.sdk` alone."""
    seconds: dict[str, list[float]] = {case: [] for case in CASES}
    for _ in range(ROUNDS):
        for case, code in CASES.items():
            seconds[case].append(measure(code))
    medians = {case: statistics.median(values) for case, values in seconds.items()}
    return [
        {"case": case, "cpu_seconds": round(value, 3), "over_sdk": round(value / medians["airflow.sdk"], 2)}
        for case, value in medians.items()
    ]


def measure(code: str) -> float:
    """CPU seconds of a fresh interpreter that runs `code`, its start not counted."""
    dags = str(Path(__file__).parents[1] / "dags")
    environment = os.environ | {"AIRFLOW__ADAPTIVE_SPARK__EXCHANGE": "file:///tmp/exchange"}
    start = f"import sys; sys.path.insert(0, {dags!r}); {REPORT}"
    command = [sys.executable, "-W", "ignore", "-c", f"{start}\n{code}\n{REPORT}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, *_, last = done.stdout.splitlines()
    return float(last) - float(first)
