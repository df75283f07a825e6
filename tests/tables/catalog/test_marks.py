"""What a table remembers of runs, and of which it may forget that."""

from __future__ import annotations

import pytest

from airflow_abs.tables.catalog.marks import BEGUN, DONE, REPLACING, Mark, forgettable, name_of, read_marks


def test_marks_come_back_from_the_properties_of_a_table_among_others() -> None:
    mark = Mark(BEGUN, "abc", 1_795_400_000, "dag/manual__2026-01-01T00:00:00+00:00/a job/t")
    properties = {"owner": "me", name_of("0123"): str(mark)}
    assert read_marks(properties) == {"0123": mark}


@pytest.mark.parametrize(
    ("mark", "done", "others"),
    [
        (Mark(DONE, "abc", 1, "r"), True, False),
        (Mark(DONE, "old", 1, "r"), False, True),
        (Mark(BEGUN, "abc", 1, "r"), False, False),
        (Mark(BEGUN, "old", 1, "r"), False, True),
        (Mark(REPLACING, "abc", 1, "r"), False, True),
    ],
)
def test_a_run_is_done_or_has_other_rows_to_take_out_or_neither(mark: Mark, done: bool, others: bool) -> None:
    assert (mark.is_done("abc"), mark.has_other_rows("abc")) == (done, others)


def test_the_oldest_runs_that_are_done_are_forgotten_and_none_that_is_under_way() -> None:
    marks = {f"{number:03d}": Mark(DONE, "abc", number, "r") for number in range(503)}
    marks["001"] = Mark(BEGUN, "abc", 1, "r")
    assert forgettable(marks) == [name_of("000"), name_of("002")]
