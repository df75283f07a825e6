"""Run the workloads on all peers, interleaved, on one Airflow and one warm Spark server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_abs.core.durability.failures import FailurePriors
from airflow_abs.demo.services import AirflowServices
from airflow_abs.spark.connect.protocol import pyspark_folder
from airflow_abs.spark.server.embedded import ensure_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from airflow_abs.spark.server.java import find_java_home
from benchmarks import POOL
from benchmarks.cpu_time import adopt_orphans
from benchmarks.datasets import make_tables, table_bytes, verify
from benchmarks.expected import priors_of
from benchmarks.failures import KILLABLE, Failure, plan_failure
from benchmarks.peers import AIRFLOW_PEERS, Arena
from benchmarks.samples import Sample, spread
from benchmarks.workloads import Workload

DAG_SECONDS = 180.0
# Not measured: Spark's compiler, the triggerer's first imports.
WARM_UP = ("fused", "ours")
WARM_UP_SCALE = 1.0
_MOST_MISSED = 3
"""Goes at a round whose failure came too late: it ended undisturbed, so the next one is planned by its seconds, too."""
# Of the days of a series, 20-fold from the smallest to the largest, in even steps of the logarithm.
VOLUMES = tuple(round(20 ** (step / 5 - 1), 3) for step in range(6))
ROOT = Path(__file__).parents[1]

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Round:
    """All peers once, on tables of TPC-H's `scale`; they fail as `failure` says, if set (one of `KINDS`)."""

    number: int
    scale: float
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to run: `repeat` rounds of all peers, then as many for each of `failures` (of `KINDS`).

    With `days` the rounds are days instead, whose volumes differ 20-fold and are at most `scale`. With `mean_seconds`
    the jobs are told that so many seconds of work lie between two failures, else Airflow's options' defaults.
    """

    workloads: Sequence[Workload]
    peers: Sequence[str]
    scale: float
    repeat: int
    failures: Sequence[str] = ()
    days: int = 0
    mean_seconds: float | None = None
    data: Path = ROOT / "build" / "bench-data"

    @property
    def rounds(self) -> list[Round]:
        scales = [self.scale] * self.repeat
        if self.days:
            levels = [VOLUMES[day**3 % 31 % len(VOLUMES)] for day in range(1, self.days + 1)]  # in no order
            scales = [float(f"{self.scale * level:.3g}") for level in levels]
        failing = [(self.scale, kind) for kind in self.failures for _ in range(self.repeat)]
        return [Round(number, *each) for number, each in enumerate([*((scale, "") for scale in scales), *failing], 1)]

    @property
    def priors(self) -> FailurePriors:
        """What the jobs take for granted of failures."""
        return priors_of(self.mean_seconds)

    def runner(self, peer: str) -> str:
        """What runs as this peer: if some rounds fail, all rounds are of what can be killed."""
        return KILLABLE.get(peer, peer) if self.failures else peer


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
                _measure(arena, workload, peer, peer, Round(0, _warm_up_scale(comparison)))
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
    undisturbed: dict[str, list[Sample]] = {peer: [] for peer in comparison.peers}
    for each in comparison.rounds:
        for peer in comparison.peers:
            runner = comparison.runner(peer)
            for go in range(1, _MOST_MISSED + 1):
                failure = _plan(each.failure, peer, undisturbed) if each.failure else None
                sample = _measure(arena, workload, peer, runner, each, failure, go)
                report(_describe(sample))
                if not sample.notes.get("killed"):
                    undisturbed[peer].append(sample)
                if "missed" not in sample.notes:
                    break
            yield sample


def _plan(kind: str, peer: str, undisturbed: Mapping[str, Sequence[Sample]]) -> Failure:
    fastest = min(spread(each.wall for each in samples).median for samples in undisturbed.values())
    return plan_failure(kind, [each.last_step for each in undisturbed[peer]], fastest)


def _measure(
    arena: Arena, workload: Workload, peer: str, runner: str, of: Round, failure: Failure | None = None, go: int = 1
) -> Sample:
    outcome = arena.run(runner, workload, of.scale, f"round-{of.number}-{peer}-{go}", failure)
    problem = outcome.problem or verify(workload, arena.tables(workload, of.scale), outcome.output).problem
    arena.clear(runner, workload)
    return Sample(
        workload=workload.name,
        peer=peer,
        round=of.number,
        scale=of.scale,
        wall=round(outcome.wall, 2),
        cpu=outcome.cpu,
        problem=problem or outcome.missed,
        failure=of.failure,
        last_step=round(outcome.last_step, 2),
        notes={**outcome.notes, **({"missed": outcome.missed} if outcome.missed else {})},
    )


def _describe(sample: Sample) -> str:
    failed = f", failed: {sample.failure}" if sample.failure else ""
    edges = f", durable edges: {sample.notes['durable_edges']}" if "durable_edges" in sample.notes else ""
    which = f"{sample.peer} {sample.round}, scale {sample.scale:g}"
    return f"  {which}: {sample.wall:.1f} s, {sample.cpu_seconds:.1f} CPU s{failed}{edges}; {sample.problem or 'right'}"


def _environment(folder: Path, comparison: Comparison) -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "JAVA_HOME": str(find_java_home()),
        "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE": f"file://{folder}/exchange",
        "AIRFLOW__ADAPTIVE_SPARK__DURABILITY": "always",
        "AIRFLOW__ADAPTIVE_SPARK__FAILURES_PER_RUN": str(comparison.priors.failures_per_run),
        "AIRFLOW__ADAPTIVE_SPARK__FAILURES_PER_DAY": str(comparison.priors.failures_per_day),
        "AIRFLOW_ABS_BENCH_DATA": str(comparison.data / f"{comparison.scale:g}"),
        "AIRFLOW_ABS_BENCH_OUT": str(folder / "out"),
        "AIRFLOW_ABS_BENCH_SUBMIT": str(pyspark_folder() / "bin" / "spark-submit"),
        "AIRFLOW_ABS_BENCH_WORKLOADS": ",".join(each.name for each in comparison.workloads),
    }
