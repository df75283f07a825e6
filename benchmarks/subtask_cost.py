"""What a subtask costs Airflow when it starts in the triggerer: the runs of `subtasks` without workers."""

from __future__ import annotations

from benchmarks.subtasks import measure_sizes


def run() -> list[dict[str, int | float]]:
    """Rows as of `subtasks`; `workers` are those of plan, decide and release."""
    return measure_sizes("noops_{}_in_triggerer")
