"""The peer that maps a fixed number of Connect clients over every step: each task reads, filters, runs, writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.submit_step import place
from benchmarks.workloads import WORKLOADS, Step, apply

SLICES = 4


def run_slice(workload_name: str, step_name: str, data: str, out: str, index: int) -> None:
    """Run slice `index` of a step: every `SLICES`-th file of its table, or its share of the keys of its inputs."""
    from airflow.sdk import get_current_context

    from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
    from airflow_abs.spark.connect.session import open_session

    workload = WORKLOADS[workload_name]
    step = workload.step(step_name)
    files = sorted(map(str, Path(data, step.source).glob("*.parquet")))[index::SLICES] if step.source else []
    if step.source and not files:
        return
    instance = get_current_context()["ti"]
    endpoint = AdaptiveSparkHook("spark_connect_default").get_endpoint()
    session_id = slice_session(instance.dag_id, instance.run_id, step_name, index, instance.try_number)
    with open_session(endpoint, session_id=session_id) as session:
        frame = apply(
            step,
            lambda _: session.read.parquet(*files),
            lambda producer: _read_share(session, step, producer, out, index),
        )
        frame.write.mode("overwrite").parquet(f"{place(workload, step_name, out)}/slice-{index}")


def slice_session(dag_id: str, run_id: str, step: str, index: int, number: int) -> str:
    """The id of the Spark session of one try, so that whoever kills the try can end it there too."""
    from airflow_abs.spark.connect.operations import derive_id

    return derive_id("slices", dag_id, run_id, step, index, number)


def _read_share(session: Any, step: Step, producer: str, out: str, index: int) -> Any:
    frame = session.read.parquet(*sorted(map(str, Path(out, producer).glob("slice-*"))))
    keys = next(edge.keys for edge in step.inputs.values() if edge.step == producer)
    # Not Spark's own hash: all rows of a slice would meet in one of its shuffle partitions.
    return frame.where(f"pmod(xxhash64({', '.join(keys)}), {SLICES}) = {index}") if keys else frame
