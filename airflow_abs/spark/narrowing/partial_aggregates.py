"""Edges that carry partial aggregates in the place of rows, where the only consumer aggregates what it reads.

It is what Spark does on the map side of a shuffle: the producer groups its rows by the consumer's own keys, and the
consumer merges one row for each group and subtask. Only aggregates that merge to the very values of plain Spark take
part; all others are written as rows, with the reason in the log.

Where the consumer joins its rows before it aggregates them, see `through_joins`.

What stands between the consumer's input and its aggregate (filters, projections, functions of one row) moves to the
producer with it. That these work row by row is read from Spark's plan of them. Python functions stay where they were
written: one that fails must fail in the vertex that calls it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.spark.compile.contracts import set_conf
from airflow_abs.spark.compile.key_types import resolve_keys
from airflow_abs.spark.compile.vertices import CompiledVertex, is_materialised
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.narrowing.columns_and_rows import find_producers
from airflow_abs.spark.narrowing.halves import (
    OF_PRODUCER,
    Halves,
    ask_schema,
    check_groups,
    check_hashed,
    group,
    mark_columns,
)
from airflow_abs.spark.narrowing.merging import (
    NotMergedError,
    PartialColumns,
    call_function,
    counts_distinct,
    counts_rows,
    describe,
    find_calls,
    key_of,
    merge_call,
    replace_calls,
)
from airflow_abs.spark.narrowing.stand_ins import explain, proof_settings, stand_in
from airflow_abs.spark.narrowing.through_joins import JoinedRows, keeps_rows, merge_joined
from airflow_abs.spark.non_repeatable import find_non_repeatable
from airflow_abs.spark.proof.explained import UnreadablePlanError, read_plan
from airflow_abs.spark.proof.proof_copy import proof_copy
from airflow_abs.spark.proof.prove import set_for_proof
from airflow_abs.spark.relations import (
    Relation,
    attribute,
    column,
    no_rows,
    placeholder_relation,
    rename_columns,
    select_expressions,
    sql_expression,
)
from airflow_abs.spark.template import inline, messages_below

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

log = logging.getLogger(__name__)

_ROW_BY_ROW = frozenset(
    {"project", "filter", "with_columns", "with_columns_renamed", "drop", "subquery_alias", "to_df", "to_schema"}
    | {"fill_na", "drop_na", "replace"}
)
"""Relations that may stand between an input and its aggregate, if Spark plans them as these operators."""
_ROW_BY_ROW_OPERATORS = re.compile(r"Project|Filter|Generate|ColumnarToRow|Scan parquet.*|LocalTableScan|InputAdapter")
_MOST_WRITTEN = 0.5
"""Partial results per row above which an edge carries rows: grouping them costs the producer a shuffle. A rule of
thumb; only 1.0 (unique keys) was measured, where it does not pay."""
_MOST_WRITTEN_BEFORE_JOINS = 0.125
"""The same where the consumer joins the rows first and so does not save its own grouping. Measured: four rows in each
result cost the producer what they save the consumer (TPC-H at scale 1, lines by order)."""
_PYTHON_OPERATORS = ("BatchEvalPython", "ArrowEvalPython")


def combine_edges(
    session: Any,
    graph: JobGraph,
    compiled: Mapping[str, CompiledVertex],
    keep_all: Collection[str] = (),
    shares: Mapping[str, float] | None = None,
) -> dict[str, CompiledVertex]:
    """The vertices, with partial aggregates as outputs where their only consumer can merge them.

    A consumer that joins its rows first gets them only if an earlier run measured that it pays; until then its producer
    has `groups`, by which a sample is measured. Consumers come before their producers there: the partial aggregates
    that a consumer writes are aggregates, too.

    Args:
        session: a Connect session; asked some six times for each edge whose consumer aggregates its rows.
        graph: the day's; edges between its regions are written, and those inside that are durable.
        compiled: its vertices, as `plan_region` takes them.
        keep_all: vertices whose files have all columns and rows, whoever reads them.
        shares: partial results per row in earlier runs, by producer.
    """
    day = _Day(session, graph, dict(compiled), shares or {})
    edges = [edge for edge in graph.edges if edge.producer not in keep_all and _may_combine(graph, edge)]
    for edge in edges:
        day.combine(edge, behind_joins=False)
    order = {vertex.name: place for place, vertex in enumerate(graph.vertices)}
    # of several inputs that one aggregate joins, the one that shrinks most: the first is the only one
    rows = [edge for edge in edges if not day.compiled[edge.producer].partial]
    with set_for_proof(session) if rows else nullcontext():
        for edge in sorted(rows, key=lambda each: (-order[each.consumer], day.shares.get(each.producer, 1.0))):
            day.combine(edge, behind_joins=True)
    return day.compiled


def _may_combine(graph: JobGraph, edge: JobEdge) -> bool:
    is_written = graph.crosses_regions(edge) or edge.durable is True  # the latter between steps of one task
    return (
        is_written
        and edge.partitioning is not Partitioning.BROADCAST
        and edge.prunes is None
        and len(graph.outputs_of(edge.producer)) == 1
        and not graph.vertex(edge.producer).is_gate
    )


def _find_reader(graph: JobGraph, vertex: str) -> str:
    """The vertex whose plan has that of this one in it; this one itself if its rows are written."""
    while not is_materialised(graph, vertex):
        (edge,) = graph.outputs_of(vertex)
        vertex = edge.consumer
    return vertex


@dataclass(slots=True)
class _Day:
    """The vertices as they are compiled so far, and partial results per row in earlier runs."""

    session: Any
    graph: JobGraph
    compiled: dict[str, CompiledVertex]
    shares: Mapping[str, float]

    def combine(self, edge: JobEdge, *, behind_joins: bool) -> None:
        """Change both sides of an edge, if its consumer aggregates the rows, behind joins or not."""
        from pyspark.errors import AnalysisException

        producer = self.compiled[edge.producer]
        reader = self.compiled[_find_reader(self.graph, edge.consumer)]
        read = find_producers(self.graph, self.compiled, reader.name)
        placeholder = next((name for name, each in read.items() if each == producer.name), None)
        if placeholder is None or producer.expectations:
            return
        relation = protos().Relation()
        relation.CopyFrom(reader.relation)
        place = _find_aggregate(relation, placeholder)
        if place is None or place.is_behind_joins is not behind_joins:
            return
        try:
            if not behind_joins:
                _check_worth(self.shares.get(producer.name, 0.0), _MOST_WRITTEN)
            with set_conf(self.session, reader.name, proof_settings(reader)):
                halves, schema = self._split(edge, reader, place, placeholder)
            written = replace(
                producer,
                relation=inline(halves.written, {placeholder: producer.relation}),
                schema=schema,
                all_columns=producer.all_columns or tuple(producer.schema.names),
                partial=halves.told,
                rows_column=halves.rows_column,
                groups=halves.groups,
            )
            if behind_joins:
                # a join may drop the rows anyway, so it is never tried, only measured
                self.compiled[producer.name] = replace(producer, groups=halves.groups)
                share, told = self.shares.get(producer.name), written.describe_written()
                _check_worth(share, _MOST_WRITTEN_BEFORE_JOINS, told)
        except (NotMergedError, AnalysisException) as why:
            log.info("%s carries rows instead of partial aggregates: %s", edge, str(why).partition("\n")[0])
            return
        log.info("%s carries %s", edge, written.describe_written())
        self.compiled |= {producer.name: written, reader.name: replace(reader, relation=relation)}

    def _split(
        self, edge: JobEdge, reader: CompiledVertex, place: _Place, placeholder: str
    ) -> tuple[Halves, StructType]:
        """Both halves, and the columns that the producer writes; the aggregate becomes the second half in its place."""
        producer, aggregate = self.compiled[edge.producer], place.aggregate
        if producer.spark_conf != reader.spark_conf:
            raise NotMergedError(f"{producer.name} and {reader.name} have different settings of Spark")
        if what := find_non_repeatable(aggregate):
            raise NotMergedError(f"{what[0].function}() is not a function of its rows")
        keys = resolve_keys(producer.name, producer.schema, edge.keys) if edge.partitioning is Partitioning.HASH else ()
        kind = aggregate.WhichOneof("rel_type")
        joined: JoinedRows | None = None
        if place.is_behind_joins:
            read = find_producers(self.graph, self.compiled, reader.name)
            inputs = {name: self.compiled[each].schema for name, each in read.items()}
            joined = JoinedRows(self.session, producer.name, aggregate, placeholder, inputs)
            halves = merge_joined(joined, keys)
        else:
            rows = _Rows(self.session, producer.schema, placeholder, getattr(aggregate, kind).input)
            halves = (_merge_distinct if kind == "deduplicate" else _merge_groups)(aggregate, rows, keys)
        schema = ask_schema(self.session, halves.written)
        into = halves.merge(placeholder_relation(placeholder, schema.json()))
        into.common.CopyFrom(aggregate.common)  # columns may be looked up by its plan id
        before, after = ask_schema(self.session, aggregate), ask_schema(self.session, into)
        if before != after:
            raise NotMergedError(f"{before.simpleString()} would become {after.simpleString()}")
        if joined is not None:
            joined.check_unread(into, schema)
        aggregate.CopyFrom(into)
        return halves, schema


def _check_worth(share: float | None, most: float, told: str = "") -> None:
    if share is None:
        raise NotMergedError(f"whether {told} would pay is measured by a sample of its rows")
    if share > most:
        raise NotMergedError(f"an earlier run made {share:.2f} partial results of each row, which does not pay")


@dataclass(frozen=True, slots=True)
class _Place:
    """An aggregate, or a distinct: a message inside a consumer's relation; and whether its input is joined first."""

    aggregate: Any
    is_behind_joins: bool


def _find_aggregate(relation: Relation, placeholder: str) -> _Place | None:
    """The first that looks at more than one row of an input, or at what it is joined with. None if there is none, if
    the input is read in two places, or if a join makes up rows in the place of those of the input."""
    messages, parents, places = [relation], dict[int, int](), list[int]()
    for number, message in enumerate(messages):  # it grows
        for below in messages_below(message):
            parents[len(messages)] = number
            messages.append(below)
        if message.DESCRIPTOR.name == "SubqueryAlias" and message.alias == placeholder:
            places.append(number)
    if len(places) != 1:
        return None
    at, is_behind_joins = parents[places[0]], False
    while at in parents:
        holder, inner = messages[parents[at]], messages[at]
        at = parents[parents[at]]  # the relation whose input it is, unless something else holds it
        outer = messages[at]
        kind = outer.WhichOneof("rel_type") if outer.DESCRIPTOR.name == "Relation" else None
        if kind in ("aggregate", "deduplicate"):
            return _Place(outer, is_behind_joins)
        if kind == "join" and keeps_rows(holder, inner):
            is_behind_joins = True
        elif kind not in _ROW_BY_ROW:
            return None
    return None


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a consumer aggregates: a relation over the placeholder for a producer's rows of this schema."""

    session: Any
    schema: StructType
    placeholder: str
    relation: Relation

    def columns(self, expressions: Sequence[Any] = ()) -> list[tuple[DataType, str]]:
        """Of each expression over the rows its type, and the column of the producer's that it is unchanged, or "".

        Without expressions, of each column.

        Raises:
            NotMergedError: more than one row is looked at.
        """
        marked = mark_columns(self.schema)
        values = [column(f"value_{number}", each) for number, each in enumerate(expressions)]
        relation = select_expressions(self.relation, values) if values else self.relation
        self._check_row_by_row(relation)
        found = ask_schema(self.session, proof_copy(relation, {self.placeholder: partial(no_rows, marked.json())}, {}))
        return [(each.dataType, each.metadata.get(OF_PRODUCER, "")) for each in found]

    def _check_row_by_row(self, relation: Relation) -> None:
        try:
            plan = read_plan(
                explain(self.session, proof_copy(relation, {self.placeholder: partial(stand_in, 0, self.schema)}, {}))
            )
        except UnreadablePlanError as error:
            raise NotMergedError("Spark's plan of what comes before cannot be read") from error
        for operator in plan.operators():
            if operator.name in _PYTHON_OPERATORS:
                raise NotMergedError("a Python function comes before")
            if not _ROW_BY_ROW_OPERATORS.fullmatch(operator.name):
                raise NotMergedError(f"{operator.name} comes before, which looks at more than one row")
        if plan.subqueries:
            raise NotMergedError("a subquery comes before")


def _merge_distinct(place: Any, rows: _Rows, keys: Sequence[str]) -> Halves:
    """Distinct rows of each subtask; the consumer makes them distinct over all."""
    names, columns = ask_schema(rows.session, rows.relation).names, rows.columns()
    if not place.deduplicate.all_columns_as_keys and set(place.deduplicate.column_names) != set(names):
        raise NotMergedError("dropDuplicates() of some columns keeps any of several rows")
    check_groups(kind for kind, _ in columns)
    unchanged = {name for name, (_, own) in zip(names, columns, strict=True) if name == own}
    check_hashed(keys, unchanged)

    def merge(read: Relation) -> Relation:
        merged = protos().Relation(deduplicate=place.deduplicate)
        merged.deduplicate.input.CopyFrom(select_expressions(read, [attribute(name) for name in names]))
        return merged

    counted = PartialColumns(taken={name.lower() for name in names})
    rows_column = counted.count_rows()
    by = [column(name, attribute(name)) for name in names]
    written = group(rows.relation, by, [column(name, each) for name, each in counted.expressions.items()])
    return Halves(written, rows_column, merge, ("distinct rows",))


def _merge_groups(place: Any, rows: _Rows, keys: Sequence[str]) -> Halves:
    """Partial aggregates of each group, and of each distinct value in it if those are counted."""
    aggregate = protos().Aggregate()
    aggregate.CopyFrom(place.aggregate)
    if aggregate.group_type != protos().Aggregate.GroupType.GROUP_TYPE_GROUPBY:
        raise NotMergedError("it has several groupings at once")
    calls = [call for each in aggregate.aggregate_expressions for call in find_calls(each)]
    values = [(call, each) for call in calls if not counts_rows(call) for each in call.unresolved_function.arguments]
    grouped = [*aggregate.grouping_expressions, *(each for call, each in values if counts_distinct(call))]
    groups = {key_of(each): each for each in grouped}
    arguments = {key_of(each): each for call, each in values if not counts_distinct(call)}
    found = rows.columns([*groups.values(), *arguments.values()])
    check_groups(kind for kind, _ in found[: len(groups)])
    columns = PartialColumns()
    names = {key: columns.take(own or "group") for key, (_, own) in zip(groups, found[: len(groups)], strict=True)}
    check_hashed(keys, names.values())
    types = {key: kind for key, (kind, _) in zip(arguments, found[len(groups) :], strict=True)}

    def merged_call(call: Any) -> Any:
        own = call.unresolved_function.arguments
        if counts_distinct(call):
            columns.told.append(f"distinct {', '.join(map(describe, own))}")
            return call_function("count", *(attribute(names[key_of(each)]) for each in own), distinct=True)
        return sql_expression(merge_call(call, [types[key_of(each)] for each in own if key_of(each) in types], columns))

    merged = {key_of(call): merged_call(call) for call in calls}
    rows_column = columns.count_rows()
    written = group(
        rows.relation,
        [column(names[key], each) for key, each in groups.items()],
        [column(name, each) for name, each in columns.expressions.items()],
    )
    output = ask_schema(rows.session, place).names

    def merge(read: Relation) -> Relation:
        by = [attribute(names[key_of(each)]) for each in aggregate.grouping_expressions]
        return rename_columns(
            group(read, by, [replace_calls(each, merged) for each in aggregate.aggregate_expressions]), output
        )

    return Halves(written, rows_column, merge, tuple(dict.fromkeys(columns.told)) or ("distinct groups",))
