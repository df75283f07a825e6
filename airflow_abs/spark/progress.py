"""Progress of a subtask as log lines: one when something changed, and never more than one in a few seconds."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from airflow_abs.core.explain import format_bytes, format_count
from airflow_abs.exchange.manifest import Manifest
from airflow_abs.exchange.plan import PlannedStep
from airflow_abs.spark.operations import Progress

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ProgressLog:
    """A progress listener that writes to the task's log, at most every `seconds`; the first line comes at once.

    The page in Airflow reads how far a running subtask is from these lines.
    """

    seconds: float
    _started: float = field(default_factory=time.monotonic)
    _last: tuple[float | None, str] = (None, "")

    def __call__(self, step: PlannedStep, progress: Progress) -> None:
        now = time.monotonic()
        text = describe_progress(step.result, progress)
        last_time, last_text = self._last
        if text != last_text and (last_time is None or now - last_time >= self.seconds):
            self._last = (now, text)
            log.info("%s, %.0f s", text, now - self._started)


def describe_progress(result: str, progress: Progress) -> str:
    """``orders.604973ca: 3 of 8 Spark tasks, stage 1 of 2``; waiting says for what."""
    if not progress.tasks_total:
        return f"{result}: waiting for Spark to plan it"
    tasks = f"{progress.tasks_done} of {progress.tasks_total} Spark tasks"
    stages = f"stage {min(progress.stages_done + 1, progress.stages_total)} of {progress.stages_total}"
    waits = progress.tasks_running == 0 and progress.tasks_done < progress.tasks_total
    return f"{result}: {tasks}, {stages}" + (", waiting for a free core" if waits else "")


def describe_outcome(manifest: Manifest) -> str:
    """The summary line of a subtask that has committed."""
    size = format_bytes(sum(result.bytes for result in manifest.results.values()))
    files = sum(len(result.files) for result in manifest.results.values())
    written = f"{manifest.rows:,} rows, {size} in {format_count(files, 'file')}"
    return f"{manifest.region}[{manifest.index}]: wrote {written}, {manifest.seconds:.1f} s, attempt {manifest.attempt}"
