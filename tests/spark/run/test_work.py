"""What a subtask asks Spark for, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.spark.run.work import SubtaskSpec
from tests.recorded_runs import revenue_run


@pytest.mark.parametrize(
    ("slots", "subtasks", "expected"), [(64, 4, "16"), (5, 4, "2"), (4, 4, "1"), (2, 4, "1"), (None, 4, None)]
)
def test_the_files_of_a_subtask_are_cut_for_the_slots_that_are_its_own(
    tmp_path: Path, slots: int | None, subtasks: int, expected: str | None
) -> None:
    run = revenue_run(tmp_path)
    decision = run.decide("orders")
    assert decision.parallelism == subtasks
    plan = replace(run.plan, slots=slots)
    spec = SubtaskSpec(run.folder, plan, plan.region("orders"), run.slice_of("orders", 0))
    assert spec.settings().get("spark.sql.files.minPartitionNum") == expected


def test_what_is_read_of_a_source_is_cut_so_that_it_sorts_in_memory(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.decide("orders")
    spec = SubtaskSpec(run.folder, run.plan, run.plan.region("orders"), run.slice_of("orders", 0))
    assert spec.settings()["spark.sql.files.maxPartitionBytes"] == str(32 * 1024 * 1024)


def test_spark_is_told_that_rows_are_larger_than_the_files_of_the_exchange(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run()
    factor = "spark.sql.sources.fileCompressionFactor"
    told = {
        region: SubtaskSpec(run.folder, run.plan, run.plan.region(region), run.slice_of(region, 0))
        .settings()
        .get(factor)
        for region in ("orders", "enriched")
    }
    assert told == {"orders": None, "enriched": "4"}  # files of a source may be of any kind
