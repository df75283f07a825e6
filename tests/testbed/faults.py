"""Seeded faults on the whole cluster, run as processes: each kind several times, then the report.

python -m tests.testbed.faults --times 5 --seed 1 --json build/cluster-faults.json
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow_abs.demo.airflow_api import ENDED, AirflowApiError
from airflow_abs.demo.signals import ended_by_signals
from testbed.processes import ClusterProcesses
from tests.faults.pipeline import answer, make_lake
from tests.faults.suite import SETTINGS, read_output
from tests.spark_events import started_operations
from tests.testbed.cluster_injection import ClusterInjector

DAG_ID = "faults"
ROWS = 60_000
RUN_SECONDS = 1200.0
POLL_SECONDS = 0.3
LATE_SECONDS = 15.0


@dataclass(slots=True)
class ClusterFault:
    """One fault. `after` are seconds since the run's start; `recovered` until the next task of the run had ended.

    `ended_with_it` are services that ended by themselves before that, and were started again.
    """

    kind: str
    target: str
    after: float
    recovered: float = 0.0
    ended_with_it: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ClusterRun:
    """One run of the pipeline; `seconds` from its start to its end, `tries` of subtasks beyond the first."""

    seed: int
    state: str = ""
    seconds: float = 0.0
    right: bool = False
    tries: int = 0
    faults: list[ClusterFault] = field(default_factory=list)


@dataclass(slots=True)
class ClusterReport:
    """All runs, the undisturbed one first."""

    seed: int
    runs: list[ClusterRun]
    operations: int
    twice: int

    @property
    def is_right(self) -> bool:
        return not self.twice and all(run.right for run in self.runs)

    def to_markdown(self) -> str:
        quiet, disturbed = self.runs[0], self.runs[1:]
        faults = [(fault, run) for run in disturbed for fault in run.faults]
        lines = [
            f"| fault (seed {self.seed}) | times | runs right | seconds to recover: median, most | ended with it |",
            "|---|---|---|---|---|",
        ]
        for kind in sorted({fault.kind for fault, _ in faults}):
            hit = [(fault, run) for fault, run in faults if fault.kind == kind]
            seconds = [fault.recovered for fault, _ in hit]
            right = sum(run.right for _, run in hit)
            others = sorted({name for fault, _ in hit for name in fault.ended_with_it})
            spread = f"{statistics.median(seconds):.0f}, {max(seconds):.0f}"
            lines.append(f"| {kind} | {len(hit)} | {right} | {spread} | {', '.join(others)} |")
        seconds, mean = [run.seconds for run in disturbed] or [0.0], statistics.mean
        lines += [
            "",
            f"* runs: {len(self.runs)}, with the oracle's output: {sum(run.right for run in self.runs)}",
            f"* tries of subtasks beyond the first: {sum(run.tries for run in disturbed)}",
            f"* operations that Spark started: {self.operations}; started twice: {self.twice}",
            f"* seconds of a run: {quiet.seconds:.0f} without faults; with {len(faults)} faults in {len(disturbed)} "
            f"runs {mean(seconds):.0f} on average, {max(seconds):.0f} at most",
        ]
        return "\n".join(lines)


@dataclass(slots=True)
class ClusterSuite:
    """Runs the pipeline of the fault tests on a cluster that is up; `folder` has lake, mart and Spark's events."""

    cluster: ClusterProcesses
    folder: Path
    quiet_seconds: float = 60.0

    def run(self, seed: int, due: list[str]) -> ClusterRun:
        """One run; hit by the first of the kinds `due`, which it takes away, and by the next once it has recovered."""
        chance, run = random.Random(seed), ClusterRun(seed)  # noqa: S311
        injector = ClusterInjector(self.cluster, chance)
        causes = injector.kinds()
        run_id = self._trigger(seed)
        started = time.monotonic()
        next_at = started + chance.uniform(0.1, 0.5) * self.quiet_seconds
        hit: tuple[ClusterFault, float, int] | None = None
        while run.state not in ENDED:
            revived = self.cluster.revive()
            run.state, done = self._look(run_id, run.state)
            now = time.monotonic()
            if hit is not None:
                hit[0].ended_with_it += [name for name in revived if not hit[0].target.startswith(name)]
            if hit is not None and (done > hit[2] or run.state in ENDED):
                hit[0].recovered = round(now - hit[1], 1)
                _say(f"  a task of the run ended {hit[0].recovered:g} s after it")
                hit, next_at = None, now + chance.uniform(0.0, 0.3) * self.quiet_seconds
            elif hit is None and due and now >= next_at and run.state not in ENDED:
                hit = self._hit(causes[due[0]], run, due, now - started, done)
            if now > started + RUN_SECONDS:
                break
            time.sleep(POLL_SECONDS)
        run.seconds = round(time.monotonic() - started, 1)
        self._finish(run, run_id, injector)
        return run

    def run_before_workers(self, seed: int) -> ClusterRun:
        """A run that starts while Spark has no executor; they come when its `plan`, which tries Spark, has waited."""
        run, injector = ClusterRun(seed), ClusterInjector(self.cluster, random.Random(seed))  # noqa: S311
        injector.take_workers_away()
        run_id, started = self._trigger(seed), time.monotonic()
        began = 0.0
        while run.state not in ENDED and time.monotonic() < started + RUN_SECONDS:
            states = self.cluster.airflow.api.task_instances(DAG_ID, run_id)
            if not began and any(each.task_id.endswith(".plan") and each.state == "running" for each in states):
                began = time.monotonic()
            if began and not run.faults and time.monotonic() > began + LATE_SECONDS:
                injector.bring_workers_back()
                run.faults.append(ClusterFault("Spark workers late", "both", round(time.monotonic() - started, 1)))
                _say(f"run {seed}, {run.faults[0].after:.0f} s: Spark gets its first executors")
            self.cluster.revive()
            run.state = self.cluster.airflow.api.run_state(DAG_ID, run_id)
            time.sleep(POLL_SECONDS)
        run.seconds = round(time.monotonic() - started, 1)
        for fault in run.faults:
            fault.recovered = round(run.seconds - fault.after, 1)
        self._finish(run, run_id, injector)
        return run

    def _trigger(self, seed: int) -> str:
        when = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=seed)
        return self.cluster.airflow.api.trigger_run(DAG_ID, when, run_id=f"f{seed}")

    def _look(self, run_id: str, before: str) -> tuple[str, int]:
        """The run's state, and how many of its tasks have ended; without an answer, as before and none."""
        api = self.cluster.airflow.api
        with suppress(AirflowApiError):  # its database or itself is being restarted
            states = api.task_instances(DAG_ID, run_id)
            return api.run_state(DAG_ID, run_id), sum(each.state == "success" for each in states)
        return before, -1

    def _hit(
        self, cause: Callable[[], str | None], run: ClusterRun, due: list[str], after: float, done: int
    ) -> tuple[ClusterFault, float, int] | None:
        at = time.monotonic()
        target = cause() if done >= 0 else None
        if target is None:
            return None
        fault = ClusterFault(due.pop(0), target, round(after, 1))
        _say(f"run {run.seed}, {fault.after:.0f} s: {fault.kind} ({target})")
        run.faults.append(fault)
        return fault, at, done

    def _finish(self, run: ClusterRun, run_id: str, injector: ClusterInjector) -> None:
        while self._look(run_id, "")[1] < 0:
            self.cluster.revive()
            time.sleep(POLL_SECONDS)
        states = self.cluster.airflow.api.task_instances(DAG_ID, run_id)
        run.tries = sum(each.try_number - 1 for each in states if each.task_id.endswith(".run"))
        run.right = run.state == "success" and read_output(self.folder, run_id) == answer(self.folder / "lake")
        _say(f"run {run.seed}: {run.state} after {run.seconds:.0f} s, {len(run.faults)} faults, right: {run.right}")
        injector.restore()


def run_suite(seed: int, times: int, suite: ClusterSuite, only: Sequence[str] = ()) -> ClusterReport:
    """First an undisturbed run, then as many as it takes until each kind has hit `times` times; a wrong one ends it."""
    chance = random.Random(seed)  # noqa: S311
    kinds = sorted(only or ClusterInjector(suite.cluster, chance).kinds())
    due: list[str] = []
    for _ in range(times):
        due += chance.sample(kinds, len(kinds))
    suite.run(seed * 1000, [])  # warms up Spark's compiler and everybody's imports
    runs = [suite.run(seed * 1000 + 1, [])]
    suite.quiet_seconds = runs[0].seconds
    runs.append(suite.run_before_workers(seed * 1000 + 2))
    with suppress(KeyboardInterrupt):
        while due and all(run.right for run in runs):
            runs.append(suite.run(seed * 1000 + 1 + len(runs), due))
    time.sleep(2.0)  # Spark's event log is written a moment later
    started: dict[str, int] = {}
    for (_, operation), count in started_operations(suite.folder / "events").items():
        started[operation] = started.get(operation, 0) + count
    return ClusterReport(seed, runs, len(started), sum(count > 1 for count in started.values()))


def make_cluster(folder: Path) -> ClusterProcesses:
    """Not started yet: with the fault tests' DAGs, lake and settings, and with Spark's events in `folder`."""
    lake = make_lake(folder / "lake", ROWS)
    source = Path(__file__).parents[1] / "faults" / "dags"
    shutil.copytree(source, folder / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "events").mkdir()
    environment = SETTINGS | {"AIRFLOW_ABS_FAULTS_LAKE": str(lake), "AIRFLOW_ABS_FAULTS_MART": str(folder / "mart")}
    cluster = ClusterProcesses(folder / "cluster", folder / "dags", env=environment, report=_say)
    settings = {"enabled": "true", "compress": "false", "dir": f"file://{folder}/events"}
    with (folder / "cluster" / "secrets" / "spark.conf").open("a") as file:
        file.writelines(f"spark.eventLog.{name} {value}\n" for name, value in settings.items())
    return cluster


def _say(line: str) -> None:
    print(f"{datetime.now(tz=UTC):%H:%M:%S} {line}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=5, help="how often each kind of fault is caused")
    parser.add_argument("--only", action="append", default=[], help="a kind of fault; may be given several times")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="airflow-abs-cluster-faults-"))
    folder.chmod(0o711)  # PostgreSQL may run as a user of its own
    try:
        with ended_by_signals(), make_cluster(folder) as cluster:
            cluster.airflow.api.wait_for_dag(DAG_ID, 400.0)
            report = run_suite(options.seed, options.times, ClusterSuite(cluster, folder), options.only)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(report.to_markdown())
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    return 0 if report.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
