"""`airflow-abs demo`: days of very different volume through a real Airflow and a real Spark, checked against DuckDB."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.demo.airflow_api import AirflowApi, SubtaskState
from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.demo.oracle import QUERIES, Verdict, verify
from airflow_abs.demo.run_report import RunReport, lines_of_fan_out, lines_of_run, read_vertices
from airflow_abs.demo.services import AirflowServices, Report, example_environment
from airflow_abs.demo.signals import ended_by_signals

if TYPE_CHECKING:
    from airflow_abs.cli.output.terminal import Terminal

RUN_SECONDS = 1200.0
DAG_SECONDS = 300.0
# Should this process be killed, the server ends by itself after so long without a task.
SPARK_IDLE_SECONDS = 120.0
# The data's days then give the sources 1, 3 and 8 subtasks, the join 1, 3 and 8 or 9.
TARGET_BYTES_PER_SCALE = 1_536_000


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to run. `dag_ids` are keys of `oracle.QUERIES`; `dags_folder` holds their files."""

    dates: tuple[date, ...]
    scale: float
    dag_ids: tuple[str, ...]
    dags_folder: Path
    hot_day: date | None = None
    keep: bool = False
    json_file: Path | None = None

    def __post_init__(self) -> None:
        unknown = sorted(set(self.dag_ids) - set(QUERIES))
        if unknown:
            raise ValueError(f"demo: no example DAG is called {', '.join(unknown)}; there are {', '.join(QUERIES)}")
        if not self.dags_folder.is_dir():
            raise ValueError(
                f"demo: {self.dags_folder} is not a folder; expected the example DAGs, name theirs with --dags-folder"
            )

    @property
    def target_bytes(self) -> int:
        return max(1, int(self.scale * TARGET_BYTES_PER_SCALE))


Look = Callable[[Sequence[SubtaskState]], None]

OpenServices = Callable[[Path, dict[str, str], Report], AbstractContextManager[AirflowServices]]
"""Starts Airflow and its Spark; gets the demo's folder, what to add to the environment, and where to report."""


def run_demo(options: DemoOptions, terminal: Terminal, open_services: OpenServices | None = None) -> bool:
    """Run it all; True if every run succeeded with the right output. Nothing that it started is left, ever.

    `open_services` is for another Airflow than one on SQLite with an embedded Spark.
    """
    DataSpec(Path(), options.dates, options.scale, options.hot_day)  # wrong arguments fail before anything starts
    with ended_by_signals(), work_folder() as folder:
        generate(DataSpec(folder / "data", options.dates, options.scale, options.hot_day), terminal.step)
        environment = example_environment(folder, options.target_bytes)
        opened = (
            open_services(folder, environment, terminal.step)
            if open_services is not None
            else embedded_services(options.dags_folder, folder, environment, terminal)
        )
        with opened as airflow:
            terminal.step(f"a subtask should read {format_bytes(options.target_bytes)}")
            runs = _run_all(options, folder, airflow.api, terminal)
            _tell(options, runs, terminal)
            if options.keep:
                wait_for_the_user(airflow, terminal)
            terminal.step("ending Airflow and Spark")
    return all(run.verified for run in runs)


@contextmanager
def embedded_services(
    dags_folder: Path, folder: Path, environment: dict[str, str], terminal: Terminal
) -> Iterator[AirflowServices]:
    """An Airflow on SQLite with an embedded Spark; gone when the block ends."""
    home, report, waiting = folder / "airflow", terminal.step, terminal.doing
    with AirflowServices(home, dags_folder, env=environment, report=report, waiting=waiting) as airflow:
        _start_spark(airflow, terminal)
        yield airflow


def run_day(
    dag_id: str,
    day: date,
    folder: Path,
    api: AirflowApi,
    terminal: Terminal,
    *,
    look: Look = lambda states: None,
    copy_of: str | None = None,
) -> RunReport:
    """Run `dag_id` for one day, as its schedule would at the end of that day, and check what it wrote.

    `look` is shown the task instances again and again while it runs. `copy_of` is the example that this DAG is a copy
    of, and has the output of.
    """
    logical_date = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
    started = time.monotonic()
    run_id = api.trigger_run(dag_id, logical_date, run_id=f"demo__{day}")

    def show(states: list[SubtaskState]) -> None:
        look(states)
        terminal.doing(f"{dag_id} {day}: {describe_progress(states)}")

    state = api.wait_for_run(dag_id, run_id, RUN_SECONDS, show)
    seconds = time.monotonic() - started
    states = api.task_instances(dag_id, run_id)
    vertices = read_vertices(folder / "exchange", dag_id, run_id, states)
    verdict = (
        verify(copy_of or dag_id, day, folder / "data", folder / "mart" / dag_id / f"ds={day}")
        if state == "success"
        else Verdict(0, _failure_story(dag_id, run_id, states, api))
    )
    return RunReport(dag_id, run_id, logical_date.isoformat(), day, seconds, verdict.rows, verdict.problem, vertices)


def describe_progress(states: Sequence[SubtaskState]) -> str:
    """What a run is doing, for example `5/14 tasks; now revenue.enriched.run 2 running, 1 deferred`."""
    done = sum(state.state in {"success", "skipped"} for state in states)
    now = Counter(
        (state.task_id, state.state) for state in states if state.state not in {None, "success", "skipped", "removed"}
    )
    by_task: dict[str, list[str]] = {}
    for (task_id, state), count in sorted(now.items(), key=str):
        by_task.setdefault(task_id, []).append(f"{count} {state}")
    doing = "; ".join(f"{task_id} {', '.join(counts)}" for task_id, counts in by_task.items())
    return f"{done}/{len(states)} tasks" + (f"; now {doing}" if doing else "")


def _start_spark(airflow: AirflowServices, terminal: Terminal) -> None:
    """The first task would do it too; so its time is not the first run's, and a missing Java is told at once."""
    from airflow_abs.spark.server.embedded import ensure_embedded_server
    from airflow_abs.spark.server.embedded_state import EmbeddedSettings

    terminal.doing("Spark: starting the embedded Connect server")
    endpoint = ensure_embedded_server(airflow.spark_folder, settings=EmbeddedSettings(idle_seconds=SPARK_IDLE_SECONDS))
    terminal.step(f"Spark: embedded Connect server up at {endpoint.address}")


def _run_all(options: DemoOptions, folder: Path, api: AirflowApi, terminal: Terminal) -> list[RunReport]:
    runs = []
    for dag_id in options.dag_ids:
        terminal.doing(f"waiting for Airflow to read {dag_id}")
        api.wait_for_dag(dag_id, DAG_SECONDS)
        for day in options.dates:
            run = run_day(dag_id, day, folder, api, terminal)
            for number, line in enumerate(lines_of_run(run)):
                (terminal.show if number else terminal.step)(line)
            runs.append(run)
    return runs


def _failure_story(dag_id: str, run_id: str, states: Sequence[SubtaskState], api: AirflowApi) -> str:
    failed = [state for state in states if state.state == "failed"]
    if not failed:
        return "the run failed without a failed task"
    first = failed[0]
    log = api.task_log(dag_id, run_id, first.task_id, first.map_index, first.try_number).splitlines()
    return f"{first.task_id}[{first.map_index}] failed; the end of its log:\n" + "\n".join(log[-25:])


def _tell(options: DemoOptions, runs: Sequence[RunReport], terminal: Terminal) -> None:
    terminal.show("")
    for line in lines_of_fan_out(runs):
        terminal.show(line)
    wrong = sum(not run.verified for run in runs)
    counted = format_count(len(runs), "run")
    terminal.show(f"\n{wrong} of {counted} went wrong" if wrong else f"\n{counted} right, checked against DuckDB")
    if options.json_file is not None:
        told: dict[str, Any] = {
            "ok": not wrong,
            "target_bytes": options.target_bytes,
            "runs": [run.to_json() for run in runs],
        }
        options.json_file.parent.mkdir(parents=True, exist_ok=True)
        options.json_file.write_text(json.dumps(told, indent=2) + "\n")


def wait_for_the_user(airflow: AirflowServices, terminal: Terminal) -> None:
    """Until Ctrl-C."""
    terminal.show(
        f"\nAirflow stays up at {airflow.url} (no login); its files are in {airflow.home}. Ctrl-C ends it all."
    )
    try:
        signal.pause()
    except KeyboardInterrupt:
        terminal.show("")


@contextmanager
def work_folder() -> Iterator[Path]:
    """A temporary folder for all that the demo makes."""
    folder = Path(tempfile.mkdtemp(prefix="airflow-abs-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
