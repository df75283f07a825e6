"""Run the workloads on all peers, interleaved, on one Airflow and one warm Spark server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_abs.cli.services import AirflowServices
from airflow_abs.spark.embedded import ensure_embedded_server
from airflow_abs.spark.embedded_state import EmbeddedSettings
from airflow_abs.spark.java import find_java_home
from airflow_abs.spark.protocol import pyspark_folder
from benchmarks.cpu_time import adopt_orphans
from benchmarks.datasets import make_tables, table_bytes, verify
from benchmarks.peers import AIRFLOW_PEERS, Arena, Failure
from benchmarks.samples import Sample, spread
from benchmarks.workloads import Workload

DAG_SECONDS = 180.0
# Not measured: Spark's compiler, the triggerer's first imports, the file cache.
WARM_UP = ("fused", "ours")
SHARES = {"start": 0.1, "middle": 0.5, "end": 0.9}
ROOT = Path(__file__).parents[1]

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to run: `repeat` rounds of all peers, then one round for each of `failures` (keys of `SHARES`)."""

    workloads: Sequence[Workload]
    peers: Sequence[str]
    scale: float
    repeat: int
    failures: Sequence[str] = ()
    data: Path = ROOT / "build" / "bench-data"


def compare_peers(comparison: Comparison, report: Report = print) -> list[Sample]:
    """All samples, in the order of the runs. Nothing that it starts is left."""
    adopt_orphans()
    samples: list[Sample] = []
    folders = {each.name: make_tables(comparison.data, each, comparison.scale) for each in comparison.workloads}
    with open_arena(comparison) as arena:
        for workload in comparison.workloads:
            megabytes = table_bytes(folders[workload.name]) / 1e6
            report(f"{workload.name}: {megabytes:.0f} MB of Parquet, scale {comparison.scale:g}; warming up")
            for peer in WARM_UP:
                _measure(arena, workload, peer, 0, None)
            samples += _rounds(arena, workload, comparison, report)
    return samples


@contextmanager
def open_arena(comparison: Comparison) -> Iterator[Arena]:
    """Airflow's services with the DAGs of all workloads, and the embedded Spark server that its tasks use."""
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-", ignore_cleanup_errors=True) as name:
        folder, data = Path(name), comparison.data / f"{comparison.scale:g}"
        with AirflowServices(
            folder / "airflow", ROOT / "benchmarks" / "dags", env=_environment(folder, comparison)
        ) as airflow:
            endpoint = ensure_embedded_server(airflow.spark_folder, settings=EmbeddedSettings(idle_seconds=3600))
            for workload in comparison.workloads:
                for peer in AIRFLOW_PEERS:
                    airflow.api.wait_for_dag(f"{workload.name}__{peer}", DAG_SECONDS)
            yield Arena(airflow, endpoint, folder, data)


def _rounds(arena: Arena, workload: Workload, comparison: Comparison, report: Report) -> Iterator[Sample]:
    seconds: dict[str, list[float]] = {peer: [] for peer in comparison.peers}
    for number in range(1, comparison.repeat + 1):
        for peer in comparison.peers:
            sample = _measure(arena, workload, peer, number, None)
            seconds[peer].append(sample.last_step)
            report(_describe(sample))
            yield sample
    for number, name in enumerate(comparison.failures, comparison.repeat + 1):
        for peer in comparison.peers:
            failure = Failure(SHARES[name], spread(seconds[peer]).median)
            killed = "worker" if peer == "ours" else peer  # what the triggerer awaits has no process to kill
            sample = _measure(arena, workload, killed, number, failure, told=peer)
            report(_describe(sample))
            yield sample


def _measure(
    arena: Arena, workload: Workload, peer: str, number: int, failure: Failure | None, told: str | None = None
) -> Sample:
    outcome = arena.run(peer, workload, f"round-{number}", failure)
    problem = outcome.problem or verify(workload, arena.data / workload.name, outcome.output).problem
    arena.clear(peer, workload)
    return Sample(
        workload=workload.name,
        peer=told or peer,
        round=number,
        wall=round(outcome.wall, 2),
        cpu=outcome.cpu,
        problem=problem,
        failed_at=failure.share if failure else None,
        last_step=round(outcome.last_step, 2),
        notes=outcome.notes,
    )


def _describe(sample: Sample) -> str:
    killed = f", killed at {sample.failed_at:.0%} of its last step" if sample.failed_at is not None else ""
    outcome = sample.problem or "right"
    return f"  {sample.peer} {sample.round}: {sample.wall:.1f} s, {sample.cpu_seconds:.1f} CPU s{killed}; {outcome}"


def _environment(folder: Path, comparison: Comparison) -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "JAVA_HOME": str(find_java_home()),
        "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE": f"file://{folder}/exchange",
        "AIRFLOW_ABS_BENCH_DATA": str(comparison.data / f"{comparison.scale:g}"),
        "AIRFLOW_ABS_BENCH_OUT": str(folder / "out"),
        "AIRFLOW_ABS_BENCH_SUBMIT": str(pyspark_folder() / "bin" / "spark-submit"),
        "AIRFLOW_ABS_BENCH_WORKLOADS": ",".join(each.name for each in comparison.workloads),
    }
