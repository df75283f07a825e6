"""`make test-matrix`: the package with every release that it is tried with, a cell at a time, and the table of it.

A cell is one group of tests of one of the Makefile's targets, for one release: "spark-4.3.0/tests/spark/run". What
became of it is kept in build/matrix and stands for as long as the commit does, so a matrix that was stopped begins with
the cell that it was at. The table has a row for each release, which names the groups that did not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as XML  # noqa: N814

import msgspec

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "matrix"
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
TARGETS = {
    "spark": ("test-spark-versions", "SPARK_RELEASES", "SERVER_TESTS"),
    "airflow": ("test-airflow-versions", "AIRFLOW_RELEASES", "AIRFLOW_TESTS"),
}
"""The Makefile's target of a kind of release, its variable of releases and that of the tests."""

_COLUMNS = ("release", "day", "commit", "passed", "failed", "skipped", "minutes", "did not run")
_TABLE = re.compile(r"(<!-- matrix -->\n\n)(?:\|.*\n)*\n*")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one cell's tests came to. Without any that passed, its environment or its server did not come up."""

    cell: str
    day: str
    commit: str
    passed: int
    failed: int
    skipped: int
    minutes: int

    @property
    def is_green(self) -> bool:
        return self.passed > 0 and self.failed == 0

    @property
    def release(self) -> str:
        return _release(self.cell)


RunCell = Callable[[str, Path], None]
"""Runs a cell's tests to their end and leaves a JUnit report at the path."""


def chosen(cells: Sequence[str], wanted: str) -> list[str]:
    """Those that begin with one of `wanted`, which commas separate; all if it is empty.

    Raises:
        ValueError: one of `wanted` is the beginning of none.
    """
    beginnings = [each for each in re.split(r"[,\s]+", wanted) if each]
    for each in beginnings:
        if not any(cell.startswith(each) for cell in cells):
            raise ValueError(f"MATRIX={wanted}: no cell begins with {each!r}; there are {', '.join(cells)}")
    return [cell for cell in cells if not beginnings or cell.startswith(tuple(beginnings))]


def outcome_of(cell: str, commit: str, kept: Path, run: RunCell) -> Outcome:
    """What is kept if it is green and of this commit; else the cell is run.

    Args:
        cell: such as "spark-4.3.0/tests/spark/run".
        commit: what is tried; empty if the tree differs from every commit, and nothing is known of that.
        kept: the folder of outcomes.
        run: how a cell is run.
    """
    known = read_outcome(kept, cell)
    if known is not None and commit and known.commit == commit and known.is_green:
        return known
    tried = _tried(cell, commit, kept, run)
    (kept / f"{cell}.json").write_bytes(msgspec.json.encode(tried))
    return tried


def _tried(cell: str, commit: str, kept: Path, run: RunCell) -> Outcome:
    report = kept / f"{cell}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    started = time.monotonic()
    run(cell, report)
    minutes = round((time.monotonic() - started) / 60)
    passed, failed, skipped = _counts(report) if report.exists() else (0, 0, 0)
    return Outcome(cell, f"{datetime.now(UTC):%Y-%m-%d}", commit, passed, failed, skipped, minutes)


def _counts(report: Path) -> tuple[int, int, int]:
    """Tests that passed, that failed or broke, and that were skipped."""
    suites = list(XML.parse(report).getroot().iter("testsuite"))  # noqa: S314 - pytest's own
    total, failures, errors, skipped = (
        sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return total - failures - errors - skipped, failures + errors, skipped


def read_outcome(kept: Path, cell: str) -> Outcome | None:
    """What is known of a cell."""
    path = kept / f"{cell}.json"
    return msgspec.json.decode(path.read_bytes(), type=Outcome) if path.exists() else None


def written(page: str, cells: Sequence[str], outcomes: Iterable[Outcome]) -> str:
    """The page with a new row for each release that has an outcome; the rows of others stay.

    Args:
        page: the page as it is.
        cells: all there are.
        outcomes: the last one of each cell that ran.
    """
    known = list(outcomes)
    ran = {each.cell for each in known}
    missing = [cell for cell in cells if cell not in ran]
    new = {release: _row(release, known, missing) for release in {each.release for each in known}}

    def table(found: re.Match[str]) -> str:
        rows = {line.split("|")[1].strip(): line for line in found[0].splitlines()[4:] if line}
        lines = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS)), *(row for _, row in sorted((rows | new).items()))]
        return found[1] + "".join(f"{line}\n" for line in lines) + "\n"

    return _TABLE.sub(table, page)


def _row(release: str, outcomes: Iterable[Outcome], missing: Iterable[str]) -> str:
    """The sum of what ran with a release. Its groups may have run at several commits, and on several days."""
    own = [each for each in outcomes if each.release == release]
    days = sorted({each.day for each in own})
    commits = dict.fromkeys(each.commit[:8] or "none: with changes" for each in sorted(own, key=lambda each: each.day))
    counts = [sum(getattr(each, name) for each in own) for name in ("passed", "failed", "skipped", "minutes")]
    absent = [f"`{cell.partition('/')[2]}`" for cell in missing if _release(cell) == release]
    return _line(
        [
            release,
            " to ".join(dict.fromkeys([days[0], days[-1]])),
            ", ".join(commits),
            *map(str, counts),
            ", ".join(absent),
        ]
    )


def _release(cell: str) -> str:
    return cell.partition("/")[0]


def _line(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |".replace("|  |", "| |")


def _make(cell: str, report: Path) -> None:
    name, _, group = cell.partition("/")
    kind, _, release = name.partition("-")
    target, releases, tests = TARGETS[kind]
    arguments = f"{os.environ.get('TEST_ARGS', '')} --junitxml={report}"
    command = ["make", target, f"{releases}={release}", f"{tests}={group}", f"TEST_ARGS={arguments}"]
    subprocess.run(command, cwd=ROOT, check=False)


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    # The table that a cell wrote does not change what the next one tries.
    return "" if git("status", "--porcelain", "--", ".", f":!{PAGE.relative_to(ROOT)}") else git("rev-parse", "HEAD")


def main(cells: Sequence[str]) -> int:
    """Run the cells that MATRIX names, and write the table after each. One that is red keeps no other from running.

    Returns:
        1 if one is red.
    """
    commit = _commit()
    all_green = True
    for cell in chosen(cells, os.environ.get("MATRIX", "")):
        outcome = outcome_of(cell, commit, KEPT, _make)
        all_green = all_green and outcome.is_green
        known = [each for each in (read_outcome(KEPT, other) for other in cells) if each is not None]
        PAGE.write_text(written(PAGE.read_text(), cells, known))
        print(outcome, flush=True)
    return int(not all_green)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
