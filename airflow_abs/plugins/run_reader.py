"""A run for the page: the exchange's view of each job, with the states of Airflow's task instances."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from airflow_abs.exchange.errors import ExchangeError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.job_history import read_history
from airflow_abs.exchange.records.manifest import Manifest
from airflow_abs.exchange.runs.run_json import run_to_json
from airflow_abs.exchange.runs.run_reading import read_committed, read_decisions, read_run
from airflow_abs.exchange.runs.run_view import RunView
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.plugins.airflow_runs import RunFacts, TaskFacts
from airflow_abs.plugins.run_timeline import JobTimes, read_timeline

Tasks = Mapping[str, Sequence[TaskFacts]]

_FRESH_SECONDS = 20.0
_KEPT = 20_000
# An exchange may also have no driver here, or a name that no driver takes.
_UNREADABLE = (ExchangeError, OSError, ImportError, ValueError)


@dataclass(slots=True)
class RunReader:
    """Reads runs and remembers what cannot change any more, so that a refresh costs a few small files.

    A manifest is read when Airflow says that its subtask succeeded, and again only after another try of it, or, while
    the run lives, after some seconds (what was lost is recomputed without Airflow's knowing).
    """

    open_path: Callable[[str], ExchangePath]
    clock: Callable[[], float] = time.monotonic
    _memory: OrderedDict[tuple[Any, ...], tuple[float, Any]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def read_run(
        self, run: RunFacts, jobs: Mapping[str, str | None], tasks: Tasks, upstream: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """All that the page shows of a run. A job that cannot be read says why under `problem`.

        Args:
            run: the DAG run.
            jobs: its jobs, and the exchange of each.
            tasks: its task instances by task.
            upstream: by task those that come directly before it.
        """
        views: dict[str, RunView] = {}
        told = [self._read_job(run, job, exchange, tasks, views) for job, exchange in jobs.items()]
        times = {job: _times_of(views[job]) if job in views else JobTimes() for job in jobs}
        timeline = read_timeline(run, tasks, upstream, times)
        return {"dag_id": run.dag_id, **run.to_json(), "jobs": told, "timeline": timeline}

    def read_history(self, runs: Sequence[RunFacts], jobs: Mapping[str, Mapping[str, str | None]]) -> list[Any]:
        """Fan-out and bytes of every region in each of the runs, as far as they were decided, and seconds and what was
        predicted, of those that the job's history has."""
        known: dict[tuple[str, str], Mapping[str, Any]] = {}
        told = []
        for run in runs:
            past = self._read_past(run, jobs.get(run.run_id, {}))
            for job, exchange in jobs.get(run.run_id, {}).items():
                if exchange is None:
                    continue
                if (exchange, job) not in known:
                    known[exchange, job] = self._read_seconds(exchange, run.dag_id, job)
                seconds = known[exchange, job].get(run.run_id, {})
                past[job] = {name: {**facts, **seconds.get(name, {})} for name, facts in past.get(job, {}).items()}
            told.append({**run.to_json(), "jobs": past})
        return told

    def _read_seconds(self, exchange: str, dag_id: str, job: str) -> dict[str, dict[str, dict[str, Any]]]:
        """By run and region; {} if the job has no history that can be read."""
        try:
            history = read_history(JobFolder(self.open_path(exchange), dag_id, "", job))
        except _UNREADABLE:
            return {}
        return {
            run.run_id: {
                region.name: {"seconds": region.seconds, "predicted_seconds": region.predicted_seconds}
                for region in run.regions
                if region.is_whole
            }
            for run in history.runs
        }

    def _read_job(
        self, run: RunFacts, job: str, exchange: str | None, tasks: Tasks, views: dict[str, RunView]
    ) -> dict[str, Any]:
        """What is told of it; what was read goes into `views`."""
        known = {"job": job, "exchange": exchange, "tasks": _own_tasks(job, tasks)}
        if exchange is None:
            return {
                **known,
                "problem": "not planned yet: its plan task has not started, or Airflow no longer knows where",
            }
        try:
            folder = JobFolder(self.open_path(exchange), run.dag_id, run.run_id, job)
            view = views[job] = read_run(folder, reader=self._reader(run, tasks))
        except MissingFileError as error:
            return {**known, **_describe_missing(job, tasks, error)}
        except _UNREADABLE as error:
            return {**known, "problem": f"{type(error).__name__}: {error}"}
        told = run_to_json(view)
        for region in told["regions"]:
            region["tasks"] = [each.to_json() for each in tasks.get(f"{job}.{region['name']}.run", ())]
        return {**told, **known, "problem": None}

    def _reader(self, run: RunFacts, tasks: Tasks) -> Callable[[JobFolder, str, int], Manifest | None]:
        ended = {
            (task_id, each.map_index): (each.try_number, each.end)
            for task_id, listed in tasks.items()
            for each in listed
            if each.state == "success"
        }

        def read(folder: JobFolder, region: str, index: int) -> Manifest | None:
            found = ended.get((f"{folder.job}.{region}.run", index))
            if found is None:
                return None
            key = ("manifest", str(folder.path), region, index, *found)
            manifest: Manifest | None = self._remember(
                key, lambda: read_committed(folder, region, index), keep=run.is_over
            )
            return manifest

        return read

    def _read_past(self, run: RunFacts, jobs: Mapping[str, str | None]) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for job, exchange in jobs.items():
            if exchange is not None:
                key = ("past", exchange, run.dag_id, run.run_id, job, run.end)
                read = partial(self._decided, exchange, run, job)
                told[job] = self._remember(key, read, keep=run.is_over)
        return told

    def _decided(self, exchange: str, run: RunFacts, job: str) -> dict[str, Any]:
        """{} for what cannot be read: it is not what the page is about."""
        try:
            view = read_decisions(JobFolder(self.open_path(exchange), run.dag_id, run.run_id, job))
        except _UNREADABLE:
            return {}
        return {
            region.name: {
                "parallelism": region.decision.parallelism,
                "bytes_in": region.bytes_in,
                "divided_bytes": region.divided_bytes,
            }
            for region in view.regions
            if region.decision is not None
        }

    def _remember(self, key: tuple[Any, ...], read: Callable[[], Any], *, keep: bool) -> Any:
        now = self.clock()
        with self._lock:
            since, value = self._memory.get(key, (now, None))
            if value is not None and (keep or now - since < _FRESH_SECONDS):
                self._memory.move_to_end(key)
                return value
        value = read()
        with self._lock:
            self._memory[key] = (now, value)
            while len(self._memory) > _KEPT:
                self._memory.popitem(last=False)
        return value


def _times_of(view: RunView) -> JobTimes:
    operations = {
        region.name: {
            each.index: (each.began, each.began + each.seconds)
            for each in region.subtasks
            if each.began is not None and each.seconds is not None and not each.is_stale
        }
        for region in view.regions
    }
    return JobTimes(view.plan.slots, operations)


def _describe_missing(job: str, tasks: Tasks, error: MissingFileError) -> dict[str, Any]:
    """A plan that was stored is `missing`; one that failed never was."""
    plan = next(iter(tasks.get(f"{job}.plan", ())), None)
    if plan is None or plan.state in ("success", "skipped"):
        return {"problem": f"there is no plan at {error.path}", "missing": True}
    return {"problem": f"its plan task has not stored a plan (state: {plan.state or 'none'})"}


def _own_tasks(job: str, tasks: Tasks) -> dict[str, Any]:
    """The unmapped tasks of a job by their name in it: plan, orders.decide, by_region.commit, release."""
    return {
        task_id.removeprefix(f"{job}."): listed[0].to_json()
        for task_id, listed in tasks.items()
        if task_id.startswith(f"{job}.") and not task_id.endswith(".run")
    }
