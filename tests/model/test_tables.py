"""Publication to tables, and clears of runs, under thousands of interleavings; the model finds what is put back."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from unittest import mock

import pytest

from airflow_abs.exchange.errors import CommitConflictError
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.tables.catalog.publish import CatalogPublication
from airflow_abs.tables.delta.publish import VersionPublication
from airflow_abs.tables.iceberg.publish import SnapshotHead
from airflow_abs.tables.postgres.ledger import Ledger, LedgerEntry, _delete
from tests.model.clearing import ClearingScenario
from tests.model.scenarios import CLEARED, FOLDER, TABLES, surroundings
from tests.model.search import Found, search_at_random
from tests.model.table_catalog import CatalogScenario
from tests.model.tables import Commit, Format, TableScenario

SEED = 1
SCHEDULES = 150  # of each world
FORMATS: list[Format] = ["iceberg", "delta", "postgres"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TABLES, *CLEARED])
def test_no_schedule_loses_doubles_or_mixes_rows(name: str) -> None:
    scenario = (TABLES | CLEARED)[name]
    with surroundings(scenario):
        found = search_at_random(scenario.build, SEED, SCHEDULES)
    assert found.violation == ""
    assert found.schedules == SCHEDULES


def search(scenario: Any) -> Found:
    with surroundings(scenario):
        return search_at_random(scenario.build, SEED, 1_000)


@pytest.mark.parametrize("of", FORMATS)
def test_it_finds_a_refused_overwrite_that_is_tried_again_by_itself(of: Format) -> None:
    """Defect 1: one class for what may be repeated and what a person has to decide."""
    scenario = TableScenario(of, [Commit("monday", mode="overwrite"), Commit("tuesday")], strangers=1)
    with mock.patch.object(CommitConflictError, "restartable", True):
        found = search(scenario)
    assert "which came after it had begun" in found.violation
    assert found.schedules <= 10


@pytest.mark.parametrize("of", FORMATS)
def test_it_finds_an_earlier_plan_that_wakes_up(of: Format) -> None:
    """Defect 5: nothing told the plans of a run apart."""
    with mock.patch.object(Publisher, "check_order"):
        found = search(TableScenario(of, [Commit("monday"), Commit("monday", plan=2)]))
    assert "publishes after a later plan of its run did" in found.violation
    assert found.schedules <= 10


def test_it_finds_the_rows_that_a_renamed_table_doubles() -> None:
    """Defect 7: PostgreSQL's ledger holds the oid, and was asked by name."""
    real = Ledger._entries

    def by_name(self: Ledger, connection: Any) -> list[LedgerEntry]:
        return [entry for entry in real(self, connection) if entry.target == self.target.sql]

    with mock.patch.object(Ledger, "_entries", by_name):
        found = search(TableScenario("postgres", [Commit("monday"), Commit("monday", plan=2)], renames=1))
    assert "the table holds 4 files of ('prod', 'monday'), of the plans [1, 2]" in found.violation
    assert found.schedules <= 20


def test_it_finds_the_order_of_plans_that_goes_with_the_rows() -> None:
    """What this search found: the ledger forgot a run as soon as others had overwritten its rows."""

    def delete(self: Ledger, connection: Any, entries: Any) -> None:
        for entry in entries:
            _delete(connection, entry)

    commits = [Commit("monday", mode="overwrite"), Commit("monday", 2, mode="overwrite"), Commit("b", mode="overwrite")]
    with mock.patch.object(Ledger, "take_out", delete):
        found = search(TableScenario("postgres", commits))
    assert "publishes after a later plan of its run did" in found.violation
    assert found.schedules <= 200


def test_it_finds_what_a_restore_took_back_and_nobody_publishes_again() -> None:
    """Defect 8: Delta's record of applications survives a RESTORE."""
    with mock.patch.object(VersionPublication, "_still_stands", return_value=True):
        found = search(TableScenario("delta", [Commit("monday"), Commit("monday")], restores=1))
    assert "says that it is published, and the table has never come from that" in found.violation
    assert found.schedules <= 20


def test_it_finds_a_commit_that_is_repeated_after_snapshots_expired() -> None:
    """Defect 11: whether it had published was forgotten with its snapshot."""
    commits = [
        Commit("monday", mode="overwrite"),
        Commit("monday", mode="overwrite"),
        Commit("tuesday", mode="overwrite"),
    ]
    with mock.patch.object(SnapshotHead, "reaches", return_value=True):
        found = search(TableScenario("iceberg", commits, expires=1))
    assert "publishes what was published already" in found.violation
    assert found.schedules <= 20


def by_vertex(commit: Commit) -> Publisher:
    return Publisher(f"dag/{commit.run}/job/{commit.vertex}", commit.plan)


@pytest.mark.parametrize("of", FORMATS)
def test_it_finds_the_rows_that_a_renamed_vertex_doubles(of: Format) -> None:
    """Defect 14: a publication was named by its vertex."""
    commits = [Commit("monday"), Commit("monday", plan=2, vertex="renamed")]
    found = search(TableScenario(of, commits, name=by_vertex))
    assert "the table holds 4 files of ('prod', 'monday'), of the plans [1, 2]" in found.violation
    assert found.schedules <= 10


@pytest.mark.parametrize("of", FORMATS)
def test_it_finds_the_rows_of_another_installation_that_are_replaced(of: Format) -> None:
    """Defect 18: two installations have a DAG and a run of the same names."""
    commits = [Commit("monday"), Commit("monday", installation="other")]
    found = search(TableScenario(of, commits, name=by_vertex))
    assert "appends, and a file of" in found.violation
    assert found.schedules <= 10


def test_it_finds_rows_of_two_versions_of_a_source() -> None:
    """Defect 13: nobody compared what was read with what counts now."""
    found = search(ClearingScenario(check=lambda records, region: None, folder=FOLDER))
    assert "published is a mixture of" in found.violation
    assert found.schedules <= 50


MONDAY, TUESDAY = Commit("monday", mode="overwrite"), Commit("tuesday", mode="overwrite")


@pytest.mark.parametrize(
    ("defect", "scenario", "told"),
    [
        (
            mock.patch.object(CommitConflictError, "restartable", True),
            CatalogScenario([MONDAY], strangers=1),
            "which came after it had begun",
        ),
        (
            mock.patch.object(Publisher, "check_order"),
            CatalogScenario([Commit("monday"), Commit("monday", plan=2)]),
            "the table holds",
        ),
        (
            mock.patch.object(CatalogPublication, "_check_left"),
            CatalogScenario([MONDAY], strangers=1),
            "overwrites stranger 0.parquet, which came after it had begun",
        ),
        (
            mock.patch.object(CatalogPublication, "_list_passing", return_value=set()),
            CatalogScenario([MONDAY, TUESDAY], strangers=1),
            "overwrites stranger 0.parquet, which came after it had begun",
        ),
        (
            mock.patch.object(CatalogPublication, "_check_alone"),
            CatalogScenario([MONDAY, TUESDAY]),
            "which came after it had begun",
        ),
        (
            mock.patch.object(CatalogPublication, "_is_in_table", return_value=True),
            CatalogScenario([Commit("monday"), TUESDAY]),
            "has never been in the table",
        ),
        (
            nullcontext(),
            CatalogScenario([Commit("monday"), Commit("monday", plan=2, vertex="renamed")], name=by_vertex),
            "the table holds 4 files of ('prod', 'monday')",
        ),
        (
            nullcontext(),
            CatalogScenario([Commit("monday"), Commit("monday", installation="other")], name=by_vertex),
            "other monday, plan 1 #1 appends, and",
        ),
    ],
    ids=[
        "1",
        "5",
        "added at the very moment",
        "added to another that overwrites",
        "two that overwrite",
        "appended to where the table was",
        "14",
        "18",
    ],
)
def test_it_finds_what_a_catalog_lets_through(defect: Any, scenario: CatalogScenario, told: str) -> None:
    """Defects 1, 5, 14 and 18, and those that this search has found."""
    with defect:
        found = search(scenario)
    assert told in found.violation
    assert found.schedules <= 1_000
