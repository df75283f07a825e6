"""What a subtask asks Spark for, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.core.durability.row_order import choose_row_order
from airflow_abs.spark.connect.operations import EVERY_SESSION
from airflow_abs.spark.run.subtask_spec import SubtaskSpec
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


def test_a_session_has_the_settings_of_every_session_unless_the_vertex_has_its_own(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.decide("orders")
    listing = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    planned = run.plan.region("orders")
    for region in (planned, replace(planned, spark_conf={listing: "64"})):
        spec = SubtaskSpec(run.folder, run.plan, region, run.slice_of("orders", 0))
        assert (EVERY_SESSION | region.spark_conf).items() <= spec.settings().items()


@pytest.mark.parametrize(
    "setting",
    ["spark.sql.adaptive.advisoryPartitionSizeInBytes", "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold"],
)
def test_a_partition_of_a_shuffle_is_sorted_or_hashed_in_memory_unless_the_vertex_says_otherwise(
    tmp_path: Path, setting: str
) -> None:
    run = revenue_run(tmp_path)
    run.decide("orders")
    planned = run.plan.region("orders")
    told = [
        SubtaskSpec(run.folder, run.plan, region, run.slice_of("orders", 0)).settings()[setting]
        for region in (planned, replace(planned, spark_conf={setting: "64MB"}))
    ]
    assert told == [str(32 * 1024 * 1024), "64MB"]


def test_no_join_is_hashed_after_memory_ran_out(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.decide("orders")
    spec = SubtaskSpec(run.folder, run.plan, run.plan.region("orders"), run.slice_of("orders", 0), memory_failures=1)
    assert spec.settings()["spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold"] == "0"


@pytest.mark.parametrize(("readers", "megabytes"), [(None, 32), (7, 32), (6, 128)])
def test_what_is_read_of_a_source_is_cut_so_that_it_sorts_in_memory_if_it_is_sorted(
    tmp_path: Path, readers: int | None, megabytes: int
) -> None:
    run = revenue_run(tmp_path)
    run.decide("orders")
    planned = run.plan.region("orders")
    steps = tuple(replace(step, row_order=choose_row_order(readers)) for step in planned.steps)
    for region in (planned, replace(planned, steps=steps)):
        spec = SubtaskSpec(run.folder, run.plan, region, run.slice_of("orders", 0))
        largest = 32 if region is planned else megabytes  # a plan of an older version says nothing, and sorts
        assert spec.settings()["spark.sql.files.maxPartitionBytes"] == str(largest * 1024 * 1024)


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
