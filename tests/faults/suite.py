"""`make test-faults`: a real Airflow and a real Spark run a pipeline while seeded faults hit them; then the report.

The pipeline appends to an Iceberg, a Delta and a PostgreSQL table and one of Spark's catalog as well, and so do others
at all times.

python -m tests.faults.suite --seed 1 --faults 100 --json build/faults.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from airflow_abs.demo.services import AirflowServices
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.plan import read_plan
from airflow_abs.exchange.records.recovery_claim import list_claims
from tests.airflow_settings import FOR_TESTS
from tests.faults.injection import DEFAULT_PACE, Fault, Injector, Pace
from tests.faults.pipeline import answer, make_lake
from tests.faults.strangers import Tables, open_tables
from tests.spark_events import started_operations

ROWS = 60_000
RUN_SECONDS = 900.0
HELD_PER_RUN = 100_000  # bytes of plan, decisions and manifests, which explain a run that is over
SETTINGS = FOR_TESTS | {
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
    "AIRFLOW__ADAPTIVE_SPARK__TARGET_BYTES": "600000",
    "AIRFLOW__ADAPTIVE_SPARK__DURABILITY": "always",
    "AIRFLOW__ADAPTIVE_SPARK__SHARE_TASKS": "False",
    "AIRFLOW__ADAPTIVE_SPARK__CHAINING": "False",
}


@dataclass(slots=True)
class FaultRun:
    """One run of the pipeline and what it went through. `seconds` is from its start to its end; `grouped` says whether
    rows were grouped before their consumer joined them."""

    seed: int
    state: str = ""
    seconds: float = 0.0
    right: bool = False
    tries: int = 0
    recomputed_bytes: int = 0
    grouped: bool = False
    faults: list[Fault] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """All runs. `quiet_seconds` is a run without faults; `twice` are operations that one server started twice;
    `foreign` are rows that others appended to each table meanwhile."""

    seed: int
    per_run: int
    quiet_seconds: float
    runs: list[FaultRun]
    operations: int
    twice: int
    foreign: dict[str, int] = field(default_factory=dict)

    def to_markdown(self) -> str:
        faults = Counter(fault.kind for run in self.runs for fault in run.faults)
        lost = sum(fault.bytes for run in self.runs for fault in run.faults)
        again = sum(run.recomputed_bytes for run in self.runs)
        average = sum(run.seconds for run in self.runs) / max(1, len(self.runs))
        slowest = max((run.seconds for run in self.runs), default=0.0)
        rows = "\n".join(f"| {kind} | {count} |" for kind, count in sorted(faults.items()))
        foreign = ", ".join(f"{kind} {count}" for kind, count in self.foreign.items())
        wrong = [run.seed for run in self.runs if not run.right]
        grouped = sum(run.grouped for run in self.runs)
        return "\n".join(
            [
                f"| fault (seed {self.seed}) | times |", "|---|---|", rows, f"| **all** | **{faults.total()}** |", "",
                f"* runs: {len(self.runs)}, with the oracle's output: {sum(run.right for run in self.runs)}"
                + (f" (not: seeds {wrong})" if wrong else ""),
                *([f"* runs that grouped rows before a join: {grouped}"] if grouped else []),
                *([f"* rows that others appended to the tables meanwhile: {foreign}"] if foreign else []),
                f"* tries of subtasks beyond the first: {sum(run.tries for run in self.runs)}",
                f"* operations that Spark started: {self.operations}; started twice on one server: {self.twice}",
                f"* bytes of damaged files: {lost}; recomputed: {again}",
                f"* seconds of a run: {self.quiet_seconds:.0f} without faults; with up to {self.per_run} "
                f"{average:.0f} on average, {slowest:.0f} at most",
            ]
        )  # fmt: skip


@contextlib.contextmanager
def faulty_airflow(
    folder: Path, *, executors: int = 0, tables: Tables | None = None, grouped: bool = False
) -> Iterator[AirflowServices]:
    """A real Airflow with the fault DAGs; `folder` gets lake, mart, Spark's events, and a small exchange if it may.

    With `executors`, Spark's tasks run in so many processes of their own, else in the server. If the orders are
    `grouped` where they are joined, there are enough of them for a run to measure that this pays before the join.
    """
    lake = make_lake(folder / "lake", 3 * ROWS if grouped else ROWS)
    shutil.copytree(Path(__file__).parent / "dags", folder / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    exchange, events = folder / "exchange", folder / "events"
    exchange.mkdir()
    events.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{events}",
        # Vectored reads happen in threads that Spark's input metrics do not see.
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
    }
    if tables:
        conf |= tables.spark_conf
    if executors:
        conf["spark.master"] = f"local-cluster[{executors},1,1024]"
    spark = {"conn_type": "spark_connect", "extra": {"idle_seconds": 300, "ui": True, "conf": conf}}
    environment = SETTINGS | {
        "AIRFLOW_ABS_FAULTS_LAKE": str(lake),
        "AIRFLOW_ABS_FAULTS_MART": str(folder / "mart"),
        **({"AIRFLOW_ABS_FAULTS_GROUPED": "1", "AIRFLOW__ADAPTIVE_SPARK__TARGET_BYTES": "1800000"} if grouped else {}),
        "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE": f"file://{exchange}",
        "AIRFLOW_CONN_SPARK_CONNECT_DEFAULT": json.dumps(spark),
        **(tables.environment if tables else {}),
    }
    with (
        _small_file_system(exchange),
        AirflowServices(folder / "airflow", folder / "dags", env=environment, report=_say) as airflow,
    ):
        airflow.api.wait_for_dag("faults", 400.0)
        yield airflow


def run_suite(
    seed: int,
    count: int,
    folder: Path,
    airflow: AirflowServices,
    kinds: Sequence[str] = (),
    pace: Pace = DEFAULT_PACE,
    tables: Tables | None = None,
) -> Report:
    """Run the pipeline again and again until `count` faults have hit it; a wrong output or Ctrl-C ends it.

    With `kinds`, only these faults; with `tables`, each run is to be in those, too, and whatever others write there.
    """
    quiet = _run(airflow, folder, seed, 0, tables=tables).seconds if pace.quiet_seconds is None else pace.quiet_seconds
    runs: list[FaultRun] = []
    with contextlib.suppress(KeyboardInterrupt):
        while (left := count - sum(len(run.faults) for run in runs)) > 0 and all(run.right for run in runs):
            number = seed * 1000 + len(runs) + 1
            every = quiet / pace.per_run
            faults = min(pace.per_run, left)
            runs.append(_run(airflow, folder, number, faults, every=every, only=kinds, tables=tables))
    started = started_operations(folder / "events")
    return Report(seed, pace.per_run, quiet, runs, len(started), sum(times > 1 for times in started.values()))


def _run(
    airflow: AirflowServices,
    folder: Path,
    seed: int,
    faults: int,
    *,
    every: float = 1.0,
    only: Sequence[str] = (),
    tables: Tables | None = None,
) -> FaultRun:
    """One run, hit by this many faults (of the kinds `only`, if any are named) after each 0.3 to 1 times `every`."""
    chance = random.Random(seed)  # noqa: S311
    run, started = FaultRun(seed), time.monotonic()
    run_id = airflow.api.trigger_run(
        "faults", datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=seed), run_id=f"f{seed}"
    )
    job = JobFolder(folder / "exchange", "faults", run_id, "job")
    injector = Injector(airflow, folder / "exchange", chance)
    kinds = {kind: cause for kind, cause in injector.kinds().items() if not only or kind in only}
    planned = [chance.choice(sorted(kinds)) for _ in range(faults)]
    deadline = time.monotonic() + RUN_SECONDS
    while planned and airflow.api.run_state("faults", run_id) not in {"success", "failed"}:
        time.sleep(chance.uniform(0.3, 1.0) * every)
        fault = kinds[planned[0]](job)
        if fault is not None:
            _say(f"run {seed}, {time.monotonic() - started:.0f} s: {fault.kind} ({fault.target})")
            run.faults.append(fault)
            planned.pop(0)
        elif chance.random() < 0.2:
            planned[0] = chance.choice(sorted(kinds))
        if time.monotonic() > deadline:
            break
    run.state = airflow.api.wait_for_run("faults", run_id, RUN_SECONDS)
    run.seconds = time.monotonic() - started
    states = airflow.api.task_instances("faults", run_id)
    run.tries = sum(each.try_number - 1 for each in states if each.task_id.endswith(".run"))
    run.recomputed_bytes = _recomputed(job)
    if run.state == "success":
        run.grouped = any(each.written.startswith("partial ") for each in read_plan(job).region("enriched").inputs)
    expected = answer(folder / "lake")
    run.right = run.state == "success" and read_output(folder, run_id) == expected
    for problem in tables.find_wrong(run_id, expected) if tables and run.right else ():
        run.right = False
        _say(problem)
    _say(f"run {seed}: {run.state} after {run.seconds:.0f} s, {len(run.faults)} faults, output right: {run.right}")
    return run


def run_mark(seed: int, folder: Path, airflow: AirflowServices) -> tuple[float, FaultRun]:
    """Seconds of an undisturbed run, then a run with a failure every 1/30 of that: Flink's published mark is 2."""
    quiet = _run(airflow, folder, seed, 0)
    chance, run = random.Random(seed), FaultRun(seed * 1000)  # noqa: S311
    run_id = f"f{run.seed}"
    airflow.api.trigger_run("faults", datetime(2026, 1, 2, tzinfo=UTC) + timedelta(minutes=seed), run_id=run_id)
    job = JobFolder(folder / "exchange", "faults", run_id, "job")
    kinds = Injector(airflow, folder / "exchange", chance).kinds()
    chosen = [kind for kind in sorted(kinds) if kind.startswith("file: ") or kind == "kill worker"]
    started = time.monotonic()
    while airflow.api.run_state("faults", run_id) not in {"success", "failed"}:
        due = started + (len(run.faults) + 1) * quiet.seconds / 30
        if time.monotonic() >= due and (fault := kinds[chance.choice(chosen)](job)) is not None:
            run.faults.append(fault)
        time.sleep(0.2)
    run.seconds = time.monotonic() - started
    run.state = airflow.api.run_state("faults", run_id)
    run.right = run.state == "success" and read_output(folder, run_id) == answer(folder / "lake")
    slower = f"{quiet.seconds:.0f} s undisturbed, {run.seconds:.0f} s with {len(run.faults)} faults"
    _say(f"mark: {slower}, output right: {run.right}")
    return quiet.seconds, run


def run_days(days: int, folder: Path, airflow: AirflowServices) -> bool:
    """Run after run without faults; True if each was right and left the exchange nothing but a few small files."""
    right = True
    for day in range(days):
        run = _run(airflow, folder, day, 0)
        held = [path.stat().st_size for path in (folder / "exchange").rglob("*") if path.is_file()]
        _say(f"day {day + 1}: the exchange holds {sum(held):,} bytes in {len(held)} files")
        right = right and run.right and sum(held) < (day + 1) * HELD_PER_RUN
    return right


def read_output(folder: Path, run_id: str) -> list[tuple[object, ...]]:
    """What a run published, as `answer` has it."""
    query = (
        f"SELECT region, revenue, orders FROM read_parquet('{folder}/mart/run={run_id}/*.parquet', hive_partitioning=0)"
    )
    return sorted(duckdb.sql(query).fetchall())


def _recomputed(job: JobFolder) -> int:
    """Bytes that were recomputed after they were lost, each time they were."""
    return sum(claim.recomputed_bytes for claim in list_claims(job))


@contextlib.contextmanager
def _small_file_system(folder: Path) -> Iterator[None]:
    """A file system of 96 MB, if we may mount one; else the disk is never full."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        _say("no small file system could be mounted: no fault fills the disk")
    try:
        yield
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=False)


def _say(line: str) -> None:
    print(f"{datetime.now(tz=UTC):%H:%M:%S} {line}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--mark", action="store_true", help="instead: one run with a failure every 1/30 of its time")
    parser.add_argument("--days", type=int, default=0, help="instead: so many daily runs without faults, one by one")
    parser.add_argument("--executors", type=int, default=2, help="processes that run Spark's tasks; 0: the server does")
    parser.add_argument("--only", action="append", default=[], help="a kind of fault; may be given several times")
    parser.add_argument("--no-tables", action="store_true", help="publish to files alone, and nobody else writes")
    parser.add_argument("--grouped", action="store_true", help="group rows before the join, from the second run on")
    parser.add_argument("--per-run", type=int, default=DEFAULT_PACE.per_run, help="faults in one run of the pipeline")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, help="keep everything here (default: a temporary folder)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="airflow-abs-faults-") as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as opened:
            with_tables = not (options.no_tables or options.mark or options.days)
            tables = opened.enter_context(open_tables(folder / "tables")) if with_tables else None
            airflow = opened.enter_context(
                faulty_airflow(folder, executors=options.executors, tables=tables, grouped=options.grouped)
            )
            if options.mark:
                quiet, marked = run_mark(options.seed, folder, airflow)
                return 0 if marked.right and marked.seconds <= 2 * quiet else 1
            if options.days:
                return 0 if run_days(options.days, folder, airflow) else 1
            pace = Pace(options.per_run)
            with tables.strangers() if tables else contextlib.nullcontext():
                report = run_suite(options.seed, options.faults, folder, airflow, options.only, pace, tables)
            report.foreign = {kind: len(numbers) for kind, numbers in tables.foreign.items()} if tables else {}
    print(report.to_markdown())
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    wrong = report.twice or not all(run.right for run in report.runs)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
