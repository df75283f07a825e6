"""Finds where a transform joins its source with what another vertex returns, so that `prune=` would change no row.

It follows the physical plan that was read for the proof, from the source upwards, as long as each row is handled by
itself. If a join on that path drops rows of the source that have no partner, only rows whose key the other vertex has
can reach the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.exchange.sources.pruned_by import VertexColumn, pruning_kind
from airflow_abs.spark.compile.vertices import CompiledVertex
from airflow_abs.spark.proof.explained import Operator, PhysicalPlan
from airflow_abs.spark.proof.joins import join_keys, join_type
from airflow_abs.spark.proof.markers import Marker, find_attributes
from airflow_abs.spark.proof.operators import Rule, rule_of
from airflow_abs.spark.proof.prove import Proof
from airflow_abs.spark.proof.prover import marker_name

_ROW_BY_ROW = frozenset({"Project", "Filter", "Exchange", "BroadcastExchange", "Sort", "Coalesce", "ColumnarToRow"})
_LEFT, _RIGHT = 0, 1
_DROPS_UNMATCHED = {
    _LEFT: frozenset({"Inner", "LeftSemi", "RightOuter"}),
    _RIGHT: frozenset({"Inner", "LeftSemi", "LeftOuter", "LeftAnti", "ExistenceJoin"}),
}
"""Kinds of joins, by the source's side, for which its rows without a partner might as well not exist."""
_PASSES_ON = {
    _LEFT: frozenset({"Inner", "Cross", "LeftSemi", "LeftOuter", "LeftAnti", "ExistenceJoin"}),
    _RIGHT: frozenset({"Inner", "Cross", "RightOuter"}),
}
"""Kinds of joins whose every row comes from one row of the source, by its side."""


@dataclass(frozen=True, slots=True)
class JoinedColumn:
    """Of the source of `vertex` only rows are needed whose `column` has one of the values of `values`."""

    vertex: str
    column: str
    values: VertexColumn

    def describe(self) -> str:
        """What the author could write."""
        return (
            f"vertex {self.vertex!r}: joins its source on {self.column}, by which the source is partitioned, with "
            f"{self.values}; with prune={{{self.column!r}: {self.values.vertex}.column({self.values.column!r})}} on "
            "the source, only partitions with these values would be read and counted"
        )


def find_joined_columns(graph: JobGraph, compiled: Mapping[str, CompiledVertex], proof: Proof) -> list[JoinedColumn]:
    """Those of one vertex, at most one for each column; none if its transform needed no proof."""
    if proof.plan is None:
        return []
    vertex = compiled[proof.vertex]
    producers = {
        marker_name(kind, placeholder): edge.producer
        for placeholder, edge in vertex.inputs.items()
        for kind in ("replicated", "divided")
        if graph.crosses_regions(edge) and edge.prunes is None
    }
    found: dict[str, JoinedColumn] = {}
    for source in vertex.sources:
        pruned = {by.column for by in source.pruned_by}
        for column, marker, other in _compared(proof.plan, proof.markers):
            producer = producers.get(marker)
            if producer is None or column in pruned:
                continue
            kind = pruning_kind(source.type_of(column))
            if kind is not None and kind == pruning_kind(compiled[producer].schema[other].dataType.jsonValue()):
                found.setdefault(column, JoinedColumn(proof.vertex, column, VertexColumn(producer, other)))
    return list(found.values())


def _compared(plan: PhysicalPlan, markers: Mapping[str, Marker]) -> Iterator[tuple[str, str, str]]:
    """Columns of the one source, each with the marker of an input and a column of that."""
    operators = plan.operators()
    parents = {child.number: operator for operator in operators for child in operator.children}
    columns: dict[str, tuple[Marker, str]] = {}
    sources = []
    for operator in operators:
        found = find_attributes(operator, markers)
        if found is not None:
            marker, attributes = found
            columns |= {each: (marker, name) for each, name in zip(attributes, marker.columns, strict=False)}
            sources += [operator] if marker.source else []
    if len(sources) != 1:  # what one reading of it drops may be needed by the other
        return
    for join, side in _joins_above(sources[0], parents):
        for pair in zip(*join_keys(join), strict=False):  # of a null-safe comparison neither key is a plain column
            own, other = columns.get(pair[side]), columns.get(pair[1 - side])
            if own is not None and other is not None and own[0].source and not other[0].source:
                yield own[1], other[0].name, other[1]


def _joins_above(operator: Operator, parents: Mapping[int, Operator]) -> Iterator[tuple[Operator, int]]:
    """The joins on the way up that drop rows without a partner, each with the side from which the rows come."""
    while parent := parents.get(operator.number):
        if rule_of(parent.name) is Rule.JOIN:
            side, kind = parent.children.index(operator), join_type(parent)
            if kind in _DROPS_UNMATCHED[side]:
                yield parent, side
            if kind not in _PASSES_ON[side]:
                return
        elif parent.name not in _ROW_BY_ROW:
            return
        operator = parent
