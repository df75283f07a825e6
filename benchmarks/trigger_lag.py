"""What subtasks that wait for a slot cost the triggerer's event loop: its lag while 1,000 come, wait and are let in.

The triggers are the real ones, on a decision of a thousand subtasks in an exchange; only the Spark operation itself is
left out, and Airflow answers from here. Log lines go to /dev/null, no garbage of before is collected, and those who
wait say so every 4 to 8 seconds instead of every minute or two. Lag is how much later than asked a sleep of 10 ms ends
in the same loop.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from airflow.sdk.execution_time import task_runner
from airflow.triggers.base import TaskSuccessEvent

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.execution import slots
from airflow_abs.execution.subtask import AwaitedSubtask
from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_abs.triggers.start_subtask import StartSubtaskTrigger
from tests.execution.conftest import Supervisor
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun

SUBTASKS = 1000
SLOTS = 8
TICK = 0.01
WAITING_SECONDS = 10.0
REMIND_SECONDS = 4.0


class LagMeter:
    """The largest lag of the loop since the last look."""

    def __init__(self) -> None:
        self.worst = 0.0

    async def run(self) -> None:
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(TICK)
            self.worst = max(self.worst, time.perf_counter() - asked - TICK)

    def take(self) -> float:
        worst, self.worst = self.worst, 0.0
        return worst


def run() -> list[dict[str, int | float | str]]:
    """One row per phase: they come, they wait, they are let in one after another."""
    log = logging.getLogger(slots.__name__)
    log.propagate = False
    log.setLevel(logging.INFO)
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-") as name, Path(os.devnull).open("w") as sink:
        log.addHandler(logging.StreamHandler(sink))
        recorded = record(Path(name))
        supervisor = Supervisor()
        supervisor.states = {f"job.orders.run_{index}": "deferred" for index in range(SUBTASKS)}
        gc.collect()
        gc.freeze()  # what a collection of all that Airflow itself holds takes is not the subtasks'
        with (
            patch.object(slots, "_REMIND_SECONDS", REMIND_SECONDS),
            patch.object(slots, "_ServerSlots", FixedSlots),
            patch.object(task_runner, "SUPERVISOR_COMMS", supervisor, create=True),
        ):
            return asyncio.run(measure(recorded))


def record(root: Path) -> RecordedRun:
    options = replace(OPTIONS, max_parallelism=SUBTASKS)
    made = RecordedRun(
        JobFolder(root, "dag", "run", "job"), [MadeRegion("orders", [1000] * SUBTASKS)], lambda *_: 1, options
    )
    made.write_plan()
    made.decide("orders")
    return made


async def measure(recorded: RecordedRun) -> list[dict[str, int | float | str]]:
    let_in = asyncio.Event()
    began = 0

    async def end(self: AwaitedSubtask) -> TaskSuccessEvent:
        nonlocal began
        began += 1
        await let_in.wait()
        return TaskSuccessEvent()

    rows = []
    meter = LagMeter()
    ticking = asyncio.create_task(meter.run())
    with patch.object(AwaitedSubtask, "end", end):
        await asyncio.sleep(0.1)
        meter.take()
        started = Phase(meter)
        tasks = []
        for index in range(SUBTASKS):
            tasks.append(asyncio.create_task(drain(new_trigger(recorded, index))))
            await asyncio.sleep(0)  # as Airflow's triggerer does
        await until(lambda: began == SLOTS and waiting() == SUBTASKS - SLOTS)
        rows.append(started.row("come"))
        started = Phase(meter)
        await asyncio.sleep(WAITING_SECONDS)
        rows.append(started.row("wait"))
        started = Phase(meter)
        let_in.set()
        await asyncio.gather(*tasks)
        rows.append(started.row("let in and end"))
    ticking.cancel()
    return rows


class FixedSlots:
    """Instead of a Spark server: another process, which would not make this one late."""

    def __init__(self, conn_id: str, fixed: int | None) -> None:
        self._slots = slots.ClusterSlots(fixed or 0)

    async def read(self, demand: int) -> slots.ClusterSlots:
        return self._slots

    async def leave(self) -> None:
        pass


class Phase:
    """Wall, CPU and the largest lag from here to `row`."""

    def __init__(self, meter: LagMeter) -> None:
        self._meter = meter
        self._meter.take()
        self._started, self._cpu = time.perf_counter(), time.process_time()

    def row(self, phase: str) -> dict[str, int | float | str]:
        return {
            "subtasks": SUBTASKS,
            "phase": phase,
            "seconds": round(time.perf_counter() - self._started, 2),
            "cpu_seconds": round(time.process_time() - self._cpu, 2),
            "largest_lag_ms": round(1000 * self._meter.take(), 1),
        }


def new_trigger(recorded: RecordedRun, index: int) -> StartSubtaskTrigger:
    trigger = StartSubtaskTrigger(
        conn_id="spark",
        exchange=str(recorded.folder.root),
        job="job",
        region="orders",
        slots=SLOTS,
        resource_timeout=300.0,
        resource_stabilization=10.0,
        stall_after=600.0,
        execution_timeout=None,
    )
    instance: Any = SimpleNamespace(
        dag_id="dag", run_id="run", task_id="job.orders.run", map_index=index, try_number=1, task=None
    )
    trigger.task_instance = instance
    return trigger


async def drain(trigger: StartSubtaskTrigger) -> None:
    async for _ in trigger.run():
        pass


def waiting() -> int:
    return slots.open_slots(AdaptiveSparkHook("spark"), SLOTS).waiting


async def until(what: Callable[[], bool]) -> None:
    while not what():
        await asyncio.sleep(TICK)
