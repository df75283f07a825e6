"""The position of an incremental source, stored on every kind of storage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_abs.core.incremental.position import FoundFile, Position, Progress, RunFiles
from airflow_abs.exchange.errors import DamagedFileError, ExchangeError, TargetBusyError
from airflow_abs.exchange.incremental.position_log import check_begins, move_position, read_position
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.cleaning import find_expired
from airflow_abs.exchange.runs.root_marker import mark_root
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import write_atomic

ENTRY = RunFiles("run 1", (FoundFile("s3a://lake/a", 10, '"tag"'),), Progress.PUBLISHING, ("total",))


def test_what_is_stored_is_read_back(job: JobFolder) -> None:
    assert read_position(job, "orders") == Position()
    stored = move_position(job, "orders", lambda position: position.put(ENTRY))
    assert stored == read_position(job, "orders") == Position((ENTRY,))
    assert read_position(job, "customers") == Position()


def test_a_source_under_another_name_is_not_read_from_its_beginning_again(job: JobFolder) -> None:
    check_begins(job, "orders", ["orders"], [job.job])
    move_position(job, "orders", lambda position: position.put(ENTRY))
    check_begins(job, "orders", ["orders"], [job.job])
    check_begins(job, "customers", ["orders", "customers"], [job.job])  # a second source
    old, new = locate(job.position_path("orders")), locate(job.position_path("sold"))
    message = (
        f"'sold': its source has no position under this name, and {old} is the position .* rename the folder to {new},"
    )
    with pytest.raises(ExchangeError, match=message) as refused:
        check_begins(job, "sold", ["sold"], [job.job])
    assert not refused.value.restartable
    other = replace(job, job="other")
    check_begins(other, "orders", ["orders"], [job.job, "other"])  # a second job
    check_begins(other, "orders", ["orders"], [])
    with pytest.raises(ExchangeError, match=f"{old} is the position"):
        check_begins(other, "orders", ["orders"], ["other"])


def test_nothing_is_written_where_nothing_changes(job: JobFolder) -> None:
    move_position(job, "orders", lambda position: position.put(ENTRY))
    move_position(job, "orders", lambda position: position.put(ENTRY))
    folder = locate(job.position_path("orders"))
    assert [locate(folder.at(path)).name for path in folder.fs.find(folder.path)] == ["00000001"]


def test_of_two_runs_at_once_the_second_changes_what_the_first_has_left(job: JobFolder) -> None:
    seen = []

    def change_while_another_does(position: Position) -> Position:
        seen.append(position)
        if len(seen) == 1:
            move_position(job, "orders", lambda other: other.put(RunFiles("run 2")))
        return position.put(ENTRY)

    move_position(job, "orders", change_while_another_does)
    assert seen == [Position(), Position((RunFiles("run 2"),))]
    assert read_position(job, "orders") == Position((RunFiles("run 2"), ENTRY))


def test_old_states_go_but_for_the_one_that_somebody_may_be_about_to_read(job: JobFolder) -> None:
    for number in range(5):
        move_position(job, "orders", lambda position, run=str(number): position.put(RunFiles(run)))  # type: ignore[misc]
    folder = locate(job.position_path("orders"))
    assert sorted(folder.at(path).name for path in folder.fs.find(folder.path)) == ["00000004", "00000005"]


def test_who_is_never_fast_enough_is_told(job: JobFolder) -> None:
    def change_after_others(position: Position) -> Position:
        move_position(job, "orders", lambda other: other.put(RunFiles(f"other {len(other.runs)}")))
        return position.put(ENTRY)

    with pytest.raises(TargetBusyError) as caught:
        move_position(job, "orders", change_after_others)
    assert str(caught.value) == (
        "vertex 'orders': the position of its source was changed 20 times by others while this run changed it; run "
        "this task again when they have ended"
    )


def test_a_damaged_position_is_no_empty_one(job: JobFolder) -> None:
    write_atomic(job.position_path("orders") / "00000001", b"{}")
    with pytest.raises(DamagedFileError, match="do not end in a checksum"):
        read_position(job, "orders")


def test_gc_leaves_positions_alone(job: JobFolder) -> None:
    mark_root(job.root)
    move_position(job, "orders", lambda position: position.put(ENTRY))
    assert find_expired(job.root, 0, 2.0**40) == []
