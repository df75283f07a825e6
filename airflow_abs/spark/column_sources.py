"""Follows the columns of a sink to the columns of the sources that they are computed from, for lineage.

It reads the physical plans that Spark made for the proof, so it asks Spark nothing. A column that passes through what
is not read here (a Python function over groups or partitions, a cube, a vertex that needed no proof) has no known
sources: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_abs.exchange.sources.planned_source import SourceColumn
from airflow_abs.spark.compile.vertices import CompiledVertex
from airflow_abs.spark.proof import Proof
from airflow_abs.spark.proof.explained import Operator, PhysicalPlan, split_list
from airflow_abs.spark.proof.markers import Marker, find_attributes
from airflow_abs.spark.proof.operators import Rule, rule_of
from airflow_abs.spark.proof.prover import marker_name
from airflow_abs.spark.proof.walk import output_of

_ID = re.compile(r"#\d+L?")
_OWN_ID = re.compile(r"#\d+L?$")

Columns = frozenset[SourceColumn]
Behind = Mapping[str, Columns]
"""What is known of each column of an input."""


def find_column_sources(
    vertices: Iterable[str],
    compiled: Mapping[str, CompiledVertex],
    proofs: Mapping[str, Proof],
    wanted: Collection[str],
) -> dict[str, dict[str, tuple[SourceColumn, ...]]]:
    """The source columns from which each column of the `wanted` vertices is computed, sorted; by vertex and column.

    Left out are columns of unknown sources, and columns that only decide which rows there are.

    Args:
        vertices: all of the graph, producers first.
    """
    known: dict[str, dict[str, Columns]] = {}
    for name in vertices:
        proof = proofs[name]
        known[name] = {}
        if proof.plan is not None:
            leaves = {marker: _behind(marker, compiled, known) for marker in proof.markers}
            known[name] = trace_columns(proof.plan, proof.markers, leaves, compiled[name].schema.names)
    return {name: {column: tuple(sorted(found)) for column, found in known[name].items()} for name in wanted}


def _behind(marker: str, compiled: Mapping[str, CompiledVertex], known: Mapping[str, dict[str, Columns]]) -> Behind:
    for vertex in compiled.values():
        for source in vertex.sources:
            if marker == marker_name("divided", source.placeholder):
                return {column: frozenset({SourceColumn(source.name, column)}) for column in source.columns}
        for placeholder, edge in vertex.inputs.items():
            if marker in (marker_name("divided", placeholder), marker_name("replicated", placeholder)):
                return known.get(edge.producer, {})
    return {}


def trace_columns(
    plan: PhysicalPlan, markers: Mapping[str, Marker], leaves: Mapping[str, Behind], names: list[str]
) -> dict[str, Columns]:
    """The same of one plan; `leaves` are by marker, `names` the plan's columns."""
    tracing = _Tracing(markers, leaves)
    for operator in reversed(plan.operators()):
        tracing.visit(operator)
    output = _output(plan.root)
    if [attribute.rpartition("#")[0] for attribute in output] != names:
        return {}
    traced = zip(names, map(tracing.of, output), strict=True)
    return {name: columns for name, columns in traced if columns is not None}


@dataclass(slots=True)
class _Tracing:
    """What is known so far: by number of an attribute its text and its columns."""

    markers: Mapping[str, Marker]
    leaves: Mapping[str, Behind]
    known: dict[str, tuple[str, Columns]] = field(default_factory=dict)

    def visit(self, operator: Operator) -> None:
        """One operator; those below it have been visited."""
        if rule_of(operator.name) is Rule.UNION:
            self._unite(operator)
            return
        self._read_marker(operator)
        for expression, attribute in _computed(operator):
            columns = self.of(expression)
            if columns is not None:
                self._know(attribute, columns)

    def of(self, expression: str) -> Columns | None:
        """All that an expression mentions; None if something in it is no attribute that is known, or a literal that
        looks like one."""
        columns: Columns = frozenset()
        for mention in _ID.finditer(expression):
            text, found = self.known.get(mention[0], ("", frozenset()))
            if not text or not expression[: mention.end()].endswith(text):
                return None
            columns |= found
        return columns

    def _know(self, attribute: str, columns: Columns) -> None:
        if own := _OWN_ID.search(attribute):
            self.known[own[0]] = attribute, columns

    def _read_marker(self, operator: Operator) -> None:
        found = find_attributes(operator, self.markers)
        if found is None:
            return
        marker, attributes = found
        for attribute, column in zip(attributes, marker.columns, strict=False):
            if column in self.leaves[marker.name]:
                self._know(attribute, self.leaves[marker.name][column])

    def _unite(self, operator: Operator) -> None:
        """A union's columns are called as in its first input."""
        outputs = [_output(child) for child in operator.children]
        if len({len(entry) for entry in outputs}) != 1 or not outputs[0]:
            self.known.clear()  # names of the first input now mean the others' columns, too
            return
        united = [[self.of(attribute) for attribute in same] for same in zip(*outputs, strict=True)]
        for attribute, each in zip(outputs[0], united, strict=True):
            if None not in each:
                self._know(attribute, frozenset().union(*(columns or () for columns in each)))
            elif own := _OWN_ID.search(attribute):
                self.known.pop(own[0], None)


def _output(operator: Operator) -> list[str]:
    """An operator's attributes, also where Spark does not list them; nothing if they are not known."""
    rule, listed = rule_of(operator.name), output_of(operator)
    if listed or not operator.children:
        return listed
    match operator.name, _arguments(operator):
        case "MapInPandas", [_, made, *_]:
            return split_list(made)
        case "Generate", [_, passed_on, *_, made]:
            return [*split_list(passed_on), *split_list(made)]
    if rule is Rule.UNION or (rule is Rule.JOIN and re.search("LeftSemi|LeftAnti", operator.name)):
        return _output(operator.children[0])
    if rule is Rule.JOIN and "Existence" not in operator.name:
        left, right = map(_output, operator.children)
        return [*left, *right] if left and right else []
    return []


def _arguments(operator: Operator) -> list[str]:
    """Each as Spark shows it; the space keeps the brackets of the first and the last."""
    return split_list(operator.detail("Arguments") + " ")


def _computed(operator: Operator) -> Iterator[tuple[str, str]]:
    """The attributes that an operator makes, each with the expression that it is."""
    functions, aggregates = (split_list(operator.detail(each)) for each in ("Functions", "Aggregate Attributes"))
    if len(functions) == len(aggregates):
        yield from zip(functions, aggregates, strict=True)
    listed = [*split_list(operator.detail("Output")), *split_list(operator.detail("Results"))]
    match operator.name, _arguments(operator):
        case "ArrowEvalPython" | "BatchEvalPython", [calls, made, *_]:
            values = [_OWN_ID.sub("", call) for call in split_list(calls)]
            if len(values) == len(split_list(made)):
                yield from zip(values, split_list(made), strict=True)
        case "Generate", [generator, _, *_, made]:
            yield from ((generator, name) for name in split_list(made))
        case "Window", [made, *_]:
            listed += split_list(made)
    for entry in listed:
        expression, separator, name = entry.rpartition(" AS ")
        if separator:
            yield expression, name
