"""Whether what was expected of a vertex holds: the counts of its subtasks, added up and compared with the tolerance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from airflow_abs.core.expect.expectations import Expectation
from airflow_abs.core.wording import format_count


@dataclass(frozen=True, slots=True)
class Tally:
    """What was counted of some rows for one expectation: those that fail it, and those of them for which the condition
    is NULL."""

    failed: int = 0
    unknown: int = 0


def add_up(tallies: Iterable[Tally]) -> Tally:
    """Of all parts together."""
    listed = list(tallies)
    return Tally(sum(each.failed for each in listed), sum(each.unknown for each in listed))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one expectation. `rows` are all of the vertex; `rows_before` those of the run that a row count is
    compared with, None if there is none."""

    vertex: str
    expectation: Expectation
    rows: int
    tally: Tally = Tally()
    rows_before: int | None = None

    @property
    def share(self) -> float:
        """Of the rows that fail; of a row count, how much it changed."""
        if self.expectation.is_row_count:
            return abs(self.rows - self.rows_before) / self.rows_before if self.rows_before else 0.0
        return self.tally.failed / self.rows if self.rows else 0.0

    @property
    def holds(self) -> bool:
        return self.share <= self.expectation.tolerance

    @property
    def stops(self) -> bool:
        """Whether nothing may be published, and no reader run."""
        return not self.holds and self.expectation.on_failure == "fail"

    @property
    def outcome(self) -> str:
        """``met``, ``warning`` or ``failed``."""
        if self.holds:
            return "met"
        return "failed" if self.stops else "warning"

    @property
    def found(self) -> str:
        """The counts and the tolerance in words."""
        tolerance = f"tolerance {_percent(self.expectation.tolerance)}"
        if self.expectation.is_row_count:
            rows = format_count(self.rows, "row")
            if not self.rows_before:
                return f"{rows}, and no earlier run with rows to compare with"
            return f"{rows} after {self.rows_before:,}, changed by {_percent(self.share)}; {tolerance}"
        null = f", {self.tally.unknown:,} of them because it is NULL" if self.tally.unknown else ""
        verb = "repeat a key" if self.expectation.columns else "fail"
        return f"{self.tally.failed:,} of {self.rows:,} rows {verb} ({_percent(self.share)}{null}); {tolerance}"

    def __str__(self) -> str:
        """``by_region expects positive (amount > 0): met, 0 of 5 rows fail (0 %); tolerance 0 %``."""
        entry = self.expectation
        return f"{self.vertex} expects {entry.name} ({entry.what}): {self.outcome}, {self.found}"

    def to_json(self) -> dict[str, Any]:
        """For people and for readers of asset events."""
        return {
            "vertex": self.vertex,
            "name": self.expectation.name,
            "what": self.expectation.what,
            "on_failure": self.expectation.on_failure,
            "tolerance": self.expectation.tolerance,
            "outcome": self.outcome,
            "rows": self.rows,
            "failed": self.tally.failed,
            "unknown": self.tally.unknown,
            "rows_before": self.rows_before,
            "found": self.found,
        }


def _percent(share: float) -> str:
    """Never 0 % for what is not: 1 of 3,000,000 rows is a failure."""
    return f"{share * 100:.3g} %"
