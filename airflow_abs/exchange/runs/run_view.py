"""A run as the exchange tells it: what was planned, decided and committed, without Airflow and without Spark.

One neutral value for everything that shows a run: `airflow-abs explain` and `runs`, the page in Airflow, the demo's
tables. Reading changes nothing, and what is not there yet is None: a run can be looked at while it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from airflow_abs.core.decide.hot_subpartitions import HotPart
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.core.durability.prediction import Prediction
from airflow_abs.core.durability.row_order import RowOrder
from airflow_abs.core.expect.expectations import Expectation
from airflow_abs.core.expect.verdicts import Verdict
from airflow_abs.core.hot_key import HotKey
from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.decisions import StoredDecision
from airflow_abs.exchange.records.manifest import InnerResult, Manifest, PassedRows
from airflow_abs.exchange.records.plan import JobPlan, PlannedEdge, PlannedInput, PlannedRegion
from airflow_abs.exchange.sources.planned_source import vertex_of


@dataclass(frozen=True, slots=True)
class EdgeView:
    """One input of a region. `kind` is its partitioning, or ``source`` (then `path` is what it reads).

    `producer` and `vertex` are the region and the vertex that it comes from, `consumer` the vertex that reads it,
    `keys` the columns of a hash edge; `bytes` None until the region is decided, `rows` None unless the whole producer
    has committed. `how` is all of it for people: ``broadcast``, ``hash(customer_id), inferred, 3 of 31 columns``;
    `reason` why it is written, if that was decided on the day; `order` whether the rows of what is read by range are
    sorted, and why; `hot_keys` whether a hot key of them is spread over several subtasks, or why not.
    """

    name: str
    kind: str
    producer: str | None
    vertex: str | None
    path: str | None
    bytes: int | None
    keys: tuple[str, ...] = ()
    how: str = ""
    inferred: bool = False
    consumer: str = ""
    rows: int | None = None
    reason: str | None = None
    order: str | None = None
    hot_keys: str | None = None


@dataclass(frozen=True, slots=True)
class SubtaskView:
    """One subtask: what it was given, and what its last attempt left (None until it has committed).

    `files` are those of rescale inputs. `bytes` are those of its own subpartitions, splits and files, broadcast inputs
    not counted. `rows` are those of the region's last vertex, `bytes_out` the sizes of all files. `began` is when it
    began on Spark, in epoch seconds, None if unknown. `is_stale`: what it left is of an earlier decision.
    `combined` are, by vertex that wrote partial results, the rows and the results; `sampled`, by vertex that might have
    written them, the rows and the groups of a sample.
    """

    index: int
    subpartitions: IndexRange | None
    splits: int
    bytes: int
    attempt: int | None = None
    rows: int | None = None
    bytes_out: int | None = None
    seconds: float | None = None
    waited: float | None = None
    began: float | None = None
    is_stale: bool = False
    hot_part: HotPart | None = None
    files: int = 0
    combined: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    sampled: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_committed(self) -> bool:
        return self.attempt is not None and not self.is_stale

    @property
    def reads(self) -> str:
        """``[0, 43)`` or ``3 files``, or both; ``[5, 6) of [0, 3)`` is a hot subpartition of three producers,
        ``[5, 6) of share 1 of 4 of producer 0`` a share of one's."""
        if self.hot_part is not None:
            return f"{self.subpartitions} of {self.hot_part}"
        if self.subpartitions is not None and not self.files:
            return str(self.subpartitions)
        files = [format_count(self.splits + self.files, "file")] if self.splits + self.files else []
        return " and ".join([*([str(self.subpartitions)] if self.subpartitions else []), *files]) or "everything"


@dataclass(frozen=True)
class RegionView:
    """One region in the order of the plan; `stored` is None until it is decided.

    `bytes_by_subpartition` is the histogram that the ranges cut; before the decision what is written so far; () if it
    reads no range or nothing is known.
    `problems` are messages about files that cannot be read. `strange` says of its sources what is unlike earlier days.
    `verdicts` are what came of its expectations, as far as subtasks have committed. `planned_edges` says of the edges
    to its vertices why they are written, or kept inside Spark, `predicted` is what `plan` said of it. `declared` are
    the declared regions that run as this one, which is the last of them. `rows_read` are those of its inputs by result,
    where the whole producer has committed. `hot_key` is the one behind its hottest subpartition, if that was seen.
    `orders` are of the results that it reads by range, unless an older version planned them.
    """

    planned: PlannedRegion
    stored: StoredDecision | None
    subtasks: tuple[SubtaskView, ...]
    manifests: Mapping[int, Manifest]
    bytes_by_subpartition: tuple[int, ...]
    problems: tuple[str, ...]
    strange: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    planned_edges: tuple[PlannedEdge, ...] = ()
    predicted: Prediction | None = None
    declared: tuple[str, ...] = ()
    rows_read: Mapping[str, int] = field(default_factory=dict)
    hot_key: HotKey | None = None
    orders: Mapping[str, RowOrder] = field(default_factory=dict)

    @property
    def hot_key_advice(self) -> str | None:
        """What to do about it."""
        if self.hot_key is None or self.decision is None:
            return None
        shared = self.hot_key.subpartition in self.decision.hot_subpartitions
        return self.hot_key.advise(shared=shared, kept_whole=self.planned.kept_whole(self.hot_key.input))

    @property
    def expectations(self) -> tuple[tuple[str, Expectation], ...]:
        """All that is expected, with the vertex."""
        return tuple((step.vertex, each) for step in self.planned.steps for each in step.expectations)

    @property
    def name(self) -> str:
        return self.planned.name

    @property
    def title(self) -> str:
        """All its vertices: they run together."""
        return " + ".join(self.planned.vertices)

    @property
    def decision(self) -> RegionDecision | None:
        return self.stored.decision if self.stored else None

    @property
    def committed(self) -> int:
        """Subtasks that have written everything."""
        return sum(subtask.is_committed for subtask in self.subtasks)

    @property
    def bytes_in(self) -> int | None:
        """All inputs, each once."""
        return sum(entry.bytes for entry in self.decision.inputs) if self.decision else None

    @property
    def divided_bytes(self) -> int | None:
        """All inputs but those that every subtask reads whole: what the decision divides."""
        return (
            sum(entry.bytes for entry in self.decision.inputs) - self.decision.broadcast_bytes
            if self.decision
            else None
        )

    @property
    def rows(self) -> int | None:
        """Rows of the last vertex; None unless all subtasks have committed."""
        return self._total(lambda subtask: subtask.rows)

    @property
    def bytes_out(self) -> int | None:
        return self._total(lambda subtask: subtask.bytes_out)

    @property
    def seconds(self) -> float | None:
        """Of the longest subtask so far."""
        return max((subtask.seconds for subtask in self.subtasks if subtask.seconds is not None), default=None)

    @property
    def took(self) -> float | None:
        """Seconds from the first start of a subtask that has committed to the end of the last one; None if there is
        none, or if one of them has no known start."""
        committed = [subtask for subtask in self.subtasks if subtask.is_committed]
        spans = [(each.waited, each.waited + (each.seconds or 0.0)) for each in committed if each.waited is not None]
        if not spans or len(spans) < len(committed):
            return None
        return round(max(end for _, end in spans) - min(start for start, _ in spans), 3)

    @property
    def inside(self) -> tuple[PlannedEdge, ...]:
        """Edges between its vertices that `plan` decided to write or to keep inside Spark."""
        return tuple(edge for edge in self.planned_edges if edge.producer in self.planned.vertices)

    def written_inside(self, edge: PlannedEdge) -> InnerResult | None:
        """What the producer of an edge inside the region wrote; None if it wrote nothing, or has not yet."""
        written = [each.by_vertex.get(edge.producer) for each in self._operation_of(edge)]
        known = [each for each in written if each is not None]
        if not known or len(known) < len(written):
            return None
        return InnerResult(sum(each.rows for each in known), sum(each.bytes for each in known))

    def passed_inside(self, edge: PlannedEdge) -> PassedRows | None:
        """What Spark counted of an edge that stayed inside its one operation; None if nothing, or not yet."""
        found = [each.passed.get(edge.producer) for each in self._operation_of(edge)]
        return found[0] if len(found) == 1 else None

    @property
    def spent(self) -> Mapping[str, float]:
        """Seconds that Spark worked for each of its vertices, if they ran as its one operation, which is over."""
        return self.manifests[0].spent if self.committed == len(self.subtasks) == 1 else {}

    def _operation_of(self, edge: PlannedEdge) -> list[Manifest]:
        """What the subtasks left in which the edge is inside; none until all have committed."""
        if edge.producer not in self.planned.vertices or self.committed < len(self.subtasks):
            return []
        return [self.manifests[each.index] for each in self.subtasks]

    def describe_edge(self, edge: PlannedEdge) -> str:
        """With its reason, and with what was written all the same (after a failure, or for a task that is shared), or
        what Spark counted."""
        return "; ".join(filter(None, [str(edge), self.describe_rows(edge)]))

    def describe_rows(self, edge: PlannedEdge) -> str:
        """Of an edge inside the region: what went over it, or why that is not known; "" before it is."""
        written, passed = self.written_inside(edge), self.passed_inside(edge)
        if written is not None:
            return f"wrote {format_bytes(written.bytes)} in {format_count(written.rows, 'row')}"
        if passed is not None:
            return str(passed)
        why_not = next((each.uncounted for each in self._operation_of(edge) if each.uncounted), "")
        return f"rows not counted: {why_not}" if why_not else ""

    @property
    def attempts(self) -> int:
        """The highest number of an attempt that committed; 0 if none has."""
        return max((subtask.attempt or 0 for subtask in self.subtasks), default=0)

    @cached_property
    def edges(self) -> tuple[EdgeView, ...]:
        """Blocking inputs and sources, in the order of the plan."""
        known = {entry.name: entry.bytes for entry in self.decision.inputs} if self.decision else {}
        reasons = {f"{edge.consumer}.{edge.input_name}": edge.reason for edge in self.planned_edges}
        inputs = [
            EdgeView(
                name=entry.name,
                kind=entry.partitioning.value,
                producer=entry.region,
                vertex=entry.result.rpartition(".")[0],
                path=None,
                bytes=known.get(entry.name),
                keys=entry.keys,
                how=", ".join(filter(None, [entry.how, entry.written])),
                inferred=entry.inferred,
                consumer=vertex_of(entry.name),
                rows=self.rows_read.get(entry.result),
                reason=reasons.get(entry.name),
                order=self._describe_order(entry),
                hot_keys=self._describe_hot_keys(entry),
            )
            for entry in self.planned.inputs
        ]
        sources = [
            EdgeView(
                name=source.name,
                kind="source",
                producer=None,
                vertex=None,
                path=source.label,
                bytes=known.get(source.name),
                how="source",
                consumer=vertex_of(source.name),
            )
            for source in self.planned.sources
        ]
        return (*inputs, *sources)

    def _describe_hot_keys(self, entry: PlannedInput) -> str | None:
        if entry.name in self.planned.splittable:
            return "may be spread over several subtasks"
        return f"stay in one subtask: {entry.kept_whole}" if entry.kept_whole else None

    def _describe_order(self, entry: PlannedInput) -> str | None:
        order = self.orders.get(entry.result) if entry.is_ranged else None
        return None if order is None else order.describe(self.decision.parallelism if self.decision else None)

    def _total(self, number: Callable[[SubtaskView], int | None]) -> int | None:
        if self.decision is None or self.committed < self.decision.parallelism:
            return None
        return sum(number(subtask) or 0 for subtask in self.subtasks)


@dataclass(frozen=True, slots=True)
class RunView:
    """One job of one DAG run."""

    folder: JobFolder
    plan: JobPlan
    regions: tuple[RegionView, ...]

    def region(self, name: str) -> RegionView:
        return next(region for region in self.regions if region.name == name)

    @property
    def decided(self) -> int:
        return sum(region.decision is not None for region in self.regions)
