"""Which vertices of an operation Spark is working on: its stages, in the order in which its plan says they come.

The progress that Spark tells over Connect counts tasks by stage and names nothing. So the operation is explained a
second time with a marker around the plan of each vertex; between markers and exchanges stands what a stage does for
which vertex. The marked plan is explained and never executed: a marker in the executed plan would stop filters that
Spark pushes into sources, and its generated code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.execute import StageProgress
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.proof.explained import Operator, UnreadablePlanError, read_plan
from airflow_abs.spark.proof.operators import Rule, rule_of
from airflow_abs.spark.relations import Relation, sql_expression
from airflow_abs.spark.template import messages_of, wrap_inlined

_PATHS_LISTED_AT_ONCE = 32
"""Spark lists more paths of one read with a job of its own (`parallelPartitionDiscovery.threshold`)."""
MARKER = "CollectMetrics"
"""The operator around the plan of each vertex, in an explained plan alone."""
_FOLLOWING = frozenset(
    {"Project", "Filter", "Sort", "Coalesce", "ColumnarToRow", "RowToColumnar", "AdaptiveSparkPlan", "AQEShuffleRead"}
)
"""Operators that Spark puts above a marker for the sake of the next vertex, and that cost little."""
_HIDDEN_SHUFFLES = {"CollectLimit": "a limit", "CollectTail": "a limit", "TakeOrderedAndProject": "a limit"}


class UnorderedStagesError(ValueError):
    """The stages of a plan cannot be told in advance; says in a few words what of it is why."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a plan: the vertices that it works for, and how many stages that ran before Spark lists a second
    time with it."""

    vertices: frozenset[str]
    repeated: int


@dataclass(frozen=True, slots=True)
class StageOrder:
    """The stages of one operation in the order in which Spark makes them; `listings` come before, and list files."""

    stages: tuple[Stage, ...]
    listings: int = 0

    def shares(self, seen: Sequence[StageProgress]) -> dict[str, float]:
        """How much of each vertex is done, from 0 to 1: the mean over the stages that work for it.

        Args:
            seen: what Spark has told of its stages, in their order.

        Raises:
            UnorderedStagesError: these are not the stages of the plan; Spark changed it while it ran.
        """
        seen, expected = seen[self.listings :], self._expected()
        if len(seen) > len(expected) or any(
            each.tasks_done for number, each in zip(expected, seen, strict=False) if number is None
        ):
            raise UnorderedStagesError("Spark changed its plan while it ran")
        done = [0.0] * len(self.stages)
        for place, each in zip(expected, seen, strict=False):
            if place is not None and each.tasks_total:
                done[place] = min(1.0, each.tasks_done / each.tasks_total)
        vertices = sorted({vertex for stage in self.stages for vertex in stage.vertices})
        return {vertex: self._mean(vertex, done) for vertex in vertices}

    def seconds(self, ended: Mapping[int, float], start: float, end: float) -> dict[str, float]:
        """How long Spark worked for each vertex. It runs the tasks of the first stage that has any first, so all time
        counts for the first stage that is not over. The vertices of one stage share its time equally.

        Args:
            ended: when stages were over, by their place in what Spark told of them.
            start: of the operation. What lists files before its first stage works for no vertex.
            end: of the operation, and of stages that were not told to be over.
        """
        found = {vertex: 0.0 for stage in self.stages for vertex in sorted(stage.vertices)}
        now = max([start, *(ended.get(place, start) for place in range(self.listings))])
        for place, number in enumerate(self._expected(), self.listings):
            if number is not None:
                until = max(now, ended.get(place, end))
                for vertex in self.stages[number].vertices:
                    found[vertex] += (until - now) / len(self.stages[number].vertices)
                now = until
        return found

    def _expected(self) -> list[int | None]:
        """Numbers of the stages in the order in which Spark tells them; None where it tells one a second time."""
        expected: list[int | None] = []
        for number, stage in enumerate(self.stages):
            expected += [*([None] * stage.repeated), number]
        return expected

    def _mean(self, vertex: str, done: Sequence[float]) -> float:
        own = [share for stage, share in zip(self.stages, done, strict=True) if vertex in stage.vertices]
        return sum(own) / len(own)


def mark(relation: Relation) -> Relation:
    """A copy of a bound plan with a marker around each vertex that was inlined; for `order_stages`."""
    proto, numbers = protos(), count(1)

    def wrap(alias: str, inner: Relation) -> Relation:
        name = f"{alias}.{next(numbers)}"  # a vertex that is read twice has two markers, which must differ
        marked = proto.Relation()
        marked.collect_metrics.input.CopyFrom(inner)  # the constructor refuses deep plans
        marked.collect_metrics.name = name
        marked.collect_metrics.metrics.append(sql_expression("count(1)"))
        return marked

    return wrap_inlined(relation, wrap)


async def explain_marked(connection: Connection, session_id: str, bound: Relation) -> str:
    """The physical plan of a bound plan with markers, in the session in which it runs; nothing is executed.

    Raises:
        SparkOperationError: the server's own error, or it does not answer.
    """
    proto = protos()
    request = proto.AnalyzePlanRequest(
        session_id=session_id, user_context=connection.user_context(), client_type=connection.client_type
    )
    request.explain.explain_mode = proto.AnalyzePlanRequest.Explain.ExplainMode.EXPLAIN_MODE_FORMATTED
    request.explain.plan.root.CopyFrom(mark(bound))
    response = await connection.call("AnalyzePlan", request, patience=0)
    return str(response.explain.explain_string)


def count_listings(relation: Relation) -> int:
    """How many reads of a plan make Spark list their files with a job."""
    reads = (message for message in messages_of(relation) if message.DESCRIPTOR.name == "DataSource")
    return sum(len(read.paths) > _PATHS_LISTED_AT_ONCE for read in reads)


def order_stages(explained: str, vertex: str, inlined: Mapping[str, str], listings: int = 0) -> StageOrder:
    """The stages of a marked plan.

    Spark's adaptive execution starts every exchange whose inputs are there: first those that read sources, of these
    the broadcasts first, and else from left to right.

    Args:
        explained: what Spark answered to `explain("formatted")`.
        vertex: the one whose output the plan is.
        inlined: the others, by the alias around the plan of each.
        listings: see `count_listings`.

    Raises:
        UnorderedStagesError: the plan has something that runs stages of its own, or cannot be read.
    """
    try:
        plan = read_plan(explained)
    except UnreadablePlanError as error:
        raise UnorderedStagesError("Spark's plan cannot be read") from error
    if plan.subqueries:
        raise UnorderedStagesError("its plan has subqueries")
    found = _find_stages(plan.root, vertex, inlined)
    worked_for = {name for stage in found for name in stage.vertices}
    for stage in found:  # a vertex that only filters or selects shows where it does
        stage.vertices |= stage.passed_by - worked_for
    last, *others = found
    others.sort(key=lambda stage: (stage.wave, not stage.is_broadcast))
    return StageOrder(tuple(Stage(frozenset(each.vertices), each.repeated) for each in [*others, last]), listings)


@dataclass(slots=True)
class _Found:
    """A stage as it stands in the tree: `before` are the stages that it reads; `passed_by` are vertices whose only
    operators in it follow others, such as a filter."""

    is_broadcast: bool = False
    vertices: set[str] = field(default_factory=set)
    passed_by: set[str] = field(default_factory=set)
    before: list[_Found] = field(default_factory=list)

    @property
    def wave(self) -> int:
        """How many exchanges one after the other come before it."""
        return max((each.wave + 1 for each in self.before), default=0)

    @property
    def repeated(self) -> int:
        """What is broadcast is read from the driver, and all else from the stages that wrote it."""
        return sum(each.repeated + 1 for each in self.before if not each.is_broadcast)


def _find_stages(root: Operator, vertex: str, inlined: Mapping[str, str]) -> list[_Found]:
    """The last one first, the others from left to right."""
    found = [_Found()]
    waiting = [(root, vertex, found[0])]
    while waiting:
        operator, owner, stage = waiting.pop()
        if why := _why_unordered(operator):
            raise UnorderedStagesError(f"its plan has {why}")
        rule = rule_of(operator.name)
        if rule in (Rule.EXCHANGE, Rule.BROADCAST):
            stage.before.append(_Found(rule is Rule.BROADCAST))
            stage = stage.before[-1]
            found.append(stage)
        elif operator.name == MARKER:
            owner = find_owner(operator, inlined) or owner
        else:
            (stage.passed_by if operator.name in _FOLLOWING else stage.vertices).add(owner)
        waiting += [(child, owner, stage) for child in reversed(operator.children)]
    return found


def find_owner(marker: Operator, inlined: Mapping[str, str]) -> str | None:
    """The vertex whose plan is below a marker; None if it is an author's own."""
    return inlined.get(marker.detail("Arguments").partition(",")[0].rpartition(".")[0])


def _why_unordered(operator: Operator) -> str | None:
    if operator.name in _HIDDEN_SHUFFLES:
        return _HIDDEN_SHUFFLES[operator.name]
    rule = rule_of(operator.name)
    if rule is Rule.EXCHANGE and "rangepartitioning(" in operator.detail("Arguments"):
        return "a sort of all rows"
    if rule in (Rule.CACHE, Rule.RECURSION, Rule.NUMBERED):
        return operator.name
    return None
