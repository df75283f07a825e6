"""Reads from Spark's plan on inputs of unknown distribution which rows its operators bring together, and by what.

Where Spark makes an exchange, or joins two divided sides, the keys are followed down to the columns of the inputs:
through projections, casts, the coalesce() of a full outer join, and unions. What comes out is the argument of
`airflow_abs.core.graph.key_choice`; a key that is computed leads to no column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from airflow_abs.core.graph.key_choice import InputColumn, KeyNeed
from airflow_abs.spark.proof.explained import Operator, PhysicalPlan, split_list
from airflow_abs.spark.proof.joins import join_pairs
from airflow_abs.spark.proof.markers import Marker, find_attributes
from airflow_abs.spark.proof.operators import Rule, rule_of
from airflow_abs.spark.proof.partitions import find_partitions
from airflow_abs.spark.proof.rows import keys_of_exchange, plain_keys
from airflow_abs.spark.proof.walk import output_of

_CAST = re.compile(r"cast\((.+) as [a-z]+(?:\([\d,]+\))?\)", re.DOTALL)
_COALESCE = re.compile(r"coalesce\((.+)\)", re.DOTALL)

Columns = frozenset[InputColumn]


def find_needs(plan: PhysicalPlan, markers: Mapping[str, Marker]) -> list[KeyNeed]:
    """What the operators of a plan need to have together, producers first; columns are those of markers, by name."""
    reading = _Reading(markers)
    for root in (*plan.subqueries, plan.root):
        for operator, parent in reversed(_with_parents(root)):
            reading.visit(operator, parent)
    return reading.needs


@dataclass(slots=True)
class _Reading:
    """What is known so far: by attribute its columns, by operator whether its rows are divided."""

    markers: Mapping[str, Marker]
    columns: dict[str, Columns] = field(default_factory=dict)
    divided: dict[int, bool] = field(default_factory=dict)
    needs: list[KeyNeed] = field(default_factory=list)

    def visit(self, operator: Operator, parent: Operator | None) -> None:
        """One operator; those below it have been visited."""
        rule = rule_of(operator.name)
        self.divided[operator.number] = any(self.divided[child.number] for child in operator.children)
        if rule is Rule.MAP_IN_PANDAS:
            self._read_marker(operator)
        elif rule is Rule.UNION:
            self._unite(operator)
        elif rule is Rule.JOIN and all(self.divided[child.number] for child in operator.children):
            self._need([(one, other) for one, other in join_pairs(operator)])
        elif rule is Rule.COGROUP and all(self.divided[child.number] for child in operator.children):
            left, right = (_exchanged(child) for child in operator.children)
            self._need(list(zip(left, right, strict=False)))
        elif self.divided[operator.number] and (asked := find_partitions(operator)) is not None:
            self._need([(key,) for key in asked.keys])
        elif rule is Rule.EXCHANGE and self.divided[operator.number] and not _is_of_join(parent):
            self._need([(key,) for key in _exchanged(operator)])
        self._name(operator)

    def _read_marker(self, operator: Operator) -> None:
        found = find_attributes(operator, self.markers)
        if found is None:
            return
        marker, attributes = found
        self.divided[operator.number] = not marker.replicated
        for attribute, column in zip(attributes, marker.columns, strict=False):
            self.columns[attribute] = frozenset({InputColumn(marker.name, column)})

    def _unite(self, operator: Operator) -> None:
        """A union's columns are called as in its first input."""
        outputs = [output_of(child) for child in operator.children]
        if len({len(entry) for entry in outputs}) == 1:
            for same in zip(*outputs, strict=True):
                self.columns[same[0]] = frozenset().union(*(self._of(attribute) for attribute in same))

    def _name(self, operator: Operator) -> None:
        for heading in ("Output", "Results"):
            for entry in split_list(operator.detail(heading)):
                value, found, name = entry.rpartition(" AS ")
                if found and (columns := self._of(plain_keys([value])[0])):
                    self.columns[name] = columns

    def _need(self, values: Iterable[tuple[str, ...]]) -> None:
        """Equal values, each in the words of one or both sides; what leads to no column of a side says nothing."""
        known = [[self._of(each) for each in value] for value in values]
        found = [frozenset(chain.from_iterable(sides)) for sides in known if all(sides)]
        if found:
            self.needs.append(KeyNeed(tuple(found)))

    def _of(self, expression: str) -> Columns:
        if expression in self.columns:
            return self.columns[expression]
        if cast := _CAST.fullmatch(expression):
            return self._of(cast[1])
        if coalesce := _COALESCE.fullmatch(expression):
            each = [self._of(part) for part in split_list(coalesce[1])]
            return frozenset().union(*each) if all(each) else frozenset()
        return frozenset()


def _exchanged(operator: Operator) -> tuple[str, ...]:
    """The keys of the exchange that Spark asks for at an operator, or right below its sort."""
    while rule_of(operator.name) is Rule.SORT:
        (operator,) = operator.children
    arguments = operator.detail("Arguments")
    asked = rule_of(operator.name) is Rule.EXCHANGE and "ENSURE_REQUIREMENTS" in arguments
    return (keys_of_exchange(arguments) or ()) if asked else ()


def _is_of_join(parent: Operator | None) -> bool:
    return parent is not None and rule_of(parent.name) in (Rule.JOIN, Rule.COGROUP)


def _with_parents(root: Operator) -> list[tuple[Operator, Operator | None]]:
    """All operators, parents first, each with the one above it; sorts are looked through."""
    waiting: list[tuple[Operator, Operator | None]] = [(root, None)]
    found = []
    while waiting:
        operator, parent = waiting.pop()
        found.append((operator, parent))
        above = parent if rule_of(operator.name) is Rule.SORT else operator
        waiting.extend((child, above) for child in operator.children)
    return found
