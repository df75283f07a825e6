"""Compile a job: call every transform once, on placeholders, and keep the unresolved plans.

Besides `session` the only module that needs the DataFrame API, and the only one that runs user code. Nothing is
executed: the server only analyses. The schema of an upstream output comes from that analysis, so a region compiles
before its inputs exist.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from pickle import PicklingError
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.expect.expectations import Expectation
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.core.settings import VertexOptions
from airflow_abs.core.sql_names import escape_repetitions
from airflow_abs.exchange.incremental.new_files import NewFiles
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.exchange.records.declared_vertex import DeclaredVertex
from airflow_abs.exchange.sources.files import SOURCE, Files
from airflow_abs.exchange.sources.planned_source import PlannedSource
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.spark.compile.contracts import check_contract, set_conf
from airflow_abs.spark.compile.declared_joins import check_join
from airflow_abs.spark.compile.key_types import resolve_keys
from airflow_abs.spark.compile.output_types import check_columns, check_types
from airflow_abs.spark.compile.pruned_sources import keep_values
from airflow_abs.spark.compile.source_schema import resolve_files
from airflow_abs.spark.newer_fields import find_newer_field
from airflow_abs.spark.relations import Relation
from airflow_abs.spark.source_files import check_condition
from airflow_abs.spark.template import PLACEHOLDER_PREFIX, find_placeholders, find_session_bound, reads_stream
from airflow_abs.spark.transforms.arguments import coerce_arguments
from airflow_abs.spark.transforms.by_value import pickled_by_value
from airflow_abs.spark.transforms.call_sites import recorded_call_sites
from airflow_abs.spark.transforms.guard import no_execution
from airflow_abs.spark.values import fix_values
from airflow_abs.tables.source import Given, Pin

DataFrame = Any
Session = Any
StructType = Any
ResolvedFiles = tuple[Files, StructType]
_FEW = 4
"""Aggregates that are named where an edge is described."""
_REQUESTS = 4
"""At once."""


@dataclass(frozen=True, slots=True)
class VertexProgram:
    """What a vertex does: as it is declared and rendered, its transform, its source and its sink as they are today."""

    declared: DeclaredVertex
    transform: Callable[..., DataFrame] | None = None
    source: Given | None = None
    sink: Files | TargetTable | None = None

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def options(self) -> VertexOptions:
        return self.declared.options


@dataclass(frozen=True, slots=True)
class CompiledVertex:
    """A vertex's unresolved plan, with what its placeholders stand for.

    `inputs` are blocking inputs by placeholder; `local` are outputs of vertices of the same region that are written to
    files first. Inputs passed on inside the region are part of the relation; of those that were joined on the day,
    `inlined` has the vertex by the alias around its plan. `spreads` says of partitioned inputs, by placeholder, why a
    hot subpartition may not be cut into parts, None if it may; it is empty until the vertex is proved. `call_sites` are
    lines of the author's code by plan id of relations.
    `all_columns` are those of its output if its rows are written; the schema has the ones that a consumer reads, and
    rows that do not meet the `filters` are left out. `partial` are the aggregates, in words, whose partial results are
    written in the place of rows; `rows_column` says of how many rows each is. `groups` are the columns by which rows
    are grouped for a reader that joins them first, or might be on a later day.
    """

    name: str
    frame: DataFrame
    relation: Relation
    schema: StructType
    sources: tuple[PlannedSource, ...]
    inputs: Mapping[str, JobEdge]
    local: Mapping[str, str]
    sink: Files | TargetTable | None
    inlined: Mapping[str, str] = field(default_factory=dict)
    spreads: Mapping[str, str | None] = field(default_factory=dict)
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    call_sites: Mapping[int, str] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()
    all_columns: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    rows_column: str | None = None
    groups: tuple[str, ...] = ()

    def is_written_as(self, other: CompiledVertex) -> bool:
        """Whether both write the same columns of the same rows."""
        return (self.schema, self.filters, self.partial) == (other.schema, other.filters, other.partial)

    def with_edges(self, changed: Mapping[JobEdge, JobEdge]) -> CompiledVertex:
        """The same vertex with other edges in the place of some; what was found of those does not hold for these."""
        inputs = {placeholder: changed.get(edge, edge) for placeholder, edge in self.inputs.items()}
        spreads = {each: why for each, why in self.spreads.items() if inputs[each] == self.inputs[each]}
        return replace(self, inputs=inputs, spreads=spreads)

    def describe_written(self) -> str:
        """``3 of 31 columns, rows where (`amount` > 0)``; nothing if all of its output is written."""
        written, all_of_them = len(self.schema.names), len(self.all_columns)
        columns = [f"{written} of {all_of_them} columns"] if written < all_of_them else []
        rows = [f"rows where {' and '.join(self.filters)}"] if self.filters else []
        if self.partial:
            first, more = self.partial[:_FEW], len(self.partial) - _FEW
            by = f" by {', '.join(self.groups)}" if self.groups else ""
            return f"partial {', '.join(first)}{f' and {more} more' if more > 0 else ''}{by}"
        return ", ".join(columns + rows)


def is_materialised(graph: JobGraph, vertex: str) -> bool:
    """True if the vertex's rows are written to files: a gate, or it has several readers, or none in its own region, or
    one for whom they are written all the same."""
    edges = graph.outputs_of(vertex)
    return (
        graph.vertex(vertex).is_gate or len(edges) != 1 or graph.crosses_regions(edges[0]) or edges[0].durable is True
    )


def compile_vertices(
    session: Session,
    graph: JobGraph,
    programs: Mapping[str, VertexProgram],
    now: datetime | None = None,
    open_path: Callable[[str], ExchangePath] = Path,
) -> dict[str, CompiledVertex]:
    """Compile all vertices in topological order.

    Args:
        session: only its analyser is asked.
        graph: the vertices and the edges between them.
        programs: by vertex.
        now: what `current_timestamp()` is for the whole run; by default the time of the call.
        open_path: for the files of sources whose schema is inferred.

    Raises:
        JobGraphError: a transform does not fit the graph; names the vertex, what was found and what to do.
        AnalysisException: Spark's own, with a note that names the vertex.
    """
    compiled: dict[str, CompiledVertex] = {}
    numbers = count()
    resolve, release = _resolve_ahead(session, programs.values(), open_path), str(session.version)
    with pickled_by_value():
        for vertex in graph.vertices:
            today = now or datetime.now(UTC)
            compilation = _VertexCompilation(session, graph, compiled, numbers, today, resolve, release)
            program = programs[vertex.name]
            with set_conf(session, vertex.name, program.options.spark_conf):
                try:
                    compiled[vertex.name] = compilation.run(program)
                except PicklingError as error:
                    raise _unsendable(vertex.name, error) from error
    return compiled


def _resolve_ahead(
    session: Session, programs: Iterable[VertexProgram], open_path: Callable[[str], ExchangePath]
) -> Callable[[str, Files], ResolvedFiles]:
    """`resolve_files`, by vertex. Of vertices without settings of their own, Spark has listed the folders and read the
    schemas by then, several at once; what fails is raised when it is asked for."""
    ask = partial(resolve_files, session, open_path=open_path)
    asked: dict[str, Future[ResolvedFiles]] = {}
    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="source") as pool:
        for program in programs:
            source = program.source.declared if isinstance(program.source, NewFiles) else program.source
            if isinstance(source, Files) and not program.options.spark_conf:
                asked[program.name] = pool.submit(ask, f"vertex {program.name!r}", source)

    def resolve(vertex: str, files: Files) -> ResolvedFiles:
        return asked[vertex].result() if vertex in asked else ask(f"vertex {vertex!r}", files)

    return resolve


def _unsendable(vertex: str, error: PicklingError) -> JobGraphError:
    return JobGraphError(
        f"vertex {vertex!r}: a Python function of its transform cannot be sent to Spark ({error}). A function of the "
        "DAG's folder travels with all that it refers to: create locks, connections and the like inside it, or give "
        "its module to the job as JobOptions(py_files=[...]) and import it inside"
    )


@dataclass(slots=True)
class _VertexCompilation:
    """The state of compiling one vertex: the placeholders made so far, by what they stand for."""

    session: Session
    graph: JobGraph
    compiled: Mapping[str, CompiledVertex]
    numbers: count[int]
    now: datetime
    resolve: Callable[[str, Files], ResolvedFiles]
    release: str
    frames: dict[str, DataFrame] = field(default_factory=dict)
    expected: dict[str, str] = field(default_factory=dict)
    call_sites: Mapping[int, str] = field(default_factory=dict)

    def run(self, program: VertexProgram) -> CompiledVertex:
        declared = [self._add_source(program.name, program.source)] if program.source is not None else []
        inputs, local = {}, {}
        for edge in self.graph.inputs_of(program.name):
            producer = self.compiled[edge.producer]
            if not self.graph.crosses_regions(edge) and not is_materialised(self.graph, edge.producer):
                self.frames[edge.input_name] = producer.frame
                continue
            placeholder = self._add_placeholder(edge.input_name, self.session.createDataFrame([], producer.schema))
            if self.graph.crosses_regions(edge):
                inputs[placeholder] = edge
            else:
                local[placeholder] = edge.producer
        edges = self.graph.inputs_of(program.name)
        sources = tuple(keep_values(program.name, source, edges, self.frames) for source in declared)
        output = self._call(program)
        schema, relation = self._check_output(program.name, output)
        check_types(program.name, schema, program.sink.format if program.sink else "parquet")
        if program.options.schema is not None:
            check_contract(self.session, program.name, schema, program.options.schema)
        if program.options.join is not None:
            check_join(program.name, relation, program.options.join)
        return CompiledVertex(
            name=program.name,
            frame=output,
            relation=relation,
            schema=schema,
            sources=sources,
            inputs=inputs,
            local=local,
            sink=program.sink,
            spark_conf=program.options.spark_conf,
            call_sites=self.call_sites,
            expectations=program.declared.expectations,
        )

    def _add_source(self, vertex: str, source: Given) -> PlannedSource:
        if isinstance(source, Pin):
            empty = self.session.createDataFrame([], _parse_schema(source.schema))
            check_condition(vertex, empty, source.pinned)
            placeholder = self._add_placeholder(SOURCE, empty)
            return PlannedSource(f"{vertex}.{SOURCE}", placeholder, None, source.schema, table=source.pinned)
        if isinstance(source, NewFiles):
            return replace(self._add_files(vertex, source.declared), taken=source.taken)
        return self._add_files(vertex, source)

    def _add_files(self, vertex: str, files: Files) -> PlannedSource:
        files, schema = self.resolve(vertex, files)
        # A reader of no files has no rows either, and columns such as _metadata.
        placeholder = self._add_placeholder(SOURCE, self.session.read.format(files.format).schema(schema).load())
        return PlannedSource(f"{vertex}.{SOURCE}", placeholder, files, schema.json())

    def _add_placeholder(self, name: str, empty: DataFrame) -> str:
        """Hand the transform an empty, typed DataFrame under a name that is found again in its plan."""
        placeholder = f"{PLACEHOLDER_PREFIX}{next(self.numbers)}"
        self.frames[name] = empty.alias(placeholder)
        self.expected[name] = placeholder
        return placeholder

    def _call(self, program: VertexProgram) -> DataFrame:
        if program.declared.sql is not None:
            return self._query(program, program.declared.sql)
        if program.transform is None:
            (only,) = self.frames.values()
            return only
        frames = dict(self.frames)
        positional = (frames.pop(SOURCE),) if set(frames) == {SOURCE} else ()
        who = f"vertex {program.name!r}"
        kwargs = coerce_arguments(who, program.transform, program.declared.transform_kwargs)
        with no_execution(self.session, who), recorded_call_sites() as self.call_sites:
            try:
                output = program.transform(*positional, **frames, **kwargs)
            except Exception as error:
                error.add_note(f"raised by the transform of vertex {program.name!r} while it was compiled")
                raise
        if not isinstance(output, type(next(iter(self.frames.values())))):
            raise JobGraphError(
                f"vertex {program.name!r}: its transform returned {type(output).__name__}; expected one DataFrame"
            )
        return output

    def _query(self, program: VertexProgram, sql: str) -> DataFrame:
        who = f"vertex {program.name!r}"
        with no_execution(self.session, who):
            try:
                arguments = dict(program.declared.transform_kwargs) or None
                return self.session.sql(escape_repetitions(sql), args=arguments, **self.frames)
            except Exception as error:
                error.add_note(f"raised by the sql of vertex {program.name!r}")
                raise

    def _check_output(self, vertex: str, output: DataFrame) -> tuple[StructType, Relation]:
        relation = output._plan.to_proto(self.session.client).root
        self._check_release(vertex, relation)
        try:
            schema = output.schema
        except Exception as error:
            error.add_note(f"raised while Spark analyzed the output of vertex {vertex!r}")
            raise
        check_columns(vertex, schema)
        for edge in self.graph.outputs_of(vertex):
            resolve_keys(vertex, schema, edge.keys)
        self._check_relation(vertex, relation)
        return schema, fix_values(relation, schema.names, self.now, lambda: secrets.randbits(63))

    def _check_release(self, vertex: str, relation: Relation) -> None:
        """Before the server reads the plan: what it makes of a field that it skips is another plan, or an error."""
        newer = find_newer_field(relation, self.release)
        if newer is not None:
            field, since = newer
            raise JobGraphError(
                f"vertex {vertex!r}: the plan of its transform has {field}, which came with Spark {since}; the server "
                f"runs Spark {self.release}, and would silently skip it. Write the step without it, or run the "
                f"server on Spark {since} or newer"
            )

    def _check_relation(self, vertex: str, relation: Relation) -> None:
        bound = find_session_bound(relation)
        if bound:
            raise JobGraphError(f"vertex {vertex!r}: the plan of its transform holds {bound}")
        if reads_stream(relation):
            raise JobGraphError(
                f"vertex {vertex!r}: its transform reads a stream (readStream), which has no end, and a subtask reads "
                "what is there; give it source=Files(..., incremental=True), which gives each run the new files"
            )
        found = find_placeholders(relation)
        for name, placeholder in self.expected.items():
            if placeholder not in found:
                raise JobGraphError(
                    f"vertex {vertex!r}: its output does not depend on input {name!r}; expected every "
                    "input in the plan. "
                    "The transform ignores it, or hides it behind a temporary view or an action: use the "
                    "DataFrame itself, "
                    "or drop the input"
                )


def _parse_schema(schema: str) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema))
