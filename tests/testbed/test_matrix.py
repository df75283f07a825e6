"""The matrix of releases: what is run, what is kept, and the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.matrix import PAGE, TARGETS, Outcome, chosen, outcome_of, read_outcome, written

CELLS = ["spark-4.2.1", "spark-4.3.0", "airflow-3.1.8"]


@pytest.mark.parametrize(
    ("wanted", "cells"),
    [("", CELLS), ("spark", CELLS[:2]), ("spark-4.3,airflow-3.1", CELLS[1:]), ("airflow, ", CELLS[2:])],
)
def test_cells_are_chosen_by_their_beginning(wanted: str, cells: list[str]) -> None:
    assert chosen(CELLS, wanted) == cells


def test_a_cell_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"no cell begins with 'spark-3'; there are spark-4.2.1, spark-4.3.0, airf"):
        chosen(CELLS, "spark-4,spark-3")


class Runs:
    """Stands for `make`, which takes an hour: leaves each cell's report, or none."""

    def __init__(self, **failures: int | None) -> None:
        self.failures = failures
        self.asked: list[str] = []

    def __call__(self, cell: str, report: Path) -> None:
        self.asked.append(cell)
        failures = self.failures.get(cell, 0)
        if failures is not None:
            suite = f'<testsuite tests="12" failures="{failures}" errors="0" skipped="2"></testsuite>'
            report.write_text(f"<testsuites>{suite}</testsuites>")


def test_only_what_is_green_at_this_commit_is_not_run_again(tmp_path: Path) -> None:
    run = Runs(red=1, gone=None)
    outcomes = [outcome_of(cell, "abc", tmp_path, run) for cell in ("red", "gone", "green")]
    assert [(each.passed, each.failed, each.skipped) for each in outcomes] == [(9, 1, 2), (0, 0, 0), (10, 0, 2)]
    assert [each.is_green for each in outcomes] == [False, False, True]
    for cell in ("red", "gone", "green"):
        outcome_of(cell, "abc", tmp_path, run)
    assert run.asked == ["red", "gone", "green", "red", "gone"]
    for commit in ("def", "", ""):
        outcome_of("green", commit, tmp_path, run)
    assert run.asked[5:] == ["green"] * 3


def test_a_report_of_before_is_not_taken_for_that_of_a_cell_that_does_not_come_up(tmp_path: Path) -> None:
    outcome_of("spark", "abc", tmp_path, Runs())
    outcome = outcome_of("spark", "def", tmp_path, Runs(spark=None))
    assert not outcome.is_green
    assert read_outcome(tmp_path, "spark") == outcome


def test_the_table_keeps_the_rows_of_other_releases() -> None:
    page = "before\n\n<!-- matrix -->\n\nafter\n"
    old = Outcome("spark-4.3.0/tests/proof", "2026-11-26", "0123456789", 12, 0, 1, 40)
    once = written(page, [old.cell], [old])
    assert "| spark-4.3.0 | 2026-11-26 | 01234567 | 12 | 0 | 1 | 40 | |\n" in once
    new = Outcome("airflow-3.1.8/tests/triggers", "2026-11-27", "", 1, 1, 0, 3)
    twice = written(once, [old.cell, new.cell], [new])
    lines = twice.splitlines()
    assert lines[lines.index("<!-- matrix -->") + 2].startswith("| release | day |")
    assert lines[lines.index("<!-- matrix -->") + 4 :][:2] == [
        "| airflow-3.1.8 | 2026-11-27 | none: with changes | 1 | 1 | 0 | 3 | |",
        "| spark-4.3.0 | 2026-11-26 | 01234567 | 12 | 0 | 1 | 40 | |",
    ]
    assert twice.startswith("before\n")
    assert twice.endswith("| |\n\nafter\n")


def test_a_row_is_the_sum_of_what_ran_and_names_what_did_not() -> None:
    ran = [
        Outcome("spark-4.3.0/tests/proof", "2026-11-26", "0123456789", 12, 0, 1, 40),
        Outcome("spark-4.3.0/tests/spark/run", "2026-11-27", "fedcba9876", 5, 1, 0, 2),
    ]
    cells = [*(each.cell for each in ran), "spark-4.3.0/tests/spark/access", "spark-4.2.1/tests/proof"]
    row, _ = written("<!-- matrix -->\n\n", cells, ran).splitlines()[4:]
    assert row == (
        "| spark-4.3.0 | 2026-11-26 to 2026-11-27 | 01234567, fedcba98 | 17 | 1 | 1 | 42 | `tests/spark/access` |"
    )


def test_page_and_makefile_have_what_it_needs() -> None:
    assert PAGE.read_text().count("<!-- matrix -->\n\n") == 1
    makefile = PAGE.parents[2].joinpath("Makefile").read_text()
    for target, releases, tests in TARGETS.values():
        assert f"\n{target}: " in makefile
        assert f"\n{releases} ?= " in makefile
        assert f"\n{tests} := " in makefile
