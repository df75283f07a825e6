"""Rules and bounds of a decision in the words of somebody who does not know their names."""

from __future__ import annotations

from airflow_abs.core.decide.decision import Clamp
from airflow_abs.core.wording import format_count

_RULES = {
    "balanced": "as many subtasks as it takes to keep each at the target, cut so that they read about the same amount",
    "power_of_two": "the power of two closest to the target",
    "sources": "as many subtasks as the source's files need at the target",
    "fixed": "the number that the author set",
    "single_subtask": "one subtask, because all rows must stay together",
    "broadcast_only": "every input is read whole, so there is nothing to divide",
    "no_inputs": "nothing to read",
}
_BOUNDS = {
    "min_parallelism": "the minimum that the job allows",
    "max_parallelism": "the maximum that the job allows",
    "default_source_parallelism": "the maximum that the job allows for a source",
    "single_subtask": "all rows must stay together",
    "sources": "one of its sources needs that many",
    "waves of slots": "more would only wait for a slot, and each costs a task",
    "number of subpartitions": "there are no more subpartitions to divide",
    "number of splits": "there are no more pieces of files to divide",
    "number of files": "there are no more files to divide",
}
_SLOTS_PER_WAVE = "slots per wave"


def describe_rule(rule: str) -> str:
    """What a rule does; its own name if it is of another version."""
    return _RULES.get(rule, rule)


def describe_clamp(clamp: Clamp) -> str:
    """``4 instead of 3, so that none of 2 slots is idle in the last wave``."""
    changed = f"{clamp.used} instead of {clamp.decided}"
    if clamp.name == _SLOTS_PER_WAVE:
        return f"{changed}, so that none of {format_count(clamp.bound, 'slot')} is idle in the last wave"
    return f"{changed}: {_BOUNDS.get(clamp.name, clamp.name)} ({clamp.bound})"
