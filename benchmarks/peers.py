"""The compared peers: each runs a workload once and says how long it took."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow_abs.demo.airflow_api import AirflowApiError, SubtaskState
from airflow_abs.demo.services import SERVICES, AirflowServices
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.plan import read_plan
from airflow_abs.exchange.runs.run_reading import read_decisions
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.server.embedded import embedded_status
from benchmarks.cpu_time import DRIVER, difference, read_processes, seconds_by_part
from benchmarks.failures import Failure, RunningDag, describe_missed, run_failing
from benchmarks.submit_step import place, run_step
from benchmarks.whole import TASK, run_whole
from benchmarks.workloads import Workload

OUR_PEERS = ("ours", "auto", "auto_on_workers", "pooled", "worker", "triggerer", "fused_day", "separate")
WHOLE_PEERS = ("whole", "whole_connect")
AIRFLOW_PEERS = (*OUR_PEERS, *WHOLE_PEERS, "submit", "slices")
SPARK_PEERS = ("files", "fused")
RUN_SECONDS = 3600.0
WORKERS = "workers"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run. `last_step` are the seconds of the last step (of the whole, for a job in one piece), `missed` says which
    failure did not meet it."""

    wall: float
    cpu: dict[str, float]
    output: Path
    problem: str | None
    last_step: float
    missed: str | None = None
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
        killed: list[int] = []
        if failure is not None:
            dag = RunningDag(self.airflow, self.endpoint, self.exchange, peer, workload, dag_id, run_id, last)
            killed = dag.fail(failure, sent.timestamp())
        state = self.wait(dag_id, run_id)
        run = api.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}")
        cpu = difference(self.cpu(), before)
        cpu.pop(DRIVER, None)  # this process only waits
        states = api.task_instances(dag_id, run_id)
        tries = max(each.try_number for each in states)
        output = self.folder / "out" / dag_id / run_id
        return Outcome(
            wall=(datetime.fromisoformat(run["end_date"]) - sent).total_seconds(),
            cpu=cpu,
            output=output if peer in OUR_PEERS else Path(place(workload, workload.last.name, str(output))),
            problem=None if state == "success" else f"run {run_id} of {dag_id} ended as {state}",
            last_step=span([each for each in states if each.task_id == last]),
            missed=describe_missed(failure, len(killed), tries) if failure is not None else None,
            notes=self._notes(peer, workload, dag_id, run_id, states)
            | _published(sent, states)
            | {"killed": killed, "tries": tries},
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
        folder = JobFolder(self.exchange, dag_id, run_id, "job")
        view = read_decisions(folder)
        regions = {
            region.name: {
                "bytes": region.bytes_in or 0,
                "subtasks": region.decision.parallelism,
                "max_over_mean": round(region.decision.max_over_mean, 3),
            }
            for region in view.regions
            if region.decision is not None
        }
        edges = read_plan(folder).edges
        durable = sum(each.durable for each in edges)
        return {
            "task_seconds": tasks,
            "hops": hops(workload, states),
            "regions": regions,
            "durable_edges": f"{durable} of {len(edges)}" if edges else "all",
        }

    def _run_on_spark(self, peer: str, workload: Workload, data: str, run_id: str, failure: Failure | None) -> Outcome:
        """In this process, whose CPU counts; Airflow idles and does not count."""
        out = self.folder / "out" / f"{workload.name}__{peer}" / run_id
        run = run_whole if peer == "fused" else _with_files
        before, started = self.cpu(), time.monotonic()
        met = 0
        if failure is not None:
            met = run_failing(self.endpoint, lambda session: run(session, workload, data, str(out)), failure)
        last_step = self._run_whole(run, workload, data, str(out))
        wall = time.monotonic() - started
        cpu = {part: each for part, each in difference(self.cpu(), before).items() if part in ("spark", DRIVER)}
        missed = describe_missed(failure, met, met + 1) if failure is not None else None
        return Outcome(wall, cpu, out / "result", None, last_step, missed, {"killed": [1] * met})

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
