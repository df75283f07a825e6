"""Run the workloads on all peers, interleaved, on one Airflow and one warm Spark server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_abs.demo.services import AirflowServices
from airflow_abs.spark.connect.protocol import pyspark_folder
from airflow_abs.spark.server.embedded import ensure_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from airflow_abs.spark.server.java import find_java_home
from benchmarks import POOL
from benchmarks.cpu_time import adopt_orphans
from benchmarks.datasets import make_tables, table_bytes, verify
from benchmarks.peers import AIRFLOW_PEERS, OUR_PEERS, Arena, Failure
from benchmarks.samples import Sample, spread
from benchmarks.workloads import Workload

DAG_SECONDS = 180.0
# Not measured: Spark's compiler, the triggerer's first imports.
WARM_UP = ("fused", "ours")
WARM_UP_SCALE = 1.0
SHARES = {"start": 0.1, "middle": 0.5, "end": 0.9}
# Of the days of a series, 20-fold from the smallest to the largest, in even steps of the logarithm.
VOLUMES = tuple(round(20 ** (step / 5 - 1), 3) for step in range(6))
ROOT = Path(__file__).parents[1]

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Round:
    """All peers once, on tables of TPC-H's `scale`; their last step is killed after `failed_at` of its time, if set."""

    number: int
    scale: float
    failed_at: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to run: `repeat` rounds of all peers, then one round for each of `failures` (keys of `SHARES`).

    With `days` the rounds are days instead, whose volumes differ 20-fold and are at most `scale`.
    """

    workloads: Sequence[Workload]
    peers: Sequence[str]
    scale: float
    repeat: int
    failures: Sequence[str] = ()
    days: int = 0
    data: Path = ROOT / "build" / "bench-data"

    @property
    def rounds(self) -> list[Round]:
        scales = [self.scale] * self.repeat
        if self.days:
            levels = [VOLUMES[day**3 % 31 % len(VOLUMES)] for day in range(1, self.days + 1)]  # in no order
            scales = [float(f"{self.scale * level:.3g}") for level in levels]
        kills = [(self.scale, SHARES[name]) for name in self.failures]
        return [Round(number, *each) for number, each in enumerate([*((scale, None) for scale in scales), *kills], 1)]


def compare_peers(comparison: Comparison, report: Report = print) -> Generator[Sample]:
    """Every sample as soon as it is there. Nothing that it starts is left once it is closed."""
    adopt_orphans()
    for workload in comparison.workloads:
        for scale in {each.scale for each in comparison.rounds} | {_warm_up_scale(comparison)}:
            make_tables(comparison.data, workload, scale)
    with open_arena(comparison) as arena:
        for workload in comparison.workloads:
            first = comparison.rounds[0]
            megabytes = table_bytes(arena.tables(workload, first.scale)) / 1e6
            report(f"{workload.name}: {megabytes:.0f} MB of Parquet, scale {first.scale:g}; warming up")
            for peer in WARM_UP:
                _measure(arena, workload, peer, Round(0, _warm_up_scale(comparison)))
            yield from _rounds(arena, workload, comparison, report)


def _warm_up_scale(comparison: Comparison) -> float:
    return min(WARM_UP_SCALE, comparison.rounds[0].scale)


@contextmanager
def open_arena(comparison: Comparison) -> Iterator[Arena]:
    """Airflow's services with the DAGs of all workloads, and the embedded Spark server that its tasks use."""
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with AirflowServices(
            folder / "airflow", ROOT / "benchmarks" / "dags", env=_environment(folder, comparison)
        ) as airflow:
            endpoint = ensure_embedded_server(airflow.spark_folder, settings=EmbeddedSettings(idle_seconds=3600))
            for workload in comparison.workloads:
                for peer in AIRFLOW_PEERS:
                    airflow.api.wait_for_dag(f"{workload.name}__{peer}", DAG_SECONDS)
            # One more than Spark runs at once: it starts while they work.
            pool = {"name": POOL, "slots": (os.cpu_count() or 1) + 1, "include_deferred": True}
            airflow.api.request("POST", "/pools", json=pool)
            yield Arena(airflow, endpoint, folder, comparison.data)


def _rounds(arena: Arena, workload: Workload, comparison: Comparison, report: Report) -> Iterator[Sample]:
    seconds: dict[str, list[float]] = {peer: [] for peer in comparison.peers}
    for each in comparison.rounds:
        for peer in comparison.peers:
            failure = None
            if each.failed_at is not None:
                failure = Failure(each.failed_at, spread(seconds[peer]).median)
            sample = _measure(arena, workload, peer, each, failure)
            if failure is None:
                seconds[peer].append(sample.last_step)
            report(_describe(sample))
            yield sample


def _measure(arena: Arena, workload: Workload, peer: str, of: Round, failure: Failure | None = None) -> Sample:
    # What the triggerer awaits has no process that could be killed.
    runner = "worker" if failure is not None and peer in OUR_PEERS else peer
    outcome = arena.run(runner, workload, of.scale, f"round-{of.number}-{peer}", failure)
    problem = outcome.problem or verify(workload, arena.tables(workload, of.scale), outcome.output).problem
    arena.clear(runner, workload)
    return Sample(
        workload=workload.name,
        peer=peer,
        round=of.number,
        scale=of.scale,
        wall=round(outcome.wall, 2),
        cpu=outcome.cpu,
        problem=problem,
        failed_at=of.failed_at,
        last_step=round(outcome.last_step, 2),
        notes=outcome.notes,
    )


def _describe(sample: Sample) -> str:
    killed = f", killed at {sample.failed_at:.0%} of its last step" if sample.failed_at is not None else ""
    which = f"{sample.peer} {sample.round}, scale {sample.scale:g}"
    return f"  {which}: {sample.wall:.1f} s, {sample.cpu_seconds:.1f} CPU s{killed}; {sample.problem or 'right'}"


def _environment(folder: Path, comparison: Comparison) -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "JAVA_HOME": str(find_java_home()),
        "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE": f"file://{folder}/exchange",
        "AIRFLOW__ADAPTIVE_SPARK__DURABILITY": "always",
        "AIRFLOW_ABS_BENCH_DATA": str(comparison.data / f"{comparison.scale:g}"),
        "AIRFLOW_ABS_BENCH_OUT": str(folder / "out"),
        "AIRFLOW_ABS_BENCH_SUBMIT": str(pyspark_folder() / "bin" / "spark-submit"),
        "AIRFLOW_ABS_BENCH_WORKLOADS": ",".join(each.name for each in comparison.workloads),
    }
