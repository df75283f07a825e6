"""Which files of a Delta table may hold rows for which a condition is true: by partition values and statistics.

Statistics are what writers say, in JSON: texts are cut off, times lose what is below a millisecond, and long decimals
went through a float. So bounds are widened, or not used, until they hold for every value of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression, BoundTerm
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, bind, visit
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampType,
    TimestamptzType,
)

from airflow_abs.core.pruning.value_ranges import Span, comparable
from airflow_abs.tables.conditions.condition import Condition, find_path, read_condition
from airflow_abs.tables.conditions.spark_types import schema_of
from airflow_abs.tables.delta.columns import DeltaColumns, Field, stored_path
from airflow_abs.tables.delta.partition_values import internal

_MICROS_LOST = 1_000
_DIGITS_OF_A_FLOAT = 15


def condition_on(name: str, columns: DeltaColumns, where: str) -> tuple[Condition, Schema]:
    """Understand a condition on a table's columns; errors as `read_condition`."""
    schema = schema_of(columns.fields)
    return read_condition(name, schema, where), schema


def choose_files(condition: Condition, schema: Schema, stored: Sequence[Field], adds: pa.Table) -> list[int]:
    """Numbers of the rows of `adds` (the add actions) that name files to be read.

    Args:
        condition, schema: of `condition_on`.
        stored: the table's fields, with the names that statistics have.
    """
    expression: BooleanExpression = bind(schema, condition.expression, case_sensitive=True)
    statistics = _Statistics(schema, stored, adds)
    return [number for number in range(adds.num_rows) if visit(expression, _MayHold(statistics, number))]


def spans_of(columns: DeltaColumns, stored: Sequence[Field], adds: pa.Table, column: str) -> list[Span | None]:
    """Least and greatest value of a column in each file that `adds` name; as `Pin.spans`."""
    schema = schema_of(columns.fields)
    field = next((field for field in schema.fields if field.name == column), None)
    if field is None or isinstance(field.field_type, FloatType | DoubleType | StructType | ListType | MapType):
        return [None] * adds.num_rows
    return [_span(bounds) for bounds in _Statistics(schema, stored, adds).read(field)]


def _span(bounds: _Bounds) -> Span | None:
    if bounds.has_values is False:
        return ()
    if bounds.low is None or bounds.high is None:
        return None
    try:
        return (comparable(bounds.low), comparable(bounds.high))
    except TypeError:
        return None


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What is known of a column in a file; None is unknown. `exact` is a partition value: every row's own."""

    low: Any = None
    high: Any = None
    has_nulls: bool | None = None
    has_values: bool | None = None
    exact: bool = False


@dataclass(slots=True)
class _Statistics:
    """Bounds by field and file, taken from the add actions as they are asked for."""

    schema: Schema
    stored: Sequence[Field]
    adds: pa.Table
    known: dict[int, list[_Bounds]] = field(default_factory=dict)

    def of(self, term: BoundTerm, number: int) -> _Bounds:
        column = term.ref().field
        if column.field_id not in self.known:
            self.known[column.field_id] = self.read(column)
        return self.known[column.field_id][number]

    def read(self, column: NestedField) -> list[_Bounds]:
        """Of one column in all files."""
        path = find_path(self.schema.fields, column.field_id) or ()
        if (constants := self._column("partition", path)) is not None:
            return [_constant(value) for value in constants]
        stored = stored_path(self.stored, path)
        unknown = [None] * self.adds.num_rows
        rows = self.adds["num_records"].to_pylist()
        nulls = self._column("null_count", stored) or unknown
        lows, highs = unknown, unknown
        if not (isinstance(column.field_type, DecimalType) and column.field_type.precision > _DIGITS_OF_A_FLOAT):
            lows, highs = self._column("min", stored) or unknown, self._column("max", stored) or unknown
        lost = _MICROS_LOST if isinstance(column.field_type, TimestampType | TimestamptzType) else 0
        return [_bounds(*each, lost) for each in zip(lows, highs, nulls, rows, strict=True)]

    def _column(self, kind: str, path: Sequence[str]) -> list[Any] | None:
        """The values for all files; None if the log has none of that kind."""
        if kind not in self.adds.column_names:
            return None
        found: Any = self.adds[kind].combine_chunks()
        for name in path:
            if not pa.types.is_struct(found.type) or found.type.get_field_index(name) < 0:
                return None
            # Of a struct that is NULL as a whole the fields are.
            found = found.flatten()[found.type.get_field_index(name)]
        return None if pa.types.is_struct(found.type) else list(found.to_pylist())


def _constant(value: Any) -> _Bounds:
    own = None if value == "" else internal(value)
    return _Bounds(own, own, has_nulls=own is None, has_values=own is not None, exact=True)


def _bounds(low: Any, high: Any, nulls: int | None, rows: int | None, lost: int) -> _Bounds:
    low, high = (None if value != value else internal(value) for value in (low, high))  # noqa: PLR0124 - NaN
    if high is not None and lost:
        high += lost
    has_nulls = None if nulls is None else nulls > 0
    return _Bounds(low, high, has_nulls, has_values=None if nulls is None or rows is None else nulls < rows)


@dataclass(slots=True)
class _MayHold(BoundBooleanExpressionVisitor[bool]):
    """Whether a file may hold a row for which a bound condition, without NOT, is true."""

    statistics: _Statistics
    number: int

    def visit_true(self) -> bool:
        return True

    def visit_false(self) -> bool:
        return False

    def visit_not(self, child_result: bool) -> bool:
        return True  # conditions come without NOT

    def visit_and(self, left_result: bool, right_result: bool) -> bool:
        return left_result and right_result

    def visit_or(self, left_result: bool, right_result: bool) -> bool:
        return left_result or right_result

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> bool:
        return any(self.visit_equal(term, literal) for literal in literals)

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> bool:
        return all(self.visit_not_equal(term, literal) for literal in literals)

    def visit_is_nan(self, term: BoundTerm) -> bool:
        return self._bounds(term).has_values is not False

    def visit_not_nan(self, term: BoundTerm) -> bool:
        return self._bounds(term).has_values is not False

    def visit_is_null(self, term: BoundTerm) -> bool:
        return self._bounds(term).has_nulls is not False

    def visit_not_null(self, term: BoundTerm) -> bool:
        return self._bounds(term).has_values is not False

    def visit_equal(self, term: BoundTerm, literal: Any) -> bool:
        return self.visit_less_than_or_equal(term, literal) and self.visit_greater_than_or_equal(term, literal)

    def visit_not_equal(self, term: BoundTerm, literal: Any) -> bool:
        found = self._bounds(term)
        return found.has_values is not False and not (found.exact and found.low == _value(literal))

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Any) -> bool:
        found = self._bounds(term)
        return found.has_values is not False and (found.high is None or bool(found.high >= _value(literal)))

    def visit_greater_than(self, term: BoundTerm, literal: Any) -> bool:
        found = self._bounds(term)
        return found.has_values is not False and (found.high is None or bool(found.high > _value(literal)))

    def visit_less_than(self, term: BoundTerm, literal: Any) -> bool:
        found = self._bounds(term)
        return found.has_values is not False and (found.low is None or bool(found.low < _value(literal)))

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Any) -> bool:
        found = self._bounds(term)
        return found.has_values is not False and (found.low is None or bool(found.low <= _value(literal)))

    def visit_starts_with(self, term: BoundTerm, literal: Any) -> bool:
        found, prefix = self._bounds(term), _value(literal)
        if found.has_values is False:
            return False
        below = found.high is not None and found.high[: len(prefix)] < prefix
        above = found.low is not None and found.low[: len(prefix)] > prefix
        return not below and not above

    def visit_not_starts_with(self, term: BoundTerm, literal: Any) -> bool:
        found = self._bounds(term)
        return found.has_values is not False and not (found.exact and found.low.startswith(_value(literal)))

    def _bounds(self, term: BoundTerm) -> _Bounds:
        return self.statistics.of(term, self.number)


def _value(literal: Any) -> Any:
    """`literal` is one of pyiceberg's, or in a set its value."""
    return literal.value if isinstance(literal, Literal) else literal
