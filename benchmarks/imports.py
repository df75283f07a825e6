"""CPU seconds of what every Airflow process does first: import the package, and parse a DAG file.

And of what a process that was forked for a task imports, without and with `airflow_abs.preload` in the one that forks.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from textwrap import indent

from airflow_abs.preload import OF_TASKS

ROUNDS = 5
SDK = "import airflow.sdk; from airflow.sdk import DAG, BaseOperator, TaskGroup, task"
CASES = {
    "airflow.sdk": SDK,
    "airflow.sdk, airflow_abs": f"{SDK}; from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files",
    "airflow.sdk, parse daily_revenue": f"{SDK}; import daily_revenue",
    "what decide loads": f"{SDK}; import daily_revenue, airflow_abs.execution.decide, "
    "airflow_abs.exchange.records.decisions",
    "what a subtask loads": f"{SDK}; import daily_revenue, grpc.aio, airflow_abs.spark.run.subtask; "
    "from airflow_abs.spark.connect.protocol import protos; protos()",
    "what plan loads": f"{SDK}; import daily_revenue, airflow_abs.spark.planning, pyspark.sql.connect.session",
}
FORKS = {"a forked task": SDK, "a forked task, with airflow_abs.preload": f"{SDK}; import airflow_abs.preload"}
REPORT = "import resource; r = resource.getrusage(resource.RUSAGE_SELF); print(r.ru_utime + r.ru_stime)"


def run() -> list[dict[str, float | str]]:
    """One row per case: CPU seconds of a fresh interpreter, and its ratio over `airflow.sdk` alone."""
    seconds: dict[str, list[float]] = {case: [] for case in (*CASES, *FORKS)}
    for _ in range(ROUNDS):
        for case, code in CASES.items():
            seconds[case].append(measure(code))
        for case, code in FORKS.items():
            seconds[case].append(measure_forked(code))
    medians = {case: statistics.median(values) for case, values in seconds.items()}
    return [
        {"case": case, "cpu_seconds": round(value, 3), "over_sdk": round(value / medians["airflow.sdk"], 2)}
        for case, value in medians.items()
    ]


def measure(code: str) -> float:
    """CPU seconds of a fresh interpreter that runs `code`, its start not counted."""
    first, *_, last = _told(f"{REPORT}\n{code}\n{REPORT}")
    return last - first


def measure_forked(code: str) -> float:
    """CPU seconds in which the second child of an interpreter that ran `code` imports what tasks do."""
    child = f"for name in {OF_TASKS!r}: import_module(name)\n{REPORT}"
    fork = f"for _ in range(2):\n    if os.fork() == 0:\n{indent(child, ' ' * 8)}\n        sys.exit()\n    os.wait()"
    return _told(f"import os, sys; from importlib import import_module; {code}\n{fork}")[-1]


def _told(code: str) -> list[float]:
    """What a fresh interpreter prints."""
    dags = str(Path(__file__).parents[1] / "dags")
    environment = os.environ | {"AIRFLOW__ADAPTIVE_SPARK__EXCHANGE": "file:///tmp/exchange"}
    command = [sys.executable, "-W", "ignore", "-c", f"import sys; sys.path.insert(0, {dags!r})\n{code}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.splitlines()]
