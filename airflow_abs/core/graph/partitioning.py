"""How the rows of a producer are distributed to the subtasks of a consumer."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Partitioning(StrEnum):
    """The distribution of one edge."""

    HASH = "hash"  # equal keys meet in one subtask
    BROADCAST = "broadcast"  # every subtask reads everything
    REBALANCE = "rebalance"  # rows are spread evenly, no key
    RESCALE = "rescale"  # whole files of neighbouring producers, by no key
    FORWARD = "forward"  # subtask k reads what subtask k wrote; never leaves its region
    INFERRED = "inferred"  # one of the others, that `plan` finds out; no edge of a plan is so


PARTITIONED = (Partitioning.HASH, Partitioning.REBALANCE)
"""Each subtask reads a range of subpartitions."""


def describe_edge(partitioning: Partitioning, keys: Sequence[str] = (), *, inferred: bool = False) -> str:
    """``broadcast``, ``hash(customer_id)``, ``hash(customer_id), inferred``."""
    how = f"{partitioning}({', '.join(keys)})" if keys else str(partitioning)
    return f"{how}, inferred" if inferred else how
