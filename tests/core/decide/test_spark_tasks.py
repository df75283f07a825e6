"""How a subtask is cut inside."""

from __future__ import annotations

import pytest

from airflow_abs.core.decide.spark_tasks import runs_on_one_core, shuffle_partitions, source_task_bytes

MIB = 2**20


@pytest.mark.parametrize(
    ("megabytes", "expected"),
    [(0, 32), (128, 32), (256, 32), (512, 64), (1024, 128), (10_000, 128)],
)
def test_a_task_of_a_source_reads_what_it_can_sort_unless_that_makes_many_files(megabytes: int, expected: int) -> None:
    assert source_task_bytes(megabytes * MIB) == expected * MIB
    assert source_task_bytes(megabytes * MIB, sorts=False) == 128 * MIB


@pytest.mark.parametrize(("megabytes", "expected"), [(0, 1), (32, 1), (100, 4), (100_000, 200)])
def test_partitions_of_a_shuffle_are_of_a_size_that_sorts_in_memory(megabytes: int, expected: int) -> None:
    assert shuffle_partitions(megabytes * MIB) == expected


@pytest.mark.parametrize(
    ("parallelism", "slots", "megabytes", "expected"),
    [(2, 2, 32, True), (1, 2, 32, False), (2, None, 32, False), (2, 2, 64, True), (2, 2, 65, False)],
)
def test_enough_subtasks_that_are_not_too_large_run_on_one_core_each(
    parallelism: int, slots: int | None, megabytes: int, expected: bool
) -> None:
    assert runs_on_one_core(parallelism, slots, megabytes * MIB) is expected
