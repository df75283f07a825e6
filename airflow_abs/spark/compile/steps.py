"""Cut compiled regions into steps: one Spark write for each result that a region leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from airflow_abs.core.durability.row_order import RowOrder
from airflow_abs.core.expect.expectations import Expectation, unique_keys
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, Region
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.exchange.records.plan import PlannedInput, PlannedRegion, PlannedSink, PlannedStep
from airflow_abs.exchange.results.parquet_bytes import SUBPARTITION_COLUMN
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.key_types import (
    compute_common_types,
    find_hash_keys,
    is_hashable,
    resolve_keys,
    row_expression,
    row_hash,
    subpartition_expression,
)
from airflow_abs.spark.compile.table_rows import to_table
from airflow_abs.spark.compile.vertices import CompiledVertex, is_materialised
from airflow_abs.spark.observing import mark_repeats
from airflow_abs.spark.relations import (
    Relation,
    add_subpartition,
    arrange,
    placeholder_relation,
    result_write_options,
    sort_locally,
)
from airflow_abs.spark.template import PLACEHOLDER_PREFIX, find_placeholders, may_shuffle


@dataclass(frozen=True, slots=True)
class ResultSpec:
    """How one vertex's output is cut for some of its edges; equal specs share one result.

    `expression` is SQL for a row's subpartition; None keeps all rows in one.
    """

    vertex: str
    expression: str | None = None
    subpartitions: int = 1

    @property
    def name(self) -> str:
        if self.expression is None:
            return f"{self.vertex}.whole"
        return f"{self.vertex}.{sha256(self.expression.encode()).hexdigest()[:8]}"


def assign_results(session: Any, graph: JobGraph, compiled: Mapping[str, CompiledVertex]) -> dict[JobEdge, ResultSpec]:
    """The result that each edge between regions reads.

    Raises:
        JobGraphError: the keys of a consumer's hash inputs have no common type.
    """
    specs = {}
    schemas = {name: vertex.schema for name, vertex in compiled.items()}
    for edge in graph.edges:
        if graph.crosses_regions(edge):
            keys = find_hash_keys(graph, schemas, edge.consumer) if edge.keys else {}
            types = compute_common_types(session, edge.consumer, keys)
            specs[edge] = _result_spec(edge, compiled[edge.producer].schema, types, graph.region_of(edge.consumer))
    return specs


def _result_spec(edge: JobEdge, schema: Any, key_types: tuple[str, ...], consumer: Region) -> ResultSpec:
    subpartitions = consumer.subpartitions
    if edge.partitioning in (Partitioning.BROADCAST, Partitioning.RESCALE) or subpartitions == 1:
        return ResultSpec(edge.producer)
    if edge.partitioning is Partitioning.REBALANCE:
        return ResultSpec(edge.producer, row_expression(edge.producer, schema, subpartitions), subpartitions)
    keys = resolve_keys(edge.producer, schema, edge.keys)
    return ResultSpec(edge.producer, subpartition_expression(keys, key_types, schema, subpartitions), subpartitions)


def plan_region(
    graph: JobGraph,
    region: Region,
    compiled: Mapping[str, CompiledVertex],
    specs: Mapping[JobEdge, ResultSpec],
    orders: Mapping[str, RowOrder],
) -> tuple[PlannedRegion, list[bytes]]:
    """The region with its steps, and the template of each step; `orders` are by result.

    The first step of a vertex computes it; its further results and its sink are written from the first one's files,
    so a vertex is computed once however many read it.
    """
    by_file = {spec.name for edge, spec in specs.items() if edge.partitioning is Partitioning.RESCALE}
    cut = _StepCut(compiled, orders, frozenset(by_file))
    for vertex in region.vertices:
        if is_materialised(graph, vertex):
            wanted = dict.fromkeys(specs[edge] for edge in graph.outputs_of(vertex) if edge in specs)
            read_inside = any(edge not in specs for edge in graph.outputs_of(vertex))
            cut.add_vertex(compiled[vertex], list(wanted), read_inside=read_inside)
    members = [compiled[vertex] for vertex in region.vertices]
    inputs = [
        PlannedInput(
            name=f"{edge.consumer}.{edge.input_name}",
            placeholder=placeholder,
            region=graph.region_of(edge.producer).name,
            result=specs[edge].name,
            partitioning=edge.partitioning,
            keys=edge.keys,
            inferred=edge.inferred,
            written=compiled[edge.producer].describe_written(),
            kept_whole=member.spreads.get(placeholder) or "",
        )
        for member in members
        for placeholder, edge in member.inputs.items()
    ]
    planned = PlannedRegion(
        name=region.name,
        vertices=region.vertices,
        sources=tuple(source for member in members for source in member.sources),
        inputs=tuple(inputs),
        steps=tuple(cut.steps),
        sinks=tuple(cut.sinks),
        parallelism=region.parallelism,
        subpartitions=region.subpartitions,
        single_subtask_reason=region.single_subtask_reason,
        # Proved for the region as declared. In the subtasks of a chain run besides it steps that take any rows alone.
        splittable=tuple(
            f"{edge.consumer}.{edge.input_name}"
            for member in members
            for placeholder, edge in member.inputs.items()
            if region.single_subtask_reason is None and member.spreads.get(placeholder, "") is None
        ),
        spark_conf=_settings(members),
    )
    return planned, cut.templates


def _settings(members: Sequence[CompiledVertex]) -> Mapping[str, str]:
    """The author's, and above them those without which a table's files would be read or written wrong."""
    tables = [source.table for member in members for source in member.sources if source.table is not None]
    targets = [member.sink for member in members if isinstance(member.sink, TargetTable)]
    needed = [*(table.settings for table in tables), *(target.settings for target in targets)]
    return dict(members[0].spark_conf) | {name: value for settings in needed for name, value in settings.items()}


def _hashed_columns(vertex: CompiledVertex, sink: Files | TargetTable) -> list[str]:
    """Those of its files that Spark can hash."""
    without = sink.not_in_files if isinstance(sink, TargetTable) else ()
    return [each.name for each in vertex.schema.fields if each.name not in without and is_hashable(each.dataType)]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A vertex's rows as one relation, and the results that its placeholders read; `expectations` are checked on it,
    `inlined` as in `CompiledVertex`."""

    relation: Relation
    local: Mapping[str, str]
    shuffles: bool
    expectations: tuple[Expectation, ...] = ()
    rows_column: str | None = None
    sampled: tuple[str, ...] = ()
    inlined: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _StepCut:
    """The steps of one region so far; `readable` is the result from which a vertex's rows can be read again.

    `orders` are of results that are read by range, `by_file` the names of those that rescale edges read.
    """

    compiled: Mapping[str, CompiledVertex]
    orders: Mapping[str, RowOrder]
    by_file: frozenset[str] = frozenset()
    steps: list[PlannedStep] = field(default_factory=list)
    sinks: list[PlannedSink] = field(default_factory=list)
    templates: list[bytes] = field(default_factory=list)
    readable: dict[str, str] = field(default_factory=dict)

    def add_vertex(self, vertex: CompiledVertex, wanted: Sequence[ResultSpec], *, read_inside: bool) -> None:
        if not wanted and (read_inside or vertex.sink is None):
            wanted = [ResultSpec(vertex.name)]
        for spec in wanted:
            self._add_result(vertex, spec)
        if vertex.sink is not None:
            self._add_sink(vertex, vertex.sink)

    def _add_result(self, vertex: CompiledVertex, spec: ResultSpec) -> None:
        rows = self._rows(vertex)
        if spec.expression is not None:
            relation = add_subpartition(rows.relation, spec.expression)
            if self.orders[spec.name].is_sorted:  # then a range is a run of pages
                relation = sort_locally(relation, [SUBPARTITION_COLUMN])
            rows = replace(rows, relation=relation)
        self._add_step(vertex, rows, spec.name, subpartitions=spec.subpartitions)
        self.readable.setdefault(vertex.name, spec.name)

    def _add_sink(self, vertex: CompiledVertex, sink: Files | TargetTable) -> None:
        result = f"{vertex.name}.sink"
        rows = self._rows(vertex)
        relation = rows.relation
        if isinstance(sink, TargetTable):
            relation = to_table(relation, sink)
            self.sinks.append(PlannedSink(vertex.name, result, None, sink))
        else:
            self.sinks.append(PlannedSink(vertex.name, result, sink))
        texts = [each.name for each in vertex.schema.fields if each.dataType.typeName() == "string"]
        laid_out = arrange(relation, sink, _hashed_columns(vertex, sink), texts)
        shuffles = rows.shuffles or sink.files is not None
        self._add_step(vertex, replace(rows, relation=laid_out, shuffles=shuffles), result, sink=sink)

    def _rows(self, vertex: CompiledVertex) -> _Rows:
        """Computed the first time; read from the first result's files after that."""
        first = self.readable.get(vertex.name)
        if first is not None:
            placeholder = f"{PLACEHOLDER_PREFIX}{vertex.name}"
            return _Rows(placeholder_relation(placeholder, vertex.schema.json()), {placeholder: first}, shuffles=False)
        found = find_placeholders(vertex.relation)
        local = {
            placeholder: self.readable[producer]
            for member in self.compiled.values()
            for placeholder, producer in member.local.items()
            if placeholder in found
        }
        expected = vertex.expectations
        shuffles = may_shuffle(vertex.relation) or bool(unique_keys(expected))
        rows = mark_repeats(vertex.relation, expected)
        sampled = () if vertex.partial or not set(vertex.groups) <= set(vertex.schema.names) else vertex.groups
        return _Rows(rows, local, shuffles, expected, vertex.rows_column, sampled, vertex.inlined)

    def _add_step(
        self,
        vertex: CompiledVertex,
        rows: _Rows,
        result: str,
        *,
        subpartitions: int = 1,
        sink: Files | TargetTable | None = None,
    ) -> None:
        template, schema = rows.relation.SerializeToString(deterministic=True), vertex.schema.json()
        by_file, order = result in self.by_file, self.orders.get(result)
        is_sorted = order is not None and order.is_sorted
        self.templates.append(template)
        self.steps.append(
            PlannedStep(
                result=result,
                schema=schema,
                format=sink.format if sink else "parquet",
                options=sink.options if sink else result_write_options(schema, is_sorted=is_sorted),
                subpartitions=subpartitions,
                shuffles=rows.shuffles,
                local=rows.local,
                digest=sha256(template).hexdigest(),
                row_hash=None if sink else row_hash(vertex.schema, by_file=by_file),
                by_file=by_file,
                expectations=rows.expectations,
                rows_column=rows.rows_column,
                sampled=rows.sampled,
                inlined=rows.inlined,
                partition_by=sink.partition_by if sink else (),
                row_order=order,
            )
        )
