"""Writes only the part of a vertex's output that is read: Spark's planner says which columns and rows.

Each region is compiled alone, so a template would compute and write every column and row that its author left in. From
the sinks backwards, each vertex is planned once on stand-ins for its inputs, which the optimizer prunes as it prunes
scans of Parquet: what is left of their columns in the physical plan is what the vertex reads, given what is read of
itself, and the filters right above them drop rows that it has no use for.

The author's code sees all columns as before. In a template, the columns that are not written are expressions that
raise an error: the optimizer drops them with whatever else nobody reads, and one that is read all the same fails
instead of being NULL. `plan` looks for them in Spark's plan of every narrowed template.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.expect.expectations import unique_keys
from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.core.sql_names import quote
from airflow_abs.spark.compile.contracts import set_conf
from airflow_abs.spark.compile.key_types import is_hashable, resolve_keys
from airflow_abs.spark.compile.vertices import CompiledVertex, is_materialised
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.narrowing.stand_ins import STAND_IN, explain, only, proof_settings, scan_nothing, stand_in
from airflow_abs.spark.proof.explained import Operator, UnreadablePlanError, read_plan
from airflow_abs.spark.proof.proof_copy import proof_copy
from airflow_abs.spark.proof.prove import set_for_proof
from airflow_abs.spark.pruning.filters import read_condition
from airflow_abs.spark.relations import (
    Relation,
    column,
    filter_rows,
    placeholder_relation,
    select_columns,
    select_expressions,
    sql_expression,
)
from airflow_abs.spark.template import find_placeholders, inline

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

log = logging.getLogger(__name__)

READ = re.compile(rf"{STAND_IN}(\d+)_(\d+):")
_QUOTED = re.compile(rf"`{STAND_IN}\d+_(\d+)`")
_NOT_WRITTEN = "airflow_abs did not write column"
_REQUESTS = 4
"""At once."""
_PASSED_ON = ("ColumnarToRow", "InputAdapter")
_NARROW = ("boolean", "byte", "short", "integer", "date", "float", "long", "timestamp", "timestamp_ntz", "double")
"""Types of few bytes, by `typeName`, narrowest first."""


@dataclass(frozen=True, slots=True)
class Written:
    """What is written of a vertex's output: columns, in the order of its schema, of the rows that meet all `filters`,
    which are SQL."""

    columns: tuple[str, ...]
    filters: tuple[str, ...] = ()


def narrow_vertices(
    session: Any, graph: JobGraph, compiled: Mapping[str, CompiledVertex], keep_all: Collection[str] = ()
) -> dict[str, CompiledVertex]:
    """The vertices with what is read of them as their outputs, and with templates that read no more.

    Vertices with a sink and those that no vertex reads keep everything. So does one whose readers' plans cannot be
    read for certain.

    Args:
        session: a Connect session; one `explain` request for each vertex that reads files of others, a second one if
            those files lack columns. Some of its settings are others for the time of this.
        graph: the day's, whose edges between regions are written.
        compiled: its vertices, as `plan_region` takes them.
        keep_all: vertices whose files have all columns and rows, whoever reads them.

    Raises:
        JobGraphError: a template reads a column that Spark's planner reported as unused.
    """
    with set_for_proof(session):
        written = _Reading(session, graph, compiled, frozenset(keep_all)).find()
        narrowed, relying = dict(compiled), []
        for name, what in written.items():
            producers = _find_narrowed(graph, compiled, written, name)
            narrowed[name] = _narrow(compiled[name], what, producers, written)
            if producers:
                relying.append((narrowed[name], producers))
            if (told := narrowed[name].describe_written()) and not narrowed[name].partial:
                log.info("vertex %r writes %s; its readers use no more: %s", name, told, ", ".join(what.columns))
        _check_unread(session, relying, written)
        return narrowed


def find_producers(graph: JobGraph, compiled: Mapping[str, CompiledVertex], vertex: str) -> dict[str, str]:
    """The vertices whose files a vertex's relation reads, by placeholder."""
    members = [compiled[name] for name in graph.region_of(vertex).vertices]
    known = {placeholder: edge.producer for member in members for placeholder, edge in member.inputs.items()}
    known |= {placeholder: producer for member in members for placeholder, producer in member.local.items()}
    found = find_placeholders(compiled[vertex].relation)
    return {placeholder: producer for placeholder, producer in known.items() if placeholder in found}


@dataclass(frozen=True, slots=True)
class Scan:
    """One place where a plan reads a stand-in: which columns of it, by number, and the filters right above."""

    stand_in: int
    columns: frozenset[int]
    filters: frozenset[str]


@dataclass(slots=True)
class _Reading:
    """Goes through the vertices, consumers first. `read` and `filters` are what was found so far, by producer: names
    of columns, and the filters that every place has where its rows are read."""

    session: Any
    graph: JobGraph
    compiled: Mapping[str, CompiledVertex]
    keep_all: frozenset[str]
    read: dict[str, set[str]] = field(default_factory=dict)
    filters: dict[str, frozenset[str]] = field(default_factory=dict)

    def find(self) -> dict[str, Written]:
        """Of each vertex whose rows are written."""
        written = {}
        for vertex in reversed(self.graph.vertices):
            if is_materialised(self.graph, vertex.name):
                own = self.compiled[vertex.name]
                written[own.name] = self._written(own)
                self._follow(own, written[own.name])
        return written

    def _written(self, own: CompiledVertex) -> Written:
        names = tuple(own.schema.names)
        if own.sink is not None or own.name in self.keep_all or own.name not in self.read:
            return Written(names)
        edges = self.graph.outputs_of(own.name)
        read = self.read[own.name] | self._expected(own) | ({own.rows_column} if own.rows_column else set())
        read |= {key for edge in edges for key in resolve_keys(own.name, own.schema, edge.keys)}
        if not any(is_hashable(own.schema[name].dataType) for name in read):
            # rows are spread and compared by their hashes, and files without columns have no rows
            read |= {_narrowest(own.schema)}
        # expectations are about all rows, and the values that a source is pruned by are measured of all
        all_rows = own.expectations or any(edge.prunes for edge in edges)
        filters = () if all_rows else tuple(sorted(self.filters[own.name]))
        return Written(tuple(name for name in names if name in read), filters)

    def _expected(self, own: CompiledVertex) -> set[str]:
        """The columns that its expectations are about."""
        keys = [key for each in unique_keys(own.expectations) for key in each.columns]
        unique = set(resolve_keys(own.name, own.schema, keys))
        conditions = [each.condition for each in own.expectations if each.condition is not None]
        if not conditions:
            return unique
        counted = [column(f"c{number}", sql_expression(each)) for number, each in enumerate(conditions)]
        scans = self._scans(own, select_expressions(stand_in(0, own.schema), counted), [own.schema])
        names = own.schema.names
        return unique | (
            {names[place] for scan in scans for place in scan.columns} if scans is not None else set(names)
        )

    def _follow(self, own: CompiledVertex, written: Written) -> None:
        """Note what a vertex reads of others' files, given what is written of its own rows."""
        producers = find_producers(self.graph, self.compiled, own.name)
        if not producers:
            return
        schemas = [self.compiled[producer].schema for producer in producers.values()]
        stand_ins = {
            placeholder: partial(stand_in, number, schemas[number]) for number, placeholder in enumerate(producers)
        }
        rows = _only_rows(proof_copy(own.relation, stand_ins, {}), own, written)
        scans = self._scans(own, rows, schemas)
        for number, producer in enumerate(producers.values()):
            names = schemas[number].names
            found = [scan for scan in scans if scan.stand_in == number] if scans is not None else []
            columns = {names[place] for scan in found for place in scan.columns} if scans is not None else set(names)
            self.read.setdefault(producer, set()).update(columns)
            common = frozenset.intersection(*(scan.filters for scan in found)) if found else frozenset()
            self.filters[producer] = self.filters.get(producer, common) & common

    def _scans(self, own: CompiledVertex, relation: Relation, schemas: Sequence[StructType]) -> list[Scan] | None:
        """Where Spark's plan reads stand-ins; None if that cannot be told."""
        try:
            with set_conf(self.session, own.name, proof_settings(own)):
                plan = read_plan(explain(self.session, relation))
        except UnreadablePlanError:
            return None
        if any(map(_is_folded, plan.operators())):
            return None  # what is always false on stand-ins may be read on real inputs
        scans = []
        for root in (plan.root, *plan.subqueries):
            for operator, condition in _leaves(root):
                scans += read_scan(operator, condition, schemas)
        if any(operator.detail("ReadSchema") == "struct<>" for operator in plan.operators()):
            return [
                replace(scan, filters=frozenset()) for scan in scans
            ]  # one of them reads all rows, it is not known which
        return scans


def _is_folded(operator: Operator) -> bool:
    return operator.name == "LocalTableScan" and operator.detail("Arguments").startswith("<empty>")


def _leaves(root: Operator) -> Iterator[tuple[Operator, str]]:
    """Every operator without children, with the condition of the filter right above it."""
    waiting = [(root, "")]
    while waiting:
        operator, condition = waiting.pop()
        if not operator.children:
            yield operator, condition
        if operator.name == "Filter":
            condition = operator.detail("Condition")
        elif operator.name not in _PASSED_ON:
            condition = ""
        waiting.extend((child, condition) for child in operator.children)


def read_scan(operator: Operator, condition: str, schemas: Sequence[StructType]) -> list[Scan]:
    """What an operator without children reads of a stand-in; nothing if it reads no column of one.

    Args:
        condition: of the filter right above it.
        schemas: of the stand-ins, by number.
    """
    columns = [(int(stand), int(place)) for stand, place in READ.findall(operator.detail("ReadSchema"))]
    if not columns:
        return []
    number = columns[0][0]
    schema = schemas[number]
    types = {f"{STAND_IN}{number}_{place}": each.dataType.jsonValue() for place, each in enumerate(schema.fields)}
    shown = {name: kind if isinstance(kind, str) else "" for name, kind in types.items()}
    filters = {
        _QUOTED.sub(lambda found: quote(schema.names[int(found[1])]), text) for text in read_condition(condition, shown)
    }
    return [Scan(number, frozenset(place for _, place in columns), frozenset(filters))]


def _find_narrowed(
    graph: JobGraph, compiled: Mapping[str, CompiledVertex], written: Mapping[str, Written], vertex: str
) -> dict[str, CompiledVertex]:
    """The producers of a vertex that do not write all their columns, by placeholder."""
    producers = {name: compiled[each] for name, each in find_producers(graph, compiled, vertex).items()}
    return {name: each for name, each in producers.items() if len(written[each.name].columns) < len(each.schema.names)}


def _narrow(
    own: CompiledVertex, what: Written, producers: Mapping[str, CompiledVertex], written: Mapping[str, Written]
) -> CompiledVertex:
    """One vertex, reading of these producers what is written of them, and writing `what`."""
    relation = _only_rows(own.relation, own, what)
    if producers:
        inputs = {name: _whole(name, each, written[each.name].columns) for name, each in producers.items()}
        relation = inline(relation, inputs)
    return replace(
        own,
        relation=relation,
        schema=only(own.schema, what.columns),
        all_columns=own.all_columns or tuple(own.schema.names),
        filters=what.filters,
    )


def _only_rows(relation: Relation, own: CompiledVertex, what: Written) -> Relation:
    """The rows of a vertex that are written, with the columns that are."""
    for each in what.filters:
        relation = filter_rows(relation, each)
    return select_columns(relation, what.columns) if len(what.columns) < len(own.schema.names) else relation


def _whole(placeholder: str, producer: CompiledVertex, written: Sequence[str]) -> Relation:
    """All columns of a producer over a placeholder for what is written of them."""
    schema = producer.schema
    rows = placeholder_relation(placeholder, only(schema, written).json())
    values = {name: sql_expression(quote(name)) for name in written}
    return select_expressions(
        rows, [column(each.name, values.get(each.name) or not_written(producer.name, each)) for each in schema.fields]
    )


def not_written(vertex: str, entry: StructField) -> Any:
    """An expression of the column's type that raises an error; see `find_unwritten`."""
    from pyspark.sql.connect.types import pyspark_types_to_proto_types

    proto = protos()
    name = entry.name
    text = proto.Expression(
        literal=proto.Expression.Literal(
            string=f"{_NOT_WRITTEN} {name!r} of vertex {vertex!r}, because Spark's planner found no reader of it; "
            f"set edge_columns='all' for {vertex!r}"
        )
    )
    fails = proto.Expression(
        unresolved_function=proto.Expression.UnresolvedFunction(function_name="raise_error", arguments=[text])
    )
    return proto.Expression(cast=proto.Expression.Cast(expr=fails, type=pyspark_types_to_proto_types(entry.dataType)))


def find_unwritten(text: str) -> re.Match[str] | None:
    """Column and vertex of a `not_written` in Spark's plan."""
    return re.search(rf"{_NOT_WRITTEN} ('.*?') of vertex ('.*?'),", text)


def _check_unread(
    session: Any,
    relying: Sequence[tuple[CompiledVertex, Mapping[str, CompiledVertex]]],
    written: Mapping[str, Written],
) -> None:
    """Spark's plan of a narrowed template has none of the columns that are not written.

    Args:
        session: as in `narrow_vertices`; asked several things at once.
        relying: narrowed vertices with their narrowed producers by placeholder.
        written: by vertex.

    Raises:
        JobGraphError: it has one.
    """

    def ask(own: CompiledVertex, producers: Mapping[str, CompiledVertex]) -> re.Match[str] | None:
        scans = {
            name: partial(scan_nothing, only(each.schema, written[each.name].columns))
            for name, each in producers.items()
        }
        return find_unwritten(explain(session, proof_copy(own.relation, scans, {})))

    alike: dict[tuple[tuple[str, str], ...], list[tuple[CompiledVertex, Mapping[str, CompiledVertex]]]] = {}
    for own, producers in relying:
        alike.setdefault(tuple(sorted(own.spark_conf.items())), []).append((own, producers))
    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="explain") as pool:
        for group in alike.values():
            with set_conf(session, group[0][0].name, proof_settings(group[0][0])):
                for (own, _), found in zip(group, pool.map(lambda each: ask(*each), group), strict=True):
                    if found:
                        raise JobGraphError(
                            f"vertex {own.name!r}: Spark's plan reads column {found[1]} of vertex {found[2]}, and its "
                            f"planner found no reader of it; set edge_columns='all' for {found[2]}, and report it"
                        )


def _narrowest(schema: StructType) -> str:
    """The column whose type takes the fewest bytes."""
    ranked = [each.name for kind in _NARROW for each in schema.fields if each.dataType.typeName() == kind]
    hashable = [each.name for each in schema.fields if is_hashable(each.dataType)]
    return str([*ranked, *hashable, *schema.names][0])
