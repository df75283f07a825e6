"""Which edges are written on the day, and which stay inside Spark.

What is written can be read again: a failure after it redoes nothing of what came before. Writing costs every day, a
failure only when it comes. Two operations of `a` and `b` seconds lose, on the average of failures that come every `M`
seconds of work, a^2 / 2M and b^2 / 2M; as one operation (a + b)^2 / 2M. So keeping the edge between them inside Spark
loses a * b / M more, and saves C seconds of writing:

    written    ├──── a ────┼─ C ─┼──── b ────┤     pays if a * b / M > C
    inside     ├──── a ────┼──── b ────┤

Over equal steps that is one durable edge in about sqrt(2 * C * M) seconds of work, which is Young's interval (J. W.
Young, A first order approximation to the optimum checkpoint interval, 1974). Daly (A higher order estimate of the
optimum checkpoint interval for restart dumps, 2006) lets a restart fail, too: then M * (e^(a/M) - 1) * (e^(b/M) - 1)
stands in the place of a * b / M, the same as long as M is much longer than a region. The first order is taken, because
with it the answer is monotone: what is written at one M or C is written at every shorter M and every lower C.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import inf

from airflow_abs.core.durability.prediction import Prediction
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.core.wording import format_bytes

_ROWS_OVER_FILES = 4
"""Rows in memory and in Spark's shuffle files are about so many times larger than Parquet (docs/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class ExchangeCosts:
    """What a durable edge costs more than one inside Spark; docs/how-it-decides.md says where the numbers come from.

    Args:
        hop_seconds: of Airflow, from the end of a region to the first subtask of the next.
        slot_seconds_per_byte: of one slot, to write and to read a byte of Parquet, less Spark's own shuffle.
        slot_seconds_per_row: the same for a row, however narrow it is.
    """

    hop_seconds: float = 2.5
    slot_seconds_per_byte: float = 20 / 2**30
    slot_seconds_per_row: float = 0.4e-6

    def seconds(self, size: int, slots: int, rows: int = 0) -> float:
        """What costs more counts, the bytes or the rows."""
        return self.hop_seconds + max(size * self.slot_seconds_per_byte, rows * self.slot_seconds_per_row) / slots

    def is_by_rows(self, size: int, rows: int) -> bool:
        return rows * self.slot_seconds_per_row > size * self.slot_seconds_per_byte


@dataclass(frozen=True, slots=True)
class Conditions:
    """What else the rule goes by.

    Args:
        mean_seconds: of work between two failures.
        slots: Spark tasks that run at once.
        local_bytes: that one operation may hold in memory and on local disks of the cluster.
        demands: why what a region wrote must be durable, by region; see `demands.py`.
        settings: what a region's task and session run with; regions of unequal settings stay apart.
        costs: of a durable edge.
    """

    mean_seconds: float
    slots: int
    local_bytes: int
    demands: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Hashable] = field(default_factory=dict)
    costs: ExchangeCosts = ExchangeCosts()


@dataclass(frozen=True, slots=True)
class EdgeDurability:
    """The answer for one edge between regions."""

    edge: JobEdge
    durable: bool
    reason: str


def decide_durability(
    graph: JobGraph, predictions: Mapping[str, Prediction], conditions: Conditions
) -> tuple[EdgeDurability, ...]:
    """Decide every edge between regions, in the order of the graph's edges.

    All begin as durable. Then one region after the other joins the operation that reads it, first the one that loses
    least for what it saves, as long as that pays. So in the end no further join would pay, and a longer time between
    failures, or writes that are all costlier, only make this go on for longer. A region whose readers are in different
    operations stays durable: it is computed once. An operation has one last region, the only one that others read, so
    none ever waits for what rests on it.

    Args:
        graph: as declared.
        predictions: by name of the region, of every region.
        conditions: see there.
    """
    joining = _Joining(graph, predictions, conditions)
    while joining.join_next():
        pass
    return tuple(
        joining.decide(edge, graph.region_of(edge.producer).name) for edge in graph.edges if graph.crosses_regions(edge)
    )


@dataclass(frozen=True, slots=True)
class _Join:
    """The operation `name` becoming a part of the one that reads it, `into`, and what that loses and saves.

    `written_rows` is 0 unless it is the rows that make the cost.
    """

    name: str
    into: str
    redone_seconds: float
    reader_seconds: float
    mean_seconds: float
    written_bytes: int
    written_rows: int
    saved_seconds: float
    asked: bool

    @property
    def expected_seconds(self) -> float:
        return self.redone_seconds * self.reader_seconds / self.mean_seconds

    @property
    def pays(self) -> bool:
        return self.asked or self.expected_seconds <= self.saved_seconds

    @property
    def merit(self) -> float:
        """Lowest first. Neither the time between failures nor a factor of all costs changes the order."""
        if self.asked:
            return -1.0
        return self.redone_seconds * self.reader_seconds / self.saved_seconds if self.saved_seconds else inf

    def describe(self) -> str:
        of_rows = f" in {self.written_rows:,} rows" if self.written_rows else ""
        written, saved = f"{format_bytes(self.written_bytes)}{of_rows}", _format_seconds(self.saved_seconds)
        redone, expected = _format_seconds(self.redone_seconds), _format_seconds(self.expected_seconds)
        asked = "durable=False; " if self.asked else ""
        if self.pays:
            return (
                f"kept inside Spark: {asked}writing {written} would cost {saved}; a failure here redoes at most "
                f"{redone}, expected {expected} a run"
            )
        return (
            f"durable: writing {written} costs {saved}; inside Spark a failure would redo up to {redone}, "
            f"expected {expected} a run"
        )


class _Joining:
    """The operations so far. Each goes by the name of its last region, `home` says which one a region is in."""

    def __init__(self, graph: JobGraph, predictions: Mapping[str, Prediction], conditions: Conditions) -> None:
        self.conditions = conditions
        self.predictions = predictions
        region_of = {vertex: region.name for region in graph.regions for vertex in region.vertices}
        self.outputs: dict[str, list[JobEdge]] = {region.name: [] for region in graph.regions}
        self.readers: dict[str, dict[str, None]] = {region.name: {} for region in graph.regions}
        for edge in graph.edges:
            producer, consumer = region_of[edge.producer], region_of[edge.consumer]
            if producer != consumer:
                self.outputs[producer].append(edge)
                self.readers[producer][consumer] = None
        self.fixed = {region.name: region.parallelism is not None for region in graph.regions}
        self.home = {name: name for name in self.outputs}
        self.seconds = {name: predictions[name].seconds for name in self.outputs}
        self.inner_bytes = dict.fromkeys(self.outputs, 0)
        self.reasons: dict[str, str] = {}

    def join_next(self) -> bool:
        """Join what loses least for what it saves; False if that does not pay, or nothing may be joined."""
        joins = [self._join(name) for name in self.seconds if self._why_apart(name) is None]
        best = min(joins, key=lambda join: join.merit, default=None)  # the first of equals: same graph, same answer
        if best is None or not best.pays:
            return False
        self.reasons[best.name] = best.describe()
        self.inner_bytes[best.into] += self.inner_bytes.pop(best.name) + best.written_bytes
        self.seconds[best.into] += self.seconds.pop(best.name)
        self.home = {name: best.into if home == best.name else home for name, home in self.home.items()}
        return True

    def decide(self, edge: JobEdge, region: str) -> EdgeDurability:
        """The answer for an edge that `region` writes, once nothing more is joined."""
        if region in self.reasons:
            return EdgeDurability(edge, False, self.reasons[region])
        apart = self._why_apart(region)
        return EdgeDurability(edge, True, f"durable: {apart}" if apart else self._join(region).describe())

    def _why_apart(self, name: str) -> str | None:
        """What keeps an operation from joining its readers', whatever that would save."""
        homes = sorted({self.home[reader] for reader in self.readers[name]})
        if not homes:
            return "nobody reads it"
        if demand := self.conditions.demands.get(name):
            return demand
        if len(homes) > 1:
            return f"it is read by {' and '.join(homes)}, which run apart"
        return self._why_not_into(name, homes[0])

    def _why_not_into(self, name: str, into: str) -> str | None:
        if fixed := next((each for each in (name, into) if self.fixed[each]), None):
            return f"{fixed} has a parallelism of its own"
        settings = self.conditions.settings
        if settings.get(name) != settings.get(into):
            return (
                f"the Airflow arguments or the spark_conf of {name} are not those of {into}, or for one of them alone"
            )
        held = (
            self.inner_bytes[name] + self.predictions[name].output_bytes + self.inner_bytes[into]
        ) * _ROWS_OVER_FILES
        if held > self.conditions.local_bytes:
            return (
                f"one operation with {into} would hold {format_bytes(held)} in memory and on local disks, above "
                f"local_bytes {format_bytes(self.conditions.local_bytes)}"
            )
        return None

    def _join(self, name: str) -> _Join:
        into = self.home[next(iter(self.readers[name]))]
        costs, predicted = self.conditions.costs, self.predictions[name]
        written, rows = predicted.output_bytes, (predicted.output_rows or 0) * predicted.results
        return _Join(
            name=name,
            into=into,
            redone_seconds=self.seconds[name],
            reader_seconds=self.seconds[into],
            mean_seconds=self.conditions.mean_seconds,
            written_bytes=written,
            written_rows=rows if costs.is_by_rows(written, rows) else 0,
            saved_seconds=costs.seconds(written, self.conditions.slots, rows),
            asked=any(edge.durable is False for edge in self.outputs[name]),
        )


def _format_seconds(seconds: float) -> str:
    """`less than 0.1 s`, `0.1 s`, `14 s`, `1,200 s`."""
    if seconds < 0.05:
        return "less than 0.1 s" if seconds else "0 s"
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
