"""What a cluster manager says of the executors of one Spark application."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.core.wording import format_count


@dataclass(frozen=True, slots=True)
class Executors:
    """How many of an application's executors run, how many it has asked for and not got, and why, if that is known."""

    running: int
    waiting: int = 0
    reason: str = ""

    def __str__(self) -> str:
        running = f"{format_count(self.running, 'executor')} {'runs' if self.running == 1 else 'run'}"
        waiting = f", {self.waiting} {'waits' if self.waiting == 1 else 'wait'}" if self.waiting else ""
        return f"{running}{waiting}" + (f": {self.reason}" if self.reason else "")
