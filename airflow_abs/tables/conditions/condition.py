"""`where` of a table: one condition that chooses files by pyiceberg and rows by Spark, with the same meaning for both.

The grammar is pyiceberg's and not Spark's SQL: `"col"` is a column, a backslash is a character, `LIKE` takes a prefix.
So the text is parsed once, bound to the columns, and what was understood is written as SQL for Spark. What holds is
SQL's three-valued logic (a row whose value is NULL is not unequal to anything, nor outside of a list) and that NaN is
neither smaller nor larger than a number, though Spark's own order has it as the largest: files are chosen so, too.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyiceberg.expressions import (
    BooleanExpression,
    BoundPredicate,
    BoundTerm,
    IsNull,
    LiteralPredicate,
    NotNull,
    Reference,
    SetPredicate,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, BoundBooleanExpressionVisitor, rewrite_not, visit
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
)
from pyparsing import ParseBaseException

from airflow_abs.core.sql_names import quote
from airflow_abs.tables.conditions.literals import spark_literal
from airflow_abs.tables.errors import TableError

_LIKE = re.compile(r"\blike\s*'((?:[^']|'')*)'", re.IGNORECASE)
_NOT_A_PREFIX = re.compile(r"_|\\(?!%)")
_NUMBER = ("a number", (int, Decimal))
_WORDS: dict[type[IcebergType], tuple[str, tuple[type, ...]]] = {
    **dict.fromkeys((IntegerType, LongType, FloatType, DoubleType, DecimalType), _NUMBER),
    BooleanType: ("true or false", (bool,)),
}
"""How literals of a type are written, and as what they are read; all others are texts."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that a table understood: `expression` chooses files, `sql` chooses rows in Spark."""

    expression: BooleanExpression
    sql: str


def read_condition(table: str, schema: Schema, where: str) -> Condition:
    """Understand a condition on the columns of `schema`.

    Raises:
        TableError: it is not understood, names a column that is not there, or would not mean the same to both; names
            `table`.
    """
    try:
        _check_patterns(where)
        expression = rewrite_not(parse(where))
        return Condition(expression, visit(expression, _SparkSql(schema)))
    except ParseBaseException as error:
        reason = f"it is not understood from {error.line[error.column - 1 :]!r} on"
        raise _refusal(table, where, reason) from error
    except (ValueError, TypeError, ArithmeticError) as error:  # no such column, or a literal of another type
        raise _refusal(table, where, str(error).partition("\n")[0]) from error


def sql_of(schema: Schema, expression: BooleanExpression) -> str:
    """Spark's SQL of a part of a condition that was read."""
    return visit(expression, _SparkSql(schema))


def _refusal(table: str, where: str, why: str) -> TableError:
    return TableError(
        f"table {table}: where={where!r} cannot be used to choose files: {why}; expected comparisons of columns with "
        "literals, such as \"day >= '2026-01-01' AND region = 'north'\". Put other conditions into a filter of the "
        "transform"
    )


def _check_patterns(where: str) -> None:
    for pattern in _LIKE.findall(where):
        if _NOT_A_PREFIX.search(pattern):
            raise ValueError(
                f"LIKE '{pattern}' has a wildcard _ or an escape, and only prefixes can be looked for (LIKE 'north%')"
            )


class _Connectives(BooleanExpressionVisitor[str]):
    """What joins predicates, bound or not."""

    def visit_true(self) -> str:
        return "TRUE"

    def visit_false(self) -> str:
        return "FALSE"

    def visit_not(self, child_result: str) -> str:
        return f"(NOT {child_result})"

    def visit_and(self, left_result: str, right_result: str) -> str:
        return f"({left_result} AND {right_result})"

    def visit_or(self, left_result: str, right_result: str) -> str:
        return f"({left_result} OR {right_result})"


class _SparkSql(_Connectives):
    """Unbound on the way in: only there it is seen what a literal was before it took the type of its column."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._bound = _BoundSql(schema)

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> str:
        if not isinstance(predicate.term, Reference):
            raise TypeError(f"{predicate.term} is not a column")
        field = self._schema.find_field(predicate.term.name)
        path = self._bound.path(field)
        for literal in _literals(predicate):
            _check_literal(field, literal)
        if isinstance(predicate, IsNull | NotNull) and field.required and len(path) > 1:
            raise ValueError(f"{field.name!r} is NULL where its struct is, and nowhere else; ask for the struct")
        return visit(predicate.bind(self._schema, case_sensitive=True), self._bound)

    def visit_bound_predicate(self, predicate: BoundPredicate) -> str:
        return visit(predicate, self._bound)


def _literals(predicate: UnboundPredicate) -> Iterable[Literal[Any]]:
    match predicate:
        case LiteralPredicate():
            return (predicate.literal,)
        case SetPredicate():
            return predicate.literals
    return ()


def _check_literal(field: NestedField, literal: Literal[Any]) -> None:
    """Taking the type of a column must leave the value as it was written."""
    kind, value = field.field_type, literal.value
    expected, types = _WORDS.get(type(kind), ("a string in single quotes", (str,)))
    if isinstance(value, bool) != isinstance(kind, BooleanType) or not isinstance(value, types):
        raise ValueError(f"column {field.name!r} is of type {kind}, expected {expected} instead of {value!r}")
    if isinstance(kind, IntegerType | LongType | FloatType | DecimalType) and not _holds(kind, literal):
        raise ValueError(f"column {field.name!r} is of type {kind}, which cannot hold {value} exactly")


def _holds(kind: IcebergType, literal: Literal[Any]) -> bool:
    """For a float: files have its bounds in four bytes, and the literal has eight. A double is as in SQL."""
    value = literal.to(kind).value  # of a number out of the type's bounds: the bound
    if isinstance(kind, FloatType):
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return Decimal(value) == Decimal(literal.value)


class _BoundSql(_Connectives, BoundBooleanExpressionVisitor[str]):
    """Predicates of columns. NULL makes them NULL, which is no row."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def path(self, field: NestedField) -> tuple[str, ...]:
        """The names that lead to a field through structs.

        Raises:
            ValueError: it is in a list or a map.
        """
        path = find_path(self._schema.fields, field.field_id)
        if path is None:
            raise ValueError(f"{field.name!r} is in a list or a map, which has many values in a row")
        return path

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> str:
        listed = ", ".join(sorted(self._literal(term, value) for value in literals))
        return f"({self._column(term)} IN ({listed}))"

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> str:
        return f"(NOT {self.visit_in(term, literals)})"

    def visit_is_nan(self, term: BoundTerm) -> str:
        return f"isnan({self._column(term)})"

    def visit_not_nan(self, term: BoundTerm) -> str:
        column = self._column(term)
        return f"({column} IS NOT NULL AND NOT isnan({column}))"

    def visit_is_null(self, term: BoundTerm) -> str:
        return f"({self._column(term)} IS NULL)"

    def visit_not_null(self, term: BoundTerm) -> str:
        return f"({self._column(term)} IS NOT NULL)"

    def visit_equal(self, term: BoundTerm, literal: Any) -> str:
        return self._compare(term, "=", literal)

    def visit_not_equal(self, term: BoundTerm, literal: Any) -> str:
        return self._compare(term, "<>", literal)

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Any) -> str:
        return self._without_nan(term, self._compare(term, ">=", literal))

    def visit_greater_than(self, term: BoundTerm, literal: Any) -> str:
        return self._without_nan(term, self._compare(term, ">", literal))

    def visit_less_than(self, term: BoundTerm, literal: Any) -> str:
        return self._compare(term, "<", literal)

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Any) -> str:
        return self._compare(term, "<=", literal)

    def visit_starts_with(self, term: BoundTerm, literal: Any) -> str:
        if not isinstance(term.ref().field.field_type, StringType):
            raise TypeError(f"column {term.ref().field.name!r} is not a string, and LIKE looks for prefixes of strings")
        return f"startswith({self._column(term)}, {self._literal(term, literal)})"

    def visit_not_starts_with(self, term: BoundTerm, literal: Any) -> str:
        return f"(NOT {self.visit_starts_with(term, literal)})"

    def _compare(self, term: BoundTerm, operator: str, literal: Any) -> str:
        return f"({self._column(term)} {operator} {self._literal(term, literal)})"

    def _without_nan(self, term: BoundTerm, comparison: str) -> str:
        if not isinstance(term.ref().field.field_type, FloatType | DoubleType):
            return comparison
        return f"({comparison} AND NOT isnan({self._column(term)}))"

    def _column(self, term: BoundTerm) -> str:
        return ".".join(map(quote, self.path(term.ref().field)))

    def _literal(self, term: BoundTerm, literal: Any) -> str:
        """`literal` is one of pyiceberg's, or in a set its value."""
        value = literal.value if isinstance(literal, Literal) else literal
        return spark_literal(term.ref().field.field_type, value)


def find_path(fields: Iterable[NestedField], field_id: int) -> tuple[str, ...] | None:
    """The names that lead to a field through structs; None if it is in a list or a map."""
    for field in fields:
        if field.field_id == field_id:
            return (field.name,)
        inside = field.field_type.fields if isinstance(field.field_type, StructType) else ()
        if (path := find_path(inside, field_id)) is not None:
            return (field.name, *path)
    return None
