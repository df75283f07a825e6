"""`where` of a catalog table: what of it is true or false of whole partitions chooses them, all of it chooses rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or, Reference, UnboundPredicate
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, visit

from airflow_abs.tables.conditions.condition import read_condition, sql_of
from airflow_abs.tables.conditions.spark_types import schema_of


@dataclass(frozen=True, slots=True)
class ChosenBy:
    """`rows` is SQL of the condition, `partitions` SQL of what it says of partition columns, None if nothing."""

    rows: str
    partitions: str | None


def condition_on(table: str, columns: Sequence[Mapping[str, Any]], partitions: Collection[str], where: str) -> ChosenBy:
    """Understand a condition on a table's columns; errors as `read_condition`."""
    schema = schema_of(columns)
    understood = read_condition(table, schema, where)
    of_partitions = visit(understood.expression, _OfColumns(partitions))
    return ChosenBy(understood.sql, None if of_partitions == AlwaysTrue() else sql_of(schema, of_partitions))


class _OfColumns(BooleanExpressionVisitor[BooleanExpression]):
    """A condition without NOT, less what it says of other columns: true wherever the whole may be."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        return AlwaysTrue()  # conditions come without NOT

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        return (
            predicate if isinstance(predicate.term, Reference) and predicate.term.name in self._names else AlwaysTrue()
        )

    def visit_bound_predicate(self, predicate: Any) -> BooleanExpression:
        return AlwaysTrue()
