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
stands in the place of a * b / M, the same as long as M is much longer than a region.

Expected cost is not all that counts: people insure a night's load against its one bad day, and they want to see it move
and to repeat a step of it. So a share of the job's seconds, the budget, may be spent on edges that do not pay.

What is to be written is found by cutting. What may run as one operation begins as one. Again and again the cut is made
that saves most repeated work for what it costs, so that the cuts stand in one order:

    cut              1st       2nd       3rd    ...
    costs            c1        c2        c3
    saves            g1 / M    g2 / M    g3 / M

As many are taken, from the first on, as make the sum of savings less costs largest; and more as long as all costs
together are within the budget. Neither M, nor a factor of all costs or of all seconds, nor the budget changes the
order. So the answer is monotone: what is written at one of them is written at every shorter M, every lower cost, every
longer work and every larger budget.

Of a region that always ran inside an operation it may be unknown what it would write, and what it may be at most would
keep it inside forever. So it is tried, one cut a day: the first one in that order, if all of them were small. Which one
that is depends on nothing that leaves the order as it is, so the answer stays monotone.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from math import inf

from airflow_abs.core.durability.prediction import ROWS_OVER_FILES, Prediction
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.core.wording import format_bytes

_UNTRIED_SHARE = 0.1
"""What is tried counts as so much of what it may be, once: it is known from then on."""


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
        budget: share of the job's predicted seconds that edges may cost together although that does not pay.
    """

    mean_seconds: float
    slots: int
    local_bytes: int
    demands: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Hashable] = field(default_factory=dict)
    costs: ExchangeCosts = ExchangeCosts()
    budget: float = 0.0


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

    A region whose readers are in different operations is durable: it is computed once. An operation has one last
    region, the only one that others read, so none ever waits for what rests on it.

    Args:
        graph: as declared.
        predictions: by name of the region, of every region.
        conditions: see there.
    """
    operations = _Operations(graph, predictions, conditions, _find_tried(graph, predictions, conditions))
    needed, cuts = list(operations.cut_too_large()), list(operations.cut_all())
    paying, insured = _choose(cuts, conditions, operations.budget_seconds)
    operations.restore(needed, paying, insured, cuts[len(paying) + len(insured) :])
    return tuple(
        operations.decide(edge, graph.region_of(edge.producer).name)
        for edge in graph.edges
        if graph.crosses_regions(edge)
    )


@dataclass(frozen=True, slots=True)
class _Cut:
    """The operation `into` cut behind its region `name`.

    `parts` are its regions by the operations that they are in then. More than two: what two of them read is durable,
    too. `saved` is the work that failures repeat less, in seconds squared: divided by M, in seconds.
    """

    name: str
    into: str
    parts: Mapping[str, list[str]]
    cost_seconds: float
    saved: float

    @property
    def merit(self) -> float:
        """Highest first."""
        return self.saved / self.cost_seconds if self.cost_seconds else inf


def _find_tried(graph: JobGraph, predictions: Mapping[str, Prediction], conditions: Conditions) -> Collection[str]:
    """The untried regions of the first cut that has any."""
    untried = {name for name, predicted in predictions.items() if predicted.is_untried}
    if not untried:
        return ()
    operations = _Operations(graph, predictions, conditions, untried)
    cuts = chain(operations.cut_too_large(), operations.cut_all())
    return next((found for cut in cuts if (found := untried & cut.parts.keys() - {cut.into})), ())


def _choose(
    cuts: Sequence[_Cut], conditions: Conditions, budget_seconds: float
) -> tuple[Sequence[_Cut], Sequence[_Cut]]:
    """The cuts that pay, from the first on, and those after them that the budget pays for."""
    gains = [0.0, *accumulate(cut.saved / conditions.mean_seconds - cut.cost_seconds for cut in cuts)]
    paying = gains.index(max(gains))
    within = sum(cost <= budget_seconds for cost in accumulate(cut.cost_seconds for cut in cuts))
    return cuts[:paying], cuts[paying:within]


class _Operations:
    """What runs as one. Each operation goes by the name of its last region; those of `tried` count as small."""

    def __init__(
        self,
        graph: JobGraph,
        predictions: Mapping[str, Prediction],
        conditions: Conditions,
        tried: Collection[str],
    ) -> None:
        self.conditions = conditions
        self.tried = tried
        self.predictions = predictions
        self.names = [region.name for region in graph.regions]
        region_of = {vertex: region.name for region in graph.regions for vertex in region.vertices}
        self.readers: dict[str, dict[str, None]] = {name: {} for name in self.names}
        self.asked: set[str] = set()
        for edge in graph.edges:
            producer, consumer = region_of[edge.producer], region_of[edge.consumer]
            if producer != consumer:
                self.readers[producer][consumer] = None
                if edge.durable is False:
                    self.asked.add(producer)
        self.fixed = {region.name for region in graph.regions if region.parallelism is not None}
        self.costs = {name: self._cost_seconds(name) for name in self.names}
        self.budget_seconds = conditions.budget * sum(predictions[name].seconds for name in self.names)
        self.apart = {name for name in self.names if any(self._why_not_into(name, of) for of in self.readers[name])}
        self.apart |= conditions.demands.keys()
        self.too_large: dict[str, str] = {}
        self.insured: set[str] = set()
        self.uninsured: set[str] = set()
        self.left_seconds = self.budget_seconds
        self.regions = self._group(self.names, self.apart)

    def cut_too_large(self) -> Iterator[_Cut]:
        """Cut what one operation could not hold, and say why."""
        for operation in [name for name in self.regions if self._held(name) > self.conditions.local_bytes]:
            pending = [operation]
            while pending:
                into = pending.pop()
                if self._held(into) <= self.conditions.local_bytes:
                    continue
                cut = max(self._cuts(into, even=self.asked), key=lambda cut: (cut.name not in self.asked, cut.merit))
                self.too_large[cut.name] = (
                    f"one operation with {into} would hold {format_bytes(self._held(into))} in memory and on local "
                    f"disks, above local_bytes {format_bytes(self.conditions.local_bytes)}"
                )
                self.regions |= cut.parts
                pending += cut.parts
                yield cut

    def cut_all(self) -> Iterator[_Cut]:
        """Cut what saves most for what it costs, until nothing is left to cut."""
        best = {name: cut for name in self.regions if (cut := self._best_cut(name))}
        while best:
            cut = max(best.values(), key=lambda cut: cut.merit)  # the first of equals: same graph, same answer
            del best[cut.into]
            self.regions |= cut.parts
            best |= {name: found for name in cut.parts if (found := self._best_cut(name))}
            yield cut

    def restore(
        self, needed: Sequence[_Cut], paying: Sequence[_Cut], insured: Sequence[_Cut], others: Sequence[_Cut]
    ) -> None:
        """The operations without the `others`."""
        self.regions = self._group(self.names, self.apart | {cut.name for cut in (*needed, *paying, *insured)})
        self.insured = {name for cut in insured for name in cut.parts.keys() - {cut.into}}
        self.uninsured = {name for cut in others for name in cut.parts.keys() - {cut.into}}
        self.left_seconds = max(0.0, self.budget_seconds - sum(cut.cost_seconds for cut in (*paying, *insured)))

    def decide(self, edge: JobEdge, region: str) -> EdgeDurability:
        """The answer for an edge that `region` writes."""
        if region not in self.regions:
            return EdgeDurability(edge, False, self._explain_inside(region))
        return EdgeDurability(edge, True, f"durable: {self._why_apart(region) or self._explain_durable(region)}")

    def _home(self, name: str) -> str:
        return next(operation for operation, regions in self.regions.items() if name in regions)

    def _group(self, names: Sequence[str], apart: Collection[str]) -> dict[str, list[str]]:
        """The operations that these regions (of the job or of one operation, producers first) make, if those of `apart`
        are durable."""
        home: dict[str, str] = {}
        for name in reversed(names):
            homes = {home[reader] for reader in self.readers[name] if reader in home}
            home[name] = name if name in apart or len(homes) != 1 else homes.pop()
        operations: dict[str, list[str]] = {}
        for name in names:
            operations.setdefault(home[name], []).append(name)
        return operations

    def _best_cut(self, operation: str) -> _Cut | None:
        return max(self._cuts(operation), key=lambda cut: cut.merit, default=None)

    def _cuts(self, operation: str, even: Collection[str] = ()) -> Iterator[_Cut]:
        """All but those behind what the author keeps inside, unless it is one of `even`."""
        regions = self.regions[operation]
        for name in regions[:-1]:
            parts = self._group(regions, {name})
            durable = parts.keys() - {operation}
            if not (durable & self.asked) - set(even):
                seconds = [self._seconds(part) for part in parts.values()]
                saved = (sum(seconds) ** 2 - sum(each**2 for each in seconds)) / 2
                yield _Cut(name, operation, parts, sum(self.costs[each] for each in sorted(durable)), max(0.0, saved))

    def _seconds(self, regions: Sequence[str]) -> float:
        return sum(self.predictions[name].seconds for name in regions)

    def _held(self, operation: str) -> int:
        inner = self.regions[operation][:-1]
        return sum(self.predictions[name].output_bytes for name in inner) * ROWS_OVER_FILES

    def _cost_seconds(self, name: str) -> float:
        return self.conditions.costs.seconds(self._bytes_written(name), self.conditions.slots, self._rows_written(name))

    def _bytes_written(self, name: str) -> int:
        share = _UNTRIED_SHARE if name in self.tried else 1
        return round(self.predictions[name].output_bytes * share)

    def _rows_written(self, name: str) -> int:
        return (self.predictions[name].output_rows or 0) * self.predictions[name].results

    def _why_apart(self, name: str) -> str | None:
        """What keeps a region from running in its readers' operation, whatever that would save."""
        if not self.readers[name]:
            return "no vertex reads it"
        if demand := self.conditions.demands.get(name):
            return demand
        homes = sorted({self._home(reader) for reader in self.readers[name]})
        if len(homes) > 1:
            return f"{' and '.join(homes)} read it, and run apart"
        return self._why_not_into(name, homes[0]) or self.too_large.get(name)

    def _why_not_into(self, name: str, into: str) -> str | None:
        if fixed := next((each for each in (name, into) if each in self.fixed), None):
            return f"{fixed} has a parallelism of its own"
        settings = self.conditions.settings
        if settings.get(name) != settings.get(into):
            return (
                f"the Airflow arguments or the spark_conf of {name} differ from those of {into}, or apply to one of "
                "them only"
            )
        return None

    def _explain_inside(self, name: str) -> str:
        home = self._home(name)
        redone = self._seconds(self._group(self.regions[home], {name})[name])
        asked = "durable=False; " if name in self.asked else ""
        return (
            f"kept inside Spark: {asked}writing {self._written(name)} would cost {_format_seconds(self.costs[name])}"
            f"{self._why_not_insured(name)}; a failure here redoes at most {_format_seconds(redone)}, expected "
            f"{_format_seconds(self._expect(redone, self._seconds(self.regions[home]) - redone))} a run"
        )

    def _why_not_insured(self, name: str) -> str:
        """What is left of the budget; its edges are taken in the order of what they save for their cost."""
        if not self.budget_seconds or name not in self.uninsured:
            return ""
        budget = f"the {_format_seconds(self.budget_seconds)} that insurance may cost"
        left = (
            budget
            if self.left_seconds == self.budget_seconds
            else f"the {_format_seconds(self.left_seconds)} left of {budget}"
        )
        if self.costs[name] > self.left_seconds:
            return f", more than {left}"
        return f" (an edge that saves more for its cost comes first, and costs more than {left})"

    def _explain_durable(self, name: str) -> str:
        redone = self._seconds(self.regions[name])
        expected = self._expect(redone, self._seconds(self.regions[self._home(next(iter(self.readers[name])))]))
        cost = f"writing {self._written(name)} costs {_format_seconds(self.costs[name])}"
        if name in self.insured:
            return (
                f"{cost} of the {_format_seconds(self.budget_seconds)} that insurance may cost; a failure after it "
                f"redoes up to {_format_seconds(redone)} less"
            )
        together = "" if expected > self.costs[name] else " and pays together with the other edges"
        return (
            f"{cost}{together}; inside Spark a failure would redo up to {_format_seconds(redone)}, expected "
            f"{_format_seconds(expected)} a run"
        )

    def _expect(self, redone: float, reader: float) -> float:
        return redone * reader / self.conditions.mean_seconds

    def _written(self, name: str) -> str:
        size, rows = self._bytes_written(name), self._rows_written(name)
        of_rows = f" in {rows:,} rows" if self.conditions.costs.is_by_rows(size, rows) else ""
        return f"{format_bytes(size)}{of_rows}{self._how_known(name)}"

    def _how_known(self, name: str) -> str:
        predicted = self.predictions[name]
        if predicted.is_counted:
            return " (by the rows that Spark counted: it was never written)"
        if not predicted.is_untried:
            return ""
        return " (a guess: it was never written)" if name in self.tried else " (at most: it was never written)"


def _format_seconds(seconds: float) -> str:
    """`less than 0.1 s`, `0.1 s`, `14 s`, `1,200 s`."""
    if seconds < 0.05:
        return "less than 0.1 s" if seconds else "0 s"
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
