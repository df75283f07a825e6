"""`spark-submit submit_step.py WORKLOAD STEP DATA OUT`: one step as its own Spark application.

Its output goes to OUT/<step> as Parquet, that of the last step to OUT/result.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.workloads import WORKLOADS, Workload, apply


def run_step(session: Any, workload: Workload, name: str, data: str, out: str) -> None:
    """Read the step's table or inputs, run it, write its output."""
    frame = apply(
        workload.step(name),
        lambda table: session.read.parquet(f"{data}/{table}"),
        lambda step: session.read.parquet(f"{out}/{step}"),
    )
    frame.write.mode("overwrite").parquet(place(workload, name, out))


def place(workload: Workload, name: str, out: str) -> str:
    return f"{out}/{'result' if name == workload.last.name else name}"


def main(workload: str, step: str, data: str, out: str) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.appName(f"{workload} {step}").config("spark.sql.session.timeZone", "UTC")
    run_step(session.getOrCreate(), WORKLOADS[workload], step, data, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
