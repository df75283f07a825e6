"""`airflow-abs demo`: one job on a small day and on a big one, with a hot key and a killed subtask, and a mistake."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.demo.killing import SubtaskKiller
from airflow_abs.demo.run import (
    DAG_SECONDS,
    RUN_SECONDS,
    TARGET_BYTES_PER_SCALE,
    describe_progress,
    embedded_services,
    run_day,
    wait_for_the_user,
    work_folder,
)
from airflow_abs.demo.run_report import RunReport, lines_of_run
from airflow_abs.demo.services import AirflowServices, example_environment
from airflow_abs.demo.signals import ended_by_signals
from airflow_abs.exchange.runs.run_list import list_runs
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.runs.run_view import RegionView, RunView

if TYPE_CHECKING:
    from airflow_abs.cli.output.terminal import Terminal

SMALL_DAY, BIG_DAY = date(2026, 1, 1), date(2026, 1, 3)
DAG_ID, SMALL_LIMITS, MISTAKEN = "daily_revenue", "small_limits_revenue", "mistaken_revenue"
RIGHT_WORDS, WRONG_WORDS = 'groupBy("region")', 'groupBy("segment")'
JOB_WORDS = 'conn_id="spark_connect_default"'
# One of the subtasks of the first is killed; of the second, should all of the first be done before.
KILLED_TASKS = ("revenue.enriched.run", "revenue.by_region.run")
# One operation could not hold the big day: the cluster is as small as its data.
LOCAL_BYTES_PER_SCALE = 20_000_000
FIRST_EDGE = "on two cores, the second of two days of 600 MB is the first on which the rule writes an edge"
"""See tests/demo/test_default_sizes.py."""
NEXT = (
    "Where to look next",
    "  see it     airflow-abs demo --keep leaves Airflow up: open a run and its tab Adaptive plan",
    "  try it     docs/start/quickstart.md: a job of your own, in an Airflow of your own",
    "  move to it docs/migrating.md: from a PySpark script to a job, and back",
    "  trust it   docs/how-it-decides.md and docs/faults.md: what is decided from what, and what happens when it fails",
)


@dataclass(frozen=True, slots=True)
class StoryOptions:
    """`scale` is of the data, `dags_folder` has the file of the DAG."""

    scale: float
    dags_folder: Path
    keep: bool = False
    json_file: Path | None = None

    @property
    def target_bytes(self) -> int:
        """Of the day with small limits, for each subtask."""
        return max(1, int(self.scale * TARGET_BYTES_PER_SCALE))

    @property
    def local_bytes(self) -> int:
        """Of that day, for each operation."""
        return max(1, int(self.scale * LOCAL_BYTES_PER_SCALE))


def tell_story(options: StoryOptions, terminal: Terminal) -> bool:
    """True if all of it came as it should. Nothing that it started is left, ever."""
    with ended_by_signals(), work_folder() as folder:
        terminal.doing("making two days of data")
        generate(DataSpec(folder / "data", (SMALL_DAY, BIG_DAY), options.scale, BIG_DAY), terminal.step)
        dags_folder = write_dags(options.dags_folder, folder / "dags", options)
        with embedded_services(dags_folder, folder, example_environment(folder, None), terminal) as airflow:
            story = _Story(folder, airflow, terminal, options)
            story.run_small_day()
            story.run_big_day()
            story.make_mistake()
            terminal.show("")
            for line in NEXT:
                terminal.show(line)
            if options.keep:
                wait_for_the_user(airflow, terminal)
            terminal.step("ending Airflow and Spark")
        story.write_json(options.json_file)
    return not story.problems


def write_dags(source: Path, folder: Path, options: StoryOptions) -> Path:
    """The example DAG, a copy of it with limits as small as its data, and one with a mistake.

    Raises:
        ValueError: the file of the DAG is not there, or has not the words.
    """
    file = source / f"{DAG_ID}.py"
    text = file.read_text("utf-8") if file.is_file() else ""
    if RIGHT_WORDS not in text or JOB_WORDS not in text:
        raise ValueError(
            f"demo: {file} is not the example DAG, which has {RIGHT_WORDS} and {JOB_WORDS}; name the folder of the "
            "example DAGs with --dags-folder"
        )
    folder.mkdir()
    (folder / f"{DAG_ID}.py").write_text(text, "utf-8")
    small = f"target_bytes={options.target_bytes}, options=JobOptions(local_bytes={options.local_bytes})"
    refused = 'options=JobOptions(unsplittable="refuse")'  # the mistake is to be seen at once
    for dag_id, settings, words in ((SMALL_LIMITS, small, RIGHT_WORDS), (MISTAKEN, refused, WRONG_WORDS)):
        copy = text.replace(JOB_WORDS, f"{JOB_WORDS}, {settings}").replace(RIGHT_WORDS, words)
        copy = copy.replace(f'"{DAG_ID}"', f'"{dag_id}"').replace(f"/{DAG_ID}/", f"/{dag_id}/")
        copy = copy.replace("import AdaptiveSparkJob,", "import AdaptiveSparkJob, JobOptions,")
        (folder / f"{dag_id}.py").write_text(copy, "utf-8")
    return folder


def _lines_of_hot_key(region: RegionView) -> list[str]:
    """Which key, and what to do; where it is, if it could not be found."""
    if region.hot_key is not None:
        return [f"  hot key: {region.hot_key.describe()}", f"    {region.hot_key_advice}"]
    if region.stored is None or (hot := region.stored.hottest) is None:
        return []
    times = f"{hot.bytes / hot.median:,.0f} times the median"
    where = f"subpartition {hot.subpartition} of {hot.input.rpartition('.')[2]}"
    told = f"{where} holds {format_bytes(hot.bytes)}, {times}"
    return [f"  hot: {told}; its key was not found, for the reason in the log of release"]


@dataclass(slots=True)
class _Story:
    """What was done so far; `problems` are what did not come as it should."""

    folder: Path
    airflow: AirflowServices
    terminal: Terminal
    options: StoryOptions
    problems: list[str] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)

    def run_small_day(self) -> None:
        self._chapter(
            "1. A small day, by default: steps stay inside Spark, because losing them would cost less than writing them"
        )
        report, view = self._run(DAG_ID, SMALL_DAY)
        self._show_run(report)
        inside = list(view.plan.fused)
        if inside:
            self.terminal.show(f"  {', '.join(inside)} ran inside {view.regions[-1].name}: one Spark operation")
            for edge in view.regions[-1].inside:
                self.terminal.show(f"    {edge}")
            self.terminal.show(f"  {FIRST_EDGE}")
        else:
            self._problem("no step was kept inside Spark")
        self.told["small_day"] = report.to_json() | {"inside": inside}

    def run_big_day(self) -> None:
        self._chapter(
            "2. A big day: thirty times the orders, two in five of them one customer's; and a worker is killed"
        )
        self.terminal.show(
            f"  limits as small as its data: a task reads {format_bytes(self.options.target_bytes)} (by default 128 MB "
            f"to 1 GB), an operation holds {format_bytes(self.options.local_bytes)} (by default 16 GiB for each slot)"
        )
        killer = SubtaskKiller(KILLED_TASKS)
        report, view = self._run(SMALL_LIMITS, BIG_DAY, killer)
        self._show_run(report)
        spread = view.region("enriched")
        if spread.decision is None or spread.decision.parallelism < 2:
            self._problem("the big day was not distributed")
        for line in _lines_of_hot_key(spread):
            self.terminal.show(line)
        self._tell_killed(killer, report.run_id)
        key = None if spread.hot_key is None else spread.hot_key.key
        self.told["big_day"] = report.to_json() | {"hot_key": key}

    def _tell_killed(self, killer: SubtaskKiller, run_id: str) -> None:
        """Which subtasks took more than one try: only the one that was killed."""
        states = self.airflow.api.task_instances(SMALL_LIMITS, run_id)
        if killer.killed is None:  # no fault of the run
            self.terminal.show("  every subtask was done before its worker could be killed; another run may show that")
            return
        task_id, index = killer.killed.task_id, killer.killed.map_index
        name = f"{task_id.split('.')[1]}[{index}]"
        mapped = [each for each in states if each.map_index >= 0]
        again = {(each.task_id, each.map_index): each.try_number for each in mapped if each.try_number > 1}
        others = format_count(len(mapped) - len(again), "other subtask")
        self.told["killed"] = {"subtask": name, "tries": {f"{task}[{k}]": n for (task, k), n in again.items()}}
        if again.keys() == {(task_id, index)}:
            self.terminal.show(f"  {name} was killed and reran as try 2; the {others} ran once")
        else:
            told = ", ".join(f"{task}[{number}]" for task, number in again)
            self._problem(f"{name} was killed; tried again were {told or 'none'}")

    def make_mistake(self) -> None:
        self._chapter(f"3. A mistake: {RIGHT_WORDS} becomes {WRONG_WORDS}, on rows that are hashed by region")
        api = self.airflow.api
        self.terminal.doing(f"waiting for Airflow to read {MISTAKEN}")
        api.wait_for_dag(MISTAKEN, DAG_SECONDS)
        run_id = api.trigger_run(MISTAKEN, datetime(2026, 1, 2, tzinfo=UTC), run_id=f"demo__{SMALL_DAY}")
        state = api.wait_for_run(
            MISTAKEN,
            run_id,
            RUN_SECONDS,
            lambda states: self.terminal.doing(f"{MISTAKEN}: {describe_progress(states)}"),
        )
        message = api.task_error(MISTAKEN, run_id, "revenue.plan")
        self.told["mistake"] = {"state": state, "message": message}
        if state == "failed" and "cannot run in parts" in message:
            self.terminal.step("refused by the task plan, before any data moved:")
            self.terminal.show(f"  {message}")
        else:
            self._problem(f"the mistake was not refused: the run is {state}; {message}")

    def write_json(self, file: Path | None) -> None:
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            told: Mapping[str, Any] = {"ok": not self.problems, "problems": self.problems, **self.told}
            file.write_text(json.dumps(told, indent=2) + "\n")

    def _run(self, dag_id: str, day: date, killer: SubtaskKiller | None = None) -> tuple[RunReport, RunView]:
        api = self.airflow.api
        self.terminal.doing(f"waiting for Airflow to read {dag_id}")
        api.wait_for_dag(dag_id, DAG_SECONDS)
        size = sum(file.stat().st_size for file in (self.folder / f"data/orders/ds={day}").iterdir())
        self.terminal.step(f"{dag_id} for {day}: {format_bytes(size)} of orders")
        look = {} if killer is None else {"look": killer.look}
        report = run_day(dag_id, day, self.folder, api, self.terminal, copy_of=DAG_ID, **look)
        (held,) = list_runs(self.folder / "exchange", dag_id, report.run_id)
        return report, read_run(held.folder)

    def _show_run(self, report: RunReport) -> None:
        first, *rest = lines_of_run(report)
        self.terminal.step(first)
        for line in rest:
            self.terminal.show(line)
        if report.problem is not None:
            self.problems.append(report.problem)

    def _chapter(self, title: str) -> None:
        self.terminal.show("")
        self.terminal.show(title)

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        self.terminal.show(f"  NOT AS IT SHOULD BE: {text}")
