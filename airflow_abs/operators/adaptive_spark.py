"""What a DAG author writes: vertices and the edges between them. No task exists until the job closes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.expect.expectations import Expect, RowCountChange, Unique, read_expectations
from airflow_abs.core.graph.job_graph import JobEdge
from airflow_abs.core.graph.join_types import JoinType
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.settings import FLAG, VertexOptions, Where, check_options, setting
from airflow_abs.core.wording import format_count
from airflow_abs.exchange.records.declared_vertex import DeclaredVertex
from airflow_abs.exchange.sources.files import SOURCE, Files
from airflow_abs.exchange.sources.pruned_by import VertexColumn
from airflow_abs.operators.ordering import OrderedVertex
from airflow_abs.operators.pruning_edges import column_of, pruning_edges
from airflow_abs.operators.query import check_query, is_file, read_query
from airflow_abs.spark.transforms.functions import name_of
from airflow_abs.tables.kinds import to_declared
from airflow_abs.tables.sink import TableSink
from airflow_abs.tables.source import LandedSource, TableSource

Source = Files | TableSource | LandedSource

_MAY_BE_HASHED = (Partitioning.HASH, Partitioning.INFERRED)

OPEN_JOB: ContextVar[list[AdaptiveSparkOperator] | None] = ContextVar("open_adaptive_spark_job", default=None)
"""The vertices of the job that is open now, in the order of their declaration; None outside of a job."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One way to read a vertex's output; made by `AdaptiveSparkOperator.hash()` and its siblings."""

    producer: AdaptiveSparkOperator
    partitioning: Partitioning
    keys: tuple[str, ...] = ()
    pipelined: bool = setting(
        "False", FLAG, "Both vertices always run as one subtask.", Where.EDGE, empty=lambda: False
    )
    durable: bool | None = setting(
        "",
        FLAG,
        "True to always write the rows, False to keep them inside Spark whenever possible; empty: plan decides for the "
        "day.",
        Where.EDGE,
        more="how-it-decides.md#which-edges-are-written",
    )


class AdaptiveSparkOperator(OrderedVertex):
    """Declare one step of an `AdaptiveSparkJob`: a transform of its inputs, run in as many subtasks as needed.

    It is a declaration, not an Airflow operator: the job renders it as a `decide` and a mapped `run` task when it
    closes. Further keywords (retries, pool, execution_timeout, ...) are Airflow's and go to the mapped task; `outlets`
    and `inlets` go to the task that publishes the sink. ``sensor >> vertex >> task`` orders it among other tasks.

    Args:
        task_id: name of the vertex, unique in the job.
        transform: function that takes DataFrames by input name and returns one DataFrame; without it, the only input is
            passed on. The source of a vertex without inputs is the first parameter.
        sql: a query instead of a transform, with inputs in braces (``{source}`` is the vertex's own) and
            `transform_kwargs` as named parameters:
            ``"SELECT * FROM {orders} JOIN {customers} USING (customer_id) WHERE day = :day"``; templated. Or a file
            beside the DAG file or in its `template_searchpath`: ``"revenue.sql"``.
        source: the files or the table to read.
        inputs: other vertices, by input name, for which `plan` infers how to distribute their rows; or edges, which say
            how.
        sink: where to publish its output when all subtasks have succeeded.
        transform_kwargs: JSON values for the transform's further parameters; templated.
        expect: what its rows must satisfy, by name: a condition in SQL (or `Expect`, with a tolerance), `Unique`,
            `RowCountChange`. Spark counts while it writes; a failure stops the sink and the readers.
        options: settings that few vertices need, such as ``VertexOptions(parallelism=4)``.

    Raises:
        JobGraphError: outside of a job; or the transform's parameters do not match the inputs.
        InvalidValueError: a setting is invalid or unknown.
    """

    def __init__(  # noqa: PLR0913 - the arguments of a vertex
        self,
        *,
        task_id: str,
        transform: Callable[..., Any] | None = None,
        sql: str | None = None,
        source: Source | None = None,
        inputs: Mapping[str, Edge | AdaptiveSparkOperator] | None = None,
        sink: Files | TableSink | None = None,
        transform_kwargs: Mapping[str, Any] | None = None,
        expect: Mapping[str, str | Expect | Unique | RowCountChange] | None = None,
        options: VertexOptions | None = None,
        **task_kwargs: Any,
    ) -> None:
        super().__init__()
        self.task_id = task_id
        self.transform = transform
        self.sql = sql
        self.source = source
        self.inputs = {name: _as_edge(each) for name, each in (inputs or {}).items()}
        self.sink = sink
        self.transform_kwargs = dict(transform_kwargs or {})
        self.expectations = read_expectations(task_id, expect or {})
        self.options = check_options(f"vertex {task_id!r}", options, VertexOptions, task_kwargs)
        _check_keywords(task_id, task_kwargs)
        self.task_kwargs = task_kwargs
        self._check_inputs()
        self._check_join()
        self._check_expectations()
        self._check_transform_kwargs()
        self._check_transform()
        _declare(self)

    def hash(self, *keys: str, pipelined: bool = False, durable: bool | None = None) -> Edge:
        """Rows with equal keys go to the same subtask.

        Args:
            keys: columns.
            pipelined: both vertices always run as one subtask.
            durable: True to always write the rows, False to keep them inside Spark whenever possible; by default
                `plan` decides for the day.
        """
        return Edge(self, Partitioning.HASH, keys, pipelined, durable)

    def broadcast(self, *, pipelined: bool = False, durable: bool | None = None) -> Edge:
        """Every subtask reads the whole output. `pipelined` and `durable` as in `hash`."""
        return Edge(self, Partitioning.BROADCAST, (), pipelined, durable)

    def rebalance(self, *, pipelined: bool = False, durable: bool | None = None) -> Edge:
        """Spread rows evenly, without a key. `pipelined` and `durable` as in `hash`."""
        return Edge(self, Partitioning.REBALANCE, (), pipelined, durable)

    def rescale(self, *, durable: bool | None = None) -> Edge:
        """Distribute files by bytes: each subtask reads whole files of neighboring subtasks.

        The cheap edge for a transform that works row by row: nothing is hashed or sorted. No more subtasks than files
        get data; use `rebalance()` to spread a few large files. `durable` as in `hash`.
        """
        return Edge(self, Partitioning.RESCALE, durable=durable)

    def forward(self) -> Edge:
        """Subtask i reads the output of subtask i: both vertices run in one Spark plan."""
        return Edge(self, Partitioning.FORWARD, (), pipelined=True)

    def column(self, name: str) -> VertexColumn:
        """The values of a column of its output, by which the source of another vertex of its job is pruned."""
        return column_of(self, name, OPEN_JOB.get() or ())

    def read_sql_file(self, dag: Any) -> None:
        """Put the text of ``sql="revenue.sql"`` in its place; errors as `read_query` and `check_query`."""
        if self.sql is not None and is_file(self.sql):
            self.sql = read_query(self.task_id, self.sql, dag)
            self._check_transform()

    def to_declared(self) -> DeclaredVertex:
        """The record of it, as far as it is known without its job."""
        return DeclaredVertex(
            name=self.task_id,
            source=to_declared(self.source) if self.source else None,
            sink=to_declared(self.sink) if self.sink else None,
            sql=self.sql,
            transform_kwargs=self.transform_kwargs,
            expectations=self.expectations,
            options=self.options,
        )

    def to_edges(self) -> list[JobEdge]:
        edges = [
            JobEdge(
                edge.producer.task_id, self.task_id, name, edge.partitioning, edge.keys, edge.pipelined, edge.durable
            )
            for name, edge in self.inputs.items()
        ]
        return edges + pruning_edges(self.task_id, self.source, self.sink)

    def _check_inputs(self) -> None:
        for name, edge in self.inputs.items():
            if not isinstance(edge, Edge):
                if callable(edge):
                    raise JobGraphError(f"vertex {self.task_id!r}: input {name!r} is {_not_called(edge)}")
                raise JobGraphError(
                    f"vertex {self.task_id!r}: input {name!r} is {edge!r}; expected another vertex, or an edge of "
                    "one such as orders.hash('customer_id')"
                )
        if self.source is not None and SOURCE in self.inputs:
            raise JobGraphError(
                f"vertex {self.task_id!r}: the input name {SOURCE!r} is reserved for its own source; rename the input"
            )

    def _check_transform_kwargs(self) -> None:
        for name, value in self.transform_kwargs.items():
            for each in _flatten(value):
                if callable(each):
                    raise JobGraphError(f"vertex {self.task_id!r}: argument {name!r} is {_not_called(each)}")
                vertex = each.producer if isinstance(each, Edge) else each
                if isinstance(vertex, AdaptiveSparkOperator):
                    raise JobGraphError(
                        f"vertex {self.task_id!r}: argument {name!r} holds the vertex {vertex.task_id!r}, whose "
                        "rows would not be read there; make it an input of its own, under a name of its own"
                    )

    def _check_join(self) -> None:
        join = self.options.join
        if join is None:
            return
        if join.upper() not in [kind.value for kind in JoinType]:
            known = ", ".join(repr(kind.lower()) for kind in JoinType)
            raise JobGraphError(f"vertex {self.task_id!r}: join is {join!r}; expected one of {known}")
        hashed = [name for name, edge in self.inputs.items() if edge.partitioning in _MAY_BE_HASHED]
        if len(hashed) != 2 or len(self.inputs) != 2 or self.source is not None:
            raise JobGraphError(
                f"vertex {self.task_id!r}: join={join!r} is for a vertex with exactly two inputs, both hash(); "
                f"found {format_count(len(self.inputs), 'input')}, {len(hashed)} of them hash()"
                + (", and a source" if self.source else "")
            )

    def _check_expectations(self) -> None:
        row_counts = [each.name for each in self.expectations if each.is_row_count]
        if row_counts and self.sink is None:
            raise JobGraphError(
                f"vertex {self.task_id!r}: expectation {row_counts[0]!r} (RowCountChange) compares published rows with "
                "the last run's, and the vertex has no sink; declare it on the vertex that has one"
            )

    def _check_transform(self) -> None:
        names = [*self.inputs, *([SOURCE] if self.source is not None else [])]
        if self.sql is not None:
            self._check_sql(self.sql, names)
            return
        if self.transform is None:
            if len(names) != 1 or self.transform_kwargs:
                raise JobGraphError(
                    f"vertex {self.task_id!r}: it has no transform and {len(names)} inputs; only exactly one input, "
                    "without transform_kwargs, can be passed on as it is"
                )
            return
        if not callable(self.transform):
            raise JobGraphError(
                f"vertex {self.task_id!r}: the transform is {self.transform!r}; expected a function of DataFrames"
            )
        check_parameters(self.task_id, self.transform, names, list(self.transform_kwargs))

    def _check_sql(self, sql: str, names: list[str]) -> None:
        if self.transform is not None:
            raise JobGraphError(f"vertex {self.task_id!r}: it has both transform= and sql=; keep one")
        if not is_file(sql):
            check_query(self.task_id, sql, names, self.transform_kwargs)


def _not_called(function: Callable[..., Any]) -> str:
    name = name_of(function)
    return (
        f"the function {name} itself; expected another vertex, or a JSON value. A function that declares a vertex or a "
        f"task does so when it is called: write {name}()"
    )


def _check_keywords(vertex: str, given: Mapping[str, Any]) -> None:
    """Further keywords are Airflow's, which would name one of its own operators instead of the vertex."""
    known = _airflow_keywords()
    for name in given:
        if name not in known:
            own = [
                *inspect.signature(AdaptiveSparkOperator.__init__).parameters,
                *(f.name for f in fields(VertexOptions)),
            ]
            raise JobGraphError(
                f"vertex {vertex!r}: {name!r} is neither an argument of a vertex nor of Airflow's tasks"
                + _suggest(name, [*own, *known])
            )


@cache
def _airflow_keywords() -> frozenset[str]:
    from airflow.sdk import BaseOperator

    return frozenset(inspect.signature(BaseOperator.__init__).parameters) - {"self", "kwargs"}


def _suggest(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _flatten(value: Any) -> Iterator[Any]:
    """The values in lists and dicts, however deep."""
    if isinstance(value, (list, tuple, Mapping)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _flatten(each)
    else:
        yield value


def _as_edge(given: Edge | AdaptiveSparkOperator) -> Edge:
    """A vertex that is named without saying how its rows are distributed leaves that to `plan`."""
    return Edge(given, Partitioning.INFERRED) if isinstance(given, AdaptiveSparkOperator) else given


def _declare(vertex: AdaptiveSparkOperator) -> None:
    declared = OPEN_JOB.get()
    if declared is None:
        raise JobGraphError(
            f"vertex {vertex.task_id!r}: declared outside of a job; put it inside `with AdaptiveSparkJob(...)`"
        )
    declared.append(vertex)


def check_parameters(vertex: str, transform: Callable[..., Any], inputs: list[str], kwargs: list[str]) -> None:
    """The transform takes its inputs and its keyword arguments, no more and no less.

    A vertex that has only a source passes it as the first parameter, whatever that is called.

    Raises:
        JobGraphError: names what is missing and what is too much.
    """
    parameters = inspect.signature(transform).parameters
    names = list(parameters)
    if inputs == [SOURCE] and names and SOURCE not in names:
        names = [SOURCE, *names[1:]]
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    required = {
        name
        for name, parameter in zip(names, parameters.values(), strict=True)
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    given = {*inputs, *kwargs}
    missing, unknown = sorted(required - given), sorted(given - set(names))
    if missing or (unknown and not open_ended):
        raise JobGraphError(
            f"vertex {vertex!r}: {name_of(transform)}({', '.join(parameters)}) does not match inputs {inputs} and "
            f"transform_kwargs {kwargs}: "
            + "; ".join(
                part
                for part in (
                    f"parameters without a value: {', '.join(missing)}" if missing else "",
                    f"not a parameter: {', '.join(unknown)}" + _suggest(unknown[0], missing)
                    if unknown and not open_ended
                    else "",
                )
                if part
            )
        )
