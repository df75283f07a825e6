"""Medians, spreads and ratios of repeated measurements, and tables of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one peer: seconds, CPU seconds by part, and whether the output was DuckDB's. `scale` is TPC-H's.

    `failure` is how it was made to fail (one of `failures.KINDS`), "" for a run without failure;
    `last_step` is how long the last step took; `notes` are further figures of the run.
    """

    workload: str
    peer: str
    round: int
    wall: float
    cpu: Mapping[str, float]
    problem: str | None = None
    scale: float = 1.0
    failure: str = ""
    last_step: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu.values())

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "cpu_seconds": round(self.cpu_seconds, 2)}


@dataclass(frozen=True, slots=True)
class Spread:
    """Median with the smallest and the largest of some values."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.1f}" if self.low == self.high else f"{self.median:.1f} ({self.low:.1f}-{self.high:.1f})"


def spread(values: Iterable[float]) -> Spread:
    """Raises ValueError without values."""
    listed = sorted(values)
    if not listed:
        raise ValueError("spread: no values; expected at least one")
    return Spread(statistics.median(listed), listed[0], listed[-1])


def ratio(samples: Sequence[Sample], peer: str, other: str, value: str) -> float | None:
    """Median over the rounds of `peer`'s `value` ("wall" or "cpu_seconds") over `other`'s in the same round."""
    by_round: dict[int, dict[str, float]] = {}
    for each in samples:
        by_round.setdefault(each.round, {})[each.peer] = getattr(each, value)
    shares = [pair[peer] / pair[other] for pair in by_round.values() if peer in pair and pair.get(other)]
    return statistics.median(shares) if shares else None


def table_of(samples: Sequence[Sample]) -> list[str]:
    """A Markdown table of one workload's samples: a row per peer, ratios of the first peer to it."""
    ours = samples[0].peer
    head = ["peer", "runs", "wall s", "CPU s", f"{ours}/it wall", f"{ours}/it CPU", "output"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for peer in dict.fromkeys(each.peer for each in samples):
        own = [each for each in samples if each.peer == peer]
        wall, cpu = spread(each.wall for each in own), spread(each.cpu_seconds for each in own)
        shares = [ratio(samples, ours, peer, value) if peer != ours else None for value in ("wall", "cpu_seconds")]
        wrong = sum(each.problem is not None for each in own)
        cells = [peer, str(len(own)), str(wall), str(cpu), *map(_share, shares), f"{wrong} WRONG" if wrong else "right"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def rows_to_markdown(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Any rows with the same keys as a Markdown table."""
    head = list(rows[0])
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(f"{row[key]}" for key in head) + " |" for row in rows]


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
