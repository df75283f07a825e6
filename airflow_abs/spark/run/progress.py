"""Progress of a subtask as log lines: one when something changed, never more than one in a few seconds, and a warning
when nothing has changed for long: a subtask never hangs without telling anyone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.exchange.records.manifest import Manifest
from airflow_abs.exchange.records.plan import PlannedStep
from airflow_abs.spark.connect.execute import Progress

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ProgressLog:
    """A progress listener that writes to the task's log, at most every `seconds`; the first line comes at once.

    The page in Airflow reads how far a running subtask is from these lines. What is recomputed for the subtask speaks
    here too. While `watched`, every `stall_after` seconds without any progress give a warning.
    """

    seconds: float
    stall_after: float
    _started: float = field(default_factory=time.monotonic)
    _last: tuple[float | None, str] = (None, "")
    _moved: float = field(default_factory=time.monotonic)
    _seen: dict[str, Progress] = field(default_factory=dict)

    def __call__(self, step: PlannedStep, progress: Progress) -> None:
        now = time.monotonic()
        if self._seen.get(step.result) != progress:
            self._seen[step.result], self._moved = progress, now
        text, by_vertex = describe_progress(step.result, progress), describe_vertices(progress)
        last_time, last_text = self._last
        if text + by_vertex != last_text and (last_time is None or now - last_time >= self.seconds):
            self._last = (now, text + by_vertex)
            log.info("%s, %.0f s%s", text, now - self._started, by_vertex)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Warn of stalls for as long as the block runs."""
        watching = asyncio.create_task(self._warn_of_stalls())
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    @property
    def stalls_at(self) -> float:
        """When the present quiet becomes a stall, on the monotonic clock."""
        return self._moved + self.stall_after

    async def _warn_of_stalls(self) -> None:
        due = self.stalls_at
        while True:
            await asyncio.sleep(due - time.monotonic())
            now = time.monotonic()
            due = self.stalls_at
            if now >= due:
                log.warning("no progress for %.0f s: %s", now - self._moved, self._describe_stall())
                due = now + self.stall_after

    def _describe_stall(self) -> str:
        if not self._seen:
            return (
                "no answer from Spark yet; it waits for the Spark server, for the exchange's storage, or for lost "
                "input that another subtask recomputes (then a line above says so)"
            )
        result, progress = list(self._seen.items())[-1]
        where = describe_progress(result, progress)
        if progress.tasks_running:
            return f"{where}, {format_count(progress.tasks_running, 'Spark task')} running; look at them in Spark's UI"
        return f"{where}; other operations have all cores, executors are missing, or the server is busy or hangs"


def describe_progress(result: str, progress: Progress) -> str:
    """``orders.604973ca: 3 of 8 Spark tasks, stage 1 of 2``; waiting says for what."""
    if not progress.tasks_total:
        return f"{result}: waiting for Spark to plan it"
    done = min(progress.tasks_done, progress.tasks_total)  # Spark counts a task again that it had to repeat
    tasks = f"{done} of {progress.tasks_total} Spark tasks"
    stages = f"stage {min(progress.stages_done + 1, progress.stages_total)} of {progress.stages_total}"
    waits = progress.tasks_running == 0 and progress.tasks_done < progress.tasks_total
    return f"{result}: {tasks}, {stages}" + (", waiting for a free core" if waits else "")


def describe_vertices(progress: Progress) -> str:
    """`` (customers 100 %, orders 25 %)`` of a step in which several vertices run; the page reads it."""
    if progress.unattributed:
        return f" (of no known vertex: {progress.unattributed})"
    shares = [f"{vertex} {round(100 * share)} %" for vertex, share in progress.vertices.items()]
    return f" ({', '.join(shares)})" if shares else ""


def describe_outcome(manifest: Manifest) -> str:
    """The summary line of a subtask that has committed."""
    size = format_bytes(sum(result.bytes for result in manifest.results.values()))
    files = sum(len(result.files) for result in manifest.results.values())
    written = f"{format_count(manifest.rows, 'row')}, {size} in {format_count(files, 'file')}"
    return f"{manifest.region}[{manifest.index}]: wrote {written}, {manifest.seconds:.1f} s, attempt {manifest.attempt}"
