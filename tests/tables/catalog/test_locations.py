"""Where partitions lie is told by the plans of a few queries, and asked for one by one where those leave a doubt."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.tables.catalog.locations import folders_by_digit, locate_partitions, query_by_digit, tell_apart
from airflow_abs.tables.catalog.statements import StatementError
from tests.tables.catalog.recorded import RecordedCatalog

PLAN = """== Physical Plan ==
Union
:- *(1) Project [1 AS 1#13]
:  +- *(1) ColumnarToRow
:     +- FileScan parquet spark_catalog.d.t[day#11] Batched: true, DataFilters: [], Format: Parquet, Location: \
InMemoryFileIndex(2 paths)[file:/lake/d.db/t/day=2026-01-01, file:/else where/x], PartitionFilters: \
[xxhash64(cast(day#11 as string), 42) IN (5,7), NOT (xxhash64(cast(day#11 as string), 42) = 1)], \
PushedFilters: [], ReadSchema: struct<>
+- *(2) Project [1 AS 1#14]
   +- *(2) ColumnarToRow
      +- FileScan parquet spark_catalog.d.t[day#21] Batched: true, DataFilters: [], Format: Parquet, Location: \
InMemoryFileIndex(1 paths)[file:/else where/x], PartitionFilters: [(xxhash64(cast(day#21 as string), 42) = 7), \
NOT (xxhash64(cast(day#21 as string), 42) = 0)], PushedFilters: [], ReadSchema: struct<>
"""


def grouped(folders: Sequence[str]) -> dict[int, list[str]]:
    return {
        digit: [folder for number, folder in enumerate(folders, 1) if number >> digit & 1]
        for digit in range(len(folders).bit_length())
    }


@given(st.integers(1, 70), st.randoms(use_true_random=False))
def test_any_number_of_folders_is_told_apart_in_whatever_order_they_are_named(
    count: int, chance: random.Random
) -> None:
    folders = [f"file:/{number}" for number in range(count)]
    groups = grouped(folders)
    for group in groups.values():
        chance.shuffle(group)
    assert tell_apart(dict(sorted(groups.items(), key=lambda _: chance.random())), count) == folders


@given(st.integers(2, 40), st.integers())
def test_folders_that_are_missing_doubled_or_shared_are_not_told_apart(count: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - drawing each step by hypothesis is slow
    folders = [f"file:/{number}" for number in range(count)]
    one, other = chance.sample(range(count), 2)
    shared = [folders[one] if number == other else folder for number, folder in enumerate(folders)]
    assert tell_apart(grouped(shared), count) is None  # two partitions in one folder
    groups = grouped(folders)
    chance.choice(list(groups.values())).pop()
    assert tell_apart(groups, count) is None
    strange = grouped(folders)
    chance.choice(list(strange.values())).append("file:/of a partition that is not wanted")
    assert tell_apart(strange, count) is None
    assert tell_apart({}, count) is None


def test_a_query_asks_for_those_whose_number_has_the_digit() -> None:
    assert query_by_digit("`d`.`t`", "h", [50, 60, 70]) == (
        "SELECT 1 FROM `d`.`t` WHERE h IN (50, 70) AND h <> 0 "
        "UNION ALL SELECT 1 FROM `d`.`t` WHERE h IN (60, 70) AND h <> 1"
    )


def test_a_plan_names_the_folders_of_each_scan_and_its_digit_in_whatever_order() -> None:
    assert folders_by_digit(PLAN) == {
        1: ["file:/lake/d.db/t/day=2026-01-01", "file:/else where/x"],
        0: ["file:/else where/x"],
    }


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        ("file:/else where/x], PartitionFilters: [xx", "file:/else, where/x], PartitionFilters: [xx", 1),  # 2 or 3?
        ("file:/else where/x], PartitionFilters: [xx", "...], PartitionFilters: [xx", 1),
        ("file:/else where/x], PartitionFilters: [xx", "file:/el..., PartitionFilters: [xx", 1),
        ("else where", "*********(redacted)", 0),
        ("InMemoryFileIndex", "Something else", 0),
        (", NOT (xxhash64(cast(day#11 as string), 42) = 1)]", "]", 1),
        ("42) = 1)]", "42) = 1), NOT (x = 2)]", 1),
    ],
)
def test_paths_that_are_cut_short_or_made_unclear_are_not_believed(old: str, new: str, left: int) -> None:
    assert old in PLAN
    found = folders_by_digit(PLAN.replace(old, new))
    assert found == dict([(0, ["file:/else where/x"])] * left)
    assert tell_apart(found, 2) is None


def test_two_scans_of_one_digit_are_not_believed() -> None:
    found = folders_by_digit(PLAN.replace("42) = 1)]", "42) = 0)]"))
    assert found == {0: []}


class Planned(RecordedCatalog):
    """Answers EXPLAIN with what a test says."""

    plan: str | StatementError = ""

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        if not statement.startswith("EXPLAIN"):
            return super().rows(statement)
        self.asked.append(statement)
        if isinstance(self.plan, StatementError):
            raise self.plan
        return [(self.plan,)]


@pytest.mark.parametrize("plan", ["== Physical Plan ==", PLAN, StatementError("denied")])
def test_partitions_that_a_plan_does_not_tell_apart_are_asked_for_one_by_one(plan: str | StatementError) -> None:
    places = {f"day={number}": f"file:/x/{number}" for number in range(40)}
    values = [(str(number),) for number in range(40)]
    catalog = Planned(partitions=places, chosen=[(number, number * 7) for number in range(40)])
    catalog.plan = plan
    found = locate_partitions("d.h", catalog, "`d`.`h`", {"day": "string"}, values)
    assert [(each.values, each.location) for each in found] == list(zip(values, places.values(), strict=True))
    assert sum(" PARTITION (" in each for each in catalog.asked) == 40


def test_many_partitions_take_one_plan_and_few_take_none() -> None:
    values = [(str(number),) for number in range(33)]
    places = {f"day={number}": f"s3a://lake/{number}" for number in range(33)}
    catalog = Planned(partitions=places, chosen=[(number, number * 7) for number in range(33)])
    scans = (
        f"FileScan Location: InMemoryFileIndex({len(group)} paths)[{', '.join(group)}], "
        f"PartitionFilters: [h IN (1,2), NOT (h = {digit})]"
        for digit, group in grouped(list(places.values())).items()
    )
    catalog.plan = "\n".join(scans)
    found = locate_partitions("d.h", catalog, "`d`.`h`", {"day": "string"}, values)
    assert [each.location for each in found] == list(places.values())
    assert [each.split()[0] for each in catalog.asked] == ["SELECT", "SET", "EXPLAIN"]
    catalog.asked.clear()
    assert len(locate_partitions("d.h", catalog, "`d`.`h`", {"day": "string"}, values[:32])) == 32
    assert {each.split()[0] for each in catalog.asked} == {"DESCRIBE"}
