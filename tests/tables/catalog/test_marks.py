"""What a table remembers of runs, and of which it may forget that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_abs.tables.catalog.marks import BEGUN, DONE, REPLACING, Mark, forgettable, name_of, read_marks
from tests.tables.catalog.hidden_names import check_hidden_names
from tests.tables.catalog.warehouse import Warehouse

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint


def test_marks_come_back_from_the_properties_of_a_table_among_others() -> None:
    mark = Mark(BEGUN, "abc", 1_795_400_000, "prod:dag/manual__2026-01-01T00:00:00+00:00/a job", 7)
    properties = {"owner": "me", name_of(mark.key): str(mark)}
    assert read_marks(properties) == {mark.key: mark}


def test_a_mark_holds_no_word_that_spark_hides() -> None:
    mark = Mark(DONE, "abc", 1, "prod:hourly_url/secret_token/password")
    hidden = re.compile("(?i)secret|password|token|access[.]?key|url")
    assert hidden.search(str(mark)) is None
    assert hidden.search(name_of(mark.key)) is None


def test_a_mark_of_before_is_understood_and_one_that_is_hidden_is_none() -> None:
    found = read_marks({name_of("0123"): "done abc 1 dag/monday/a job/t", name_of("4567"): "*********(redacted)"})
    assert found == {"0123": Mark(DONE, "abc", 1, "dag/monday/a job/t"), "4567": None}


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
    marks: dict[str, Mark | None] = {f"{number:03d}": Mark(DONE, "abc", number, "r") for number in range(503)}
    marks["001"] = Mark(BEGUN, "abc", 1, "r")
    assert forgettable(marks) == [name_of("000"), name_of("002")]


@pytest.mark.spark
def test_runs_whose_names_spark_hides_are_known(
    warehouse: Warehouse, connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    check_hidden_names(warehouse, connect_server, tmp_path)
