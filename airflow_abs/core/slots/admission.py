"""How many subtasks of a region are on Spark at once: those beyond its slots only hold memory there."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from airflow_abs.core.wording import format_bytes

if TYPE_CHECKING:
    from airflow_abs.core.decide.region_decision import RegionDecision

_COPIED_BYTES = 1024 * 1024
"""Broadcast inputs in files; smaller ones can be held as often as there are subtasks."""


class Admission(StrEnum):
    """What bounds the subtasks of a region that run at once."""

    BOUND = "bound"
    """A pool or another limit of the author's, or the slots of a job without workers."""
    QUEUE = "queue"
    """Subtasks of a fan-out beyond the slots wait for one in the triggerer."""
    FREE = "free"
    """Nothing: there is no triggerer to wait in."""


def exceeds_slots(decision: RegionDecision) -> bool:
    """Whether more subtasks are to run than fit. One more than the slots fits: it starts while the others work."""
    slots = decision.options.slots
    return slots is not None and decision.parallelism > slots + 1


def advise_bound(decision: RegionDecision) -> str | None:
    """What to do about subtasks beyond the slots that hold copies of something large, if nothing bounds them."""
    if not exceeds_slots(decision) or decision.broadcast_bytes < _COPIED_BYTES:
        return None
    slots, size = decision.options.slots or 0, format_bytes(decision.broadcast_bytes)
    return (
        f"{decision.region}: {decision.parallelism} subtasks go at once to a Spark server of {slots} slots, and each "
        f"holds the broadcast inputs from then on ({size} in files, several times that in memory); give the vertex a "
        f"pool of {slots + 1} slots, or leave out deferrable=False"
    )
