"""Recorded sizes on another day."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.region_inputs import SourceInput
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.simulate.growth import (
    Growth,
    Scenario,
    grow_files,
    regrid,
    respread_files,
    scale_size,
    spread_over_producers,
)
from airflow_abs.core.simulate.recorded_job import RecordedJob
from tests.core.simulated_jobs import make_region

SIZES = st.lists(st.integers(0, 10**6), min_size=1, max_size=40)
FACTOR = st.floats(0, 20, allow_nan=False)


def test_a_larger_day_has_more_files_of_the_same_sizes_and_a_rest() -> None:
    assert grow_files([300, 40], 2.5) == [300, 40, 300, 40, 150, 20]


def test_a_smaller_day_has_as_many_smaller_files() -> None:
    assert grow_files([300, 40], 0.1) == [30, 4]


def test_files_of_a_given_size_are_written_anew() -> None:
    # 3.4 * 340 = 1156 bytes in files of at most 300: four of 289
    assert grow_files([300, 40], 3.4, 300) == [289, 289, 289, 289]
    assert grow_files([], 2.0, 300) == [0]


def test_a_negative_factor_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="factor"):
        scale_size(1, -1.0)


@given(SIZES, FACTOR, FACTOR)
def test_more_is_never_less(sizes: list[int], one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert sum(grow_files(sizes, less)) <= sum(grow_files(sizes, more))
    assert sum(grow_files(sizes, less, 10**6)) <= sum(grow_files(sizes, more, 10**6))
    assert [scale_size(size, less) for size in sizes] <= [scale_size(size, more) for size in sizes]


def test_what_a_source_inferred_holds_for_its_files_only() -> None:
    source = SourceInput("s", [300, 40], parallelism=2)
    region = replace(make_region("r", files=(1,)), sources=(source,))
    job = RecordedJob("dag/run/job", (region,))
    assert Growth(job, Scenario()).sources(region) == [source]
    assert Growth(job, Scenario(factor=2)).sources(region) == [SourceInput("s", [300, 40, 300, 40])]


@given(SIZES)
def test_a_factor_of_one_changes_nothing(sizes: list[int]) -> None:
    assert grow_files(sizes, 1.0) == sizes == regrid(sizes, len(sizes))


def test_finer_subpartitions_share_what_a_coarse_one_held() -> None:
    assert regrid([400, 200], 4) == [200, 200, 100, 100]
    assert regrid([400, 200, 300], 2) == [500, 400]


def test_what_makes_a_subpartition_hot_stays_together() -> None:
    # the median of 100, 100, 900, 100 is 100; 900 is above four times that, so 800 is one key's
    assert regrid([100, 100, 900, 100], 8) == [50, 50, 50, 50, 850, 50, 50, 50]


@given(SIZES, st.integers(1, 100))
def test_another_grid_holds_the_same_bytes(sizes: list[int], count: int) -> None:
    cut = regrid(sizes, count)
    assert (sum(cut), len(cut)) == (sum(sizes), count)
    assert min(cut) >= 0


def test_nothing_has_no_grid() -> None:
    assert regrid([], 4) == []


@given(SIZES, st.integers(1, 9))
def test_producers_write_equal_shares(totals: list[int], producers: int) -> None:
    rows = spread_over_producers(totals, producers)
    assert list(map(sum, zip(*rows, strict=True))) == totals
    assert all(max(cells) - min(cells) <= 1 for cells in zip(*rows, strict=True))


def test_files_stay_as_they_are_with_as_many_producers_and_are_of_one_size_with_others() -> None:
    assert respread_files([[30, 10], [20]], 2) == [[30, 10], [20]]
    # three files of two subtasks are two each, rounded up: 60 in six
    assert respread_files([[30, 10], [20]], 3) == [[10, 10], [10, 10], [10, 10]]
    assert respread_files([[], []], 3) == [[0], [0], [0]]
