"""Failures that are caused: as if the machine that runs a run's tasks died, all that it ran is gone, in Spark, too.

Every process of a task is killed and every Spark operation of the run is ended, at the same seconds whoever it is. What
has no process on a worker (an operation that the triggerer awaits) could not be killed so: see `KILLABLE`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_abs.demo.services import AirflowServices
from airflow_abs.exchange.errors import MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.operations import release_session
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.run.attempt import interrupt_attempt, list_attempts
from benchmarks.cpu_time import read_processes
from benchmarks.slices import SLICES, slice_session
from benchmarks.whole import connected_session
from benchmarks.workloads import Workload

SHARES = {"start": 0.1, "middle": 0.5, "end": 0.9}
"""Of the last step's undisturbed seconds."""
THREE = (0.3, 0.6, 0.9)
"""Of the undisturbed run of the fastest peer, so that every peer fails at the same seconds."""
KINDS = (*SHARES, "three")
KILLABLE = {"auto": "auto_on_workers", "ours": "worker", "pooled": "worker", "triggerer": "worker"}
"""What runs in the place of a peer, in all rounds, if some of them fail: the same without the triggerer."""
_LOOK_SECONDS = 0.2
_MOST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Fail once at each of `seconds`, from the start of the last step or (`of_run`) from the request for the run."""

    seconds: tuple[float, ...]
    of_run: bool = False


def plan_failure(kind: str, last_steps: Sequence[float], fastest_run: float) -> Failure:
    """A failure of one of `KINDS`; the shortest last step counts: what is killed after its end is not killed."""
    if kind == "three":
        return Failure(tuple(share * fastest_run for share in THREE), of_run=True)
    return Failure((SHARES[kind] * min(last_steps),))


@dataclass(frozen=True, slots=True)
class RunningDag:
    """One run of a peer's DAG, as far as it can be made to fail. `last` is the task of its last step."""

    airflow: AirflowServices
    endpoint: ConnectEndpoint
    exchange: Path
    peer: str
    workload: Workload
    dag_id: str
    run_id: str
    last: str

    def fail(self, failure: Failure, sent: float) -> list[int]:
        """Cause it; `sent` is when the run was asked for (epoch seconds).

        Returns:
            How many processes were killed at each point; fewer points if the run had ended before the next one.
        """
        killed: list[int] = []
        started = sent if failure.of_run else self._await_start()
        for number, seconds in enumerate(failure.seconds, 1):
            time.sleep(max(0.0, started + seconds - time.time()))
            if not (doomed := self._await_processes(failure.of_run)):
                break
            _kill(doomed)
            asyncio.run(self._end_in_spark(number))
            killed.append(len(doomed))
            print(f"    {self.peer}: killed {len(doomed)} processes after {time.time() - started:.1f} s", flush=True)
        return killed

    def _await_start(self) -> float:
        deadline = time.monotonic() + _MOST_SECONDS
        while time.monotonic() < deadline:
            states = self.airflow.api.task_instances(self.dag_id, self.run_id)
            if starts := [each.start for each in states if each.task_id == self.last and each.start]:
                return min(starts).timestamp()
            time.sleep(_LOOK_SECONDS)
        raise TimeoutError(f"{self.last} of {self.dag_id} did not start in {_MOST_SECONDS:g} s")

    def _await_processes(self, of_run: bool) -> list[int]:
        """Between two tasks a machine that dies takes nothing with it: wait for the next one. None after the end of
        the run, or of its last step if that is what is to fail."""
        deadline = time.monotonic() + _MOST_SECONDS
        while not self._has_ended(of_run):
            if found := self._task_processes():
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"no task of {self.dag_id} ran in {_MOST_SECONDS:g} s")
            time.sleep(_LOOK_SECONDS)
        return []

    def _has_ended(self, of_run: bool) -> bool:
        api, ended = self.airflow.api, ("success", "failed")
        if api.run_state(self.dag_id, self.run_id) in ended:
            return True
        states = [each.state for each in api.task_instances(self.dag_id, self.run_id) if each.task_id == self.last]
        return not of_run and bool(states) and all(state in ended for state in states)

    def _task_processes(self) -> list[int]:
        """The children of the executor's workers, and all below them."""
        children: dict[int, list[int]] = {}
        for each in read_processes():
            children.setdefault(each.parent, []).append(each.pid)
        workers = children.get(self.airflow._processes["scheduler"].pid, [])
        found = [task for worker in workers for task in children.get(worker, [])]
        for pid in found:
            found.extend(children.get(pid, []))
        return found

    async def _end_in_spark(self, tries: int) -> None:
        """What up to `tries` tries of each task had started there."""
        async with open_connection(self.endpoint) as connection:
            for session in self._sessions(range(1, tries + 1)):
                await release_session(connection, session)
            await self._interrupt_attempts(connection)

    def _sessions(self, tries: Sequence[int]) -> list[str]:
        if self.peer == "whole_connect":
            return [connected_session(self.dag_id, self.run_id, number) for number in tries]
        if self.peer == "slices":
            steps = [(step.name, index) for step in self.workload.steps for index in range(SLICES)]
            return [slice_session(self.dag_id, self.run_id, *step, number) for step in steps for number in tries]
        return []

    async def _interrupt_attempts(self, connection: Connection) -> None:
        """Of ours; nobody else left a plan in the exchange."""
        folder = JobFolder(self.exchange, self.dag_id, self.run_id, "job")
        try:
            attempts = list(list_attempts(folder))
        except MissingFileError:  # it did not come so far, or is nobody of ours
            return
        for attempt in attempts:
            await interrupt_attempt(connection, folder, attempt)


def run_failing(endpoint: ConnectEndpoint, run: Callable[[Any], float], failure: Failure) -> int:
    """Run a job of one piece on the Connect server up to each failure; it starts again every time, and the last start
    is the caller's. How many failures met it."""
    started = time.monotonic()
    for met, seconds in enumerate(failure.seconds):
        with open_session(endpoint) as session:
            timer = threading.Timer(max(0.0, started + seconds - time.monotonic()), session.interruptAll)
            timer.start()
            try:
                run(session)
            except Exception as error:  # pyspark's own
                print(f"    killed: {str(error)[:60]!r}", flush=True)
            else:
                return met
            finally:
                timer.cancel()
    return len(failure.seconds)


def describe_missed(failure: Failure, met: int, tries: int) -> str | None:
    """Why a failure does not count, or None; `tries` is the largest number of a try that was seen."""
    if met < len(failure.seconds):
        return f"{met} of {len(failure.seconds)} failures met it: it had ended before"
    return None if tries > 1 else f"no task was tried again after {met} failures"


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
