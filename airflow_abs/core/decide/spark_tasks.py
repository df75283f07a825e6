"""How many Spark tasks a subtask is cut into: what `spark/run/subtask_spec.py` asks for, and the simulation uses."""

from __future__ import annotations

from airflow_abs.core.decide.parallelism import divide_up

_MIB = 2**20
SORTED_IN_MEMORY = 32 * _MIB
"""Bytes of a source or a shuffle that a core with half a GiB sorts without spilling (docs/evidence)."""
_MOST_OF_A_SOURCE = 128 * _MIB  # Spark's own
_SOURCE_TASKS = 8
_MOST_SHUFFLE_PARTITIONS = 200  # Spark's own
_MOST_ON_ONE_CORE = 64 * _MIB


def source_task_bytes(size: int, *, sorts: bool = True) -> int:
    """Most bytes of a source that one Spark task reads, in a subtask that reads `size`.

    If it sorts rows, little enough to be sorted in memory; but each task costs a little, and writes a file.
    """
    if not sorts:
        return _MOST_OF_A_SOURCE
    return min(max(divide_up(size, _SOURCE_TASKS), SORTED_IN_MEMORY), _MOST_OF_A_SOURCE)


def shuffle_partitions(size: int) -> int:
    """Partitions of a shuffle inside a subtask that reads `size` bytes."""
    return min(max(1, divide_up(size, SORTED_IN_MEMORY)), _MOST_SHUFFLE_PARTITIONS)


def runs_on_one_core(parallelism: int, slots: int | None, largest: int) -> bool:
    """Whether subtasks that shuffle do better as one Spark task each, without any shuffle.

    A shuffle pays from 64 MiB on, because its partitions are joined by hash in memory: the same CPU at 55 MiB each, a
    tenth less with the shuffle at 110 MiB (docs/evidence). There must be enough subtasks to fill the slots; `largest`
    is the bytes of the one that reads most.
    """
    return slots is not None and parallelism >= slots and largest <= _MOST_ON_ONE_CORE
