"""The compared peers: each runs a workload once and says how long it took."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow_abs.demo.airflow_api import AirflowApiError, SubtaskState
from airflow_abs.demo.services import SERVICES, AirflowServices
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.run_reading import read_decisions
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.operations import release_session
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.run.attempt import interrupt_attempt
from airflow_abs.spark.run.release import list_attempts
from airflow_abs.spark.server.embedded import embedded_status
from benchmarks.cpu_time import DRIVER, difference, read_processes, seconds_by_part
from benchmarks.slices import SLICES, slice_session
from benchmarks.submit_step import place, run_step
from benchmarks.whole import TASK, connected_session, run_whole
from benchmarks.workloads import Workload

OUR_PEERS = ("ours", "auto", "pooled", "worker", "triggerer", "fused_day")
WHOLE_PEERS = ("whole", "whole_connect")
AIRFLOW_PEERS = (*OUR_PEERS, *WHOLE_PEERS, "submit", "slices")
SPARK_PEERS = ("files", "fused")
RUN_SECONDS = 3600.0
WORKERS = "workers"


@dataclass(frozen=True, slots=True)
class Failure:
    """Kill the last step once, after `share` of the `seconds` that it takes undisturbed."""

    share: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run. `last_step` are the seconds of the last step (of the whole, for a job in one piece)."""

    wall: float
    cpu: dict[str, float]
    output: Path
    problem: str | None
    last_step: float
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Arena:
    """One Airflow and one warm Spark server that all peers share; `folder` holds exchange and outputs, `data` the
    tables of every scale."""

    airflow: AirflowServices
    endpoint: ConnectEndpoint
    folder: Path
    data: Path

    @property
    def exchange(self) -> Path:
        return self.folder / "exchange"

    def tables(self, workload: Workload, scale: float) -> Path:
        """The folder of a workload's tables."""
        return self.data / f"{scale:g}" / workload.name

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far: of each service, of the workers, of Spark, and of this process."""
        parts = {service: self.airflow._processes[service].pid for service in SERVICES}
        keeper = embedded_status(self.airflow.spark_folder).keeper_pid
        if keeper:
            parts["spark"] = keeper
        return seconds_by_part(read_processes(), os.getpid(), parts, {"scheduler": WORKERS})

    def run(self, peer: str, workload: Workload, scale: float, run_id: str, failure: Failure | None = None) -> Outcome:
        tables = str(self.tables(workload, scale))
        if peer in SPARK_PEERS:
            return self._run_on_spark(peer, workload, tables, run_id, failure)
        return self._run_in_airflow(peer, workload, tables, run_id, failure)

    def run_dag(self, dag_id: str, run_id: str) -> tuple[dict[str, float], list[SubtaskState]]:
        """CPU seconds by part of one run of any DAG that must succeed, and its task instances."""
        before = self.cpu()
        self.airflow.api.trigger_run(dag_id, datetime.now(UTC), run_id=run_id)
        state = self.wait(dag_id, run_id)
        if state != "success":
            raise AirflowApiError(f"run {run_id!r} of dag {dag_id!r} ended as {state}, expected success")
        return difference(self.cpu(), before), self.airflow.api.task_instances(dag_id, run_id)

    def clear(self, peer: str, workload: Workload) -> None:
        """Delete what a run left, so that the disk does not fill."""
        shutil.rmtree(self.folder / "out" / f"{workload.name}__{peer}", ignore_errors=True)
        for run in (self.exchange / f"{workload.name}__{peer}").glob("[!_]*"):  # what is known of earlier runs stays
            shutil.rmtree(run, ignore_errors=True)

    def _run_in_airflow(
        self, peer: str, workload: Workload, tables: str, run_id: str, failure: Failure | None
    ) -> Outcome:
        api, dag_id = self.airflow.api, f"{workload.name}__{peer}"
        last = _last_task(peer, workload)
        before, sent = self.cpu(), datetime.now(UTC)
        api.trigger_run(dag_id, sent, {"tables": tables}, run_id=run_id)
        problem = None
        if failure is not None and not _KillInAirflow(self, peer, workload, dag_id, run_id, last).after(failure):
            problem = f"{last} had ended before it was to be killed"
        state = self.wait(dag_id, run_id)
        run = api.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}")
        cpu = difference(self.cpu(), before)
        cpu.pop(DRIVER, None)  # this process only waits
        states = api.task_instances(dag_id, run_id)
        output = self.folder / "out" / dag_id / run_id
        return Outcome(
            wall=(datetime.fromisoformat(run["end_date"]) - sent).total_seconds(),
            cpu=cpu,
            output=output if peer in OUR_PEERS else Path(place(workload, workload.last.name, str(output))),
            problem=problem if state == "success" else f"run {run_id} of {dag_id} ended as {state}",
            last_step=span([each for each in states if each.task_id == last]),
            notes=self._notes(peer, workload, dag_id, run_id, states) | _published(sent, states),
        )

    def wait(self, dag_id: str, run_id: str) -> str:
        """Looks once a second: the CPU of the answers is counted."""
        deadline = time.monotonic() + RUN_SECONDS
        while (state := self.airflow.api.run_state(dag_id, run_id)) not in ("success", "failed"):
            if time.monotonic() > deadline:
                raise AirflowApiError(f"run {run_id!r} of dag {dag_id!r} is {state} after {RUN_SECONDS:g} s")
            time.sleep(1.0)
        return state

    def _notes(
        self, peer: str, workload: Workload, dag_id: str, run_id: str, states: list[SubtaskState]
    ) -> dict[str, Any]:
        tasks = {
            task: round(span([each for each in states if each.task_id == task]), 2)
            for task in dict.fromkeys(each.task_id for each in states)
        }
        if peer == "whole_connect":
            path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{TASK}/xcomEntries/return_value"
            return {"task_seconds": tasks, "spark_seconds": float(self.airflow.api.request("GET", path)["value"])}
        if peer not in OUR_PEERS:
            return {"task_seconds": tasks}
        view = read_decisions(JobFolder(self.exchange, dag_id, run_id, "job"))
        regions = {
            region.name: {
                "bytes": region.bytes_in or 0,
                "subtasks": region.decision.parallelism,
                "max_over_mean": round(region.decision.max_over_mean, 3),
            }
            for region in view.regions
            if region.decision is not None
        }
        return {"task_seconds": tasks, "hops": hops(workload, states), "regions": regions}

    def _run_on_spark(self, peer: str, workload: Workload, data: str, run_id: str, failure: Failure | None) -> Outcome:
        """In this process, whose CPU counts; Airflow idles and does not count."""
        out = self.folder / "out" / f"{workload.name}__{peer}" / run_id
        run = run_whole if peer == "fused" else _with_files
        before, started = self.cpu(), time.monotonic()
        if failure is not None:
            share = failure.share * failure.seconds
            with open_session(self.endpoint) as session:
                timer = threading.Timer(share, session.interruptAll)
                timer.start()
                try:
                    run(session, workload, data, str(out))
                except Exception as error:  # pyspark's own; a job that is killed starts again
                    print(f"    {peer} was killed: {str(error)[:60]!r}", flush=True)
                timer.cancel()
        last_step = self._run_whole(run, workload, data, str(out))
        wall = time.monotonic() - started
        cpu = {part: each for part, each in difference(self.cpu(), before).items() if part in ("spark", DRIVER)}
        return Outcome(wall, cpu, out / "result", None, last_step)

    def _run_whole(self, run: Callable[..., float], workload: Workload, data: str, out: str) -> float:
        with open_session(self.endpoint) as session:
            return run(session, workload, data, out)


def _last_task(peer: str, workload: Workload) -> str:
    if peer in OUR_PEERS:
        return f"job.{workload.last.name}.run"
    return TASK if peer in WHOLE_PEERS else workload.last.name


def _published(sent: datetime, states: list[SubtaskState]) -> dict[str, float]:
    """Seconds from the request until the output was there: without what only cleans up."""
    ends = [each.end for each in states if each.end and each.task_id != "job.release"]
    return {"published": round((max(ends) - sent).total_seconds(), 2)} if ends else {}


def _with_files(session: Any, workload: Workload, data: str, out: str) -> float:
    """One session, every step written and read again. A job has no memory: killed, it starts from its first step."""
    started = time.monotonic()
    for step in workload.steps:
        run_step(session, workload, step.name, data, out)
    return time.monotonic() - started


@dataclass(frozen=True, slots=True)
class _KillInAirflow:
    """Kills every process that runs the last step, and what they had started in Spark."""

    arena: Arena
    peer: str
    workload: Workload
    dag_id: str
    run_id: str
    task_id: str

    def after(self, failure: Failure) -> int:
        """How many processes it killed."""
        started = self._await_start()
        time.sleep(max(0.0, started + failure.share * failure.seconds - time.time()))
        killed = self._kill_processes()
        asyncio.run(self._end_in_spark())
        print(f"    {self.peer}: killed {killed} processes after {time.time() - started:.1f} s", flush=True)
        return killed

    def _await_start(self) -> float:
        deadline = time.monotonic() + RUN_SECONDS
        while time.monotonic() < deadline:
            states = self.arena.airflow.api.task_instances(self.dag_id, self.run_id)
            starts = [each.start for each in states if each.task_id == self.task_id and each.start]
            if starts:
                return min(starts).timestamp()
            time.sleep(0.2)
        raise AirflowApiError(f"{self.task_id} of {self.dag_id} did not start in {RUN_SECONDS:g} s")

    def _kill_processes(self) -> int:
        """The children of the executor's workers, and all below them."""
        children: dict[int, list[int]] = {}
        for each in read_processes():
            children.setdefault(each.parent, []).append(each.pid)
        workers = children.get(self.arena.airflow._processes["scheduler"].pid, [])
        doomed = [task for worker in workers for task in children.get(worker, [])]
        for pid in doomed:
            doomed.extend(children.get(pid, []))
        for pid in doomed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return len(doomed)

    async def _end_in_spark(self) -> None:
        async with open_connection(self.arena.endpoint) as connection:
            if self.peer == "slices":
                for index in range(SLICES):
                    name = self.workload.last.name
                    await release_session(connection, slice_session(self.dag_id, self.run_id, name, index, 1))
            elif self.peer == "whole_connect":
                await release_session(connection, connected_session(self.dag_id, self.run_id, 1))
            elif self.peer in OUR_PEERS:
                folder = JobFolder(self.arena.exchange, self.dag_id, self.run_id, "job")
                for attempt in list_attempts(folder):
                    if attempt.region == self.workload.last.name:
                        await interrupt_attempt(connection, folder, attempt)


def span(states: list[SubtaskState]) -> float:
    """Seconds from the first start to the last end."""
    starts = [each.start for each in states if each.start]
    ends = [each.end for each in states if each.end]
    return (max(ends) - min(starts)).total_seconds() if starts and ends else 0.0


def hops(workload: Workload, states: list[SubtaskState]) -> dict[str, dict[str, float]]:
    """Seconds by step with inputs: from the last producer to `decide`, of `decide`, to the first subtask, of all."""
    found = {}
    for step in workload.steps:
        before = [f"job.{edge.step}.run" for edge in step.inputs.values()]
        ends = [each.end for each in states if each.task_id in before and each.end]
        decide = [each for each in states if each.task_id == f"job.{step.name}.decide"]
        starts = [each.start for each in states if each.task_id == f"job.{step.name}.run" and each.start]
        if ends and decide and decide[0].start and decide[0].end and starts:
            first, last = decide[0].start, decide[0].end
            parts = {
                "to_decide": (first - max(ends)).total_seconds(),
                "decide": (last - first).total_seconds(),
                "to_run": (min(starts) - last).total_seconds(),
            }
            found[step.name] = {name: round(value, 2) for name, value in {**parts, "all": sum(parts.values())}.items()}
    return found
