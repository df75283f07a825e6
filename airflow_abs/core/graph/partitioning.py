"""How the rows of a producer are dealt out to the subtasks of a consumer."""

from __future__ import annotations

from enum import StrEnum


class Partitioning(StrEnum):
    """The distribution of one edge."""

    HASH = "hash"  # equal keys meet in one subtask
    BROADCAST = "broadcast"  # every subtask reads everything
    REBALANCE = "rebalance"  # rows are spread evenly, no key
    RESCALE = "rescale"  # whole files of neighbouring producers, by no key
    FORWARD = "forward"  # subtask k reads what subtask k wrote; never leaves its region
