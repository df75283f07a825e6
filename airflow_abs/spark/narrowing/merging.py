"""Aggregates that merge exactly: what is computed of the rows, and what of that gives the value of plain Spark.

A function is listed with the types for which `tests/spark/narrowing/test_partial_aggregates.py` shows that the merged
type, NULL, NaN, overflow and rounding equal those of one aggregate over all rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_abs.core.sql_names import quote
from airflow_abs.spark.connect.protocol import protos

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_AROUND = frozenset(
    {"+", "-", "*", "/", "%", "negative", "==", "<=>", "<", "<=", ">", ">=", "!=", "and", "or", "not", "when"}
    | {"coalesce", "round", "nullif", "ifnull", "isnull", "isnotnull", "greatest", "least", "abs", "struct"}
)
"""Functions of one row that may stand around aggregates."""
_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_FLOATING = frozenset({"float", "double"})
_ORDERED = _INTEGERS | _FLOATING | {"boolean", "date", "timestamp", "timestamp_ntz", "decimal", "binary", "string"}
_SAME_AGAIN = {
    **dict.fromkeys(("min", "max"), _ORDERED),
    **dict.fromkeys(("bool_and", "every", "bool_or", "some", "any"), frozenset({"boolean"})),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), _INTEGERS),
}
"""Functions that merge their own results, by types of arguments."""
_AVERAGES = ("avg", "mean")
_MERGED = frozenset({"count", "sum", *_AVERAGES, *_SAME_AGAIN})
_MOST_DIGITS_ADDED = 28
"""Of decimals whose partial sums have room for 10^10 rows; one that overflows is NULL, and would be passed over."""
_MOST_DIGITS_AS_DOUBLE = 11
"""Of decimals whose averages Spark computes as doubles."""
_MOST_DIGITS_DIVIDED, _MOST_SCALE_DIVIDED = 21, 9
"""Decimals up to here keep enough digits to divide a sum by 10^12 rows and round as Spark does."""

_QUOTED_WORD = re.compile(r"`(\w+)`")


class NotMergedError(Exception):
    """Why an edge carries rows, for the log."""


@dataclass(slots=True)
class PartialColumns:
    """The columns of partial results so far: what they are of the rows, by name; and the aggregates in words.

    `holder` is the struct in which those that are added from now on reach the aggregate, "" if they reach it as they
    are; `holders` has it by column. `may_drop` says whether some partial results are dropped before they are merged,
    and `is_ansi` whether sums that overflow are errors.
    """

    expressions: dict[str, Any] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    holder: str = ""
    holders: dict[str, str] = field(default_factory=dict)
    may_drop: bool = False
    is_ansi: bool = True

    def take(self, name: str) -> str:
        """The name, or one like it that no column has."""
        free = next(each for each in (name, *(f"{name}_{n}" for n in range(1, 1000))) if each.lower() not in self.taken)
        self.taken.add(free.lower())
        return free

    def add(self, name: str, expression: Any) -> str:
        """A column of this expression, quoted for SQL; the one that there is if there is one."""
        known = next((each for each, other in self.expressions.items() if other == expression), None)
        if known is None:
            known = self.take(name)
            self.expressions[known] = expression
            self.holders[known] = self.holder
        return self.refer(known)

    def refer(self, name: str) -> str:
        """SQL for a column where the aggregate reads it."""
        holder = self.holders[name]
        return f"{quote(holder)}.{quote(name)}" if holder else quote(name)

    def count_rows(self) -> str:
        """The column that counts rows, which is added if no aggregate needs it."""
        known = next((name for name, each in self.expressions.items() if counts_rows(each)), None)
        if known is None:
            known = self.take("rows")
            self.expressions[known] = call_function("count", long_literal(1))
            self.holders[known] = self.holder
        return known


def find_calls(expression: Any) -> list[Any]:
    """The calls of aggregates in one output of an aggregate.

    Raises:
        NotMergedError: there is something else than functions of them.
    """
    waiting, found = [expression], []
    while waiting:
        each = waiting.pop()
        kind = each.WhichOneof("expr_type")
        if kind == "alias":
            waiting.append(each.alias.expr)
        elif kind == "cast":
            waiting.append(each.cast.expr)
        elif kind == "unresolved_function" and not each.unresolved_function.is_user_defined_function:
            name = each.unresolved_function.function_name.lower()
            if name in _MERGED:
                if not counts_rows(each) and any(_is_star(value) for value in _arguments(each)):
                    raise NotMergedError(f"{describe(each)} is about several columns")
                found.append(each)
            elif name in _AROUND:
                waiting += each.unresolved_function.arguments
            else:
                raise NotMergedError(f"{name}() is not one of the functions that merge exactly")
        elif kind != "literal":
            raise NotMergedError(f"{describe(each)} is no call of an aggregate that can be read")
    return found


def replace_calls(expression: Any, merged: Mapping[bytes, Any]) -> Any:
    """A copy of one output of an aggregate with others in the place of its calls, by `key_of`."""
    replaced = protos().Expression()
    replaced.CopyFrom(expression)
    for each in find_calls(replaced):
        each.CopyFrom(merged[key_of(each)])
    return replaced


def merge_call(call: Any, types: Sequence[DataType], columns: PartialColumns) -> str:
    """SQL for one aggregate over partial results, which are added to `columns`.

    Args:
        call: of no distinct values.
        types: of its arguments.
        columns: of the partial results.

    Raises:
        NotMergedError: this function does not merge exactly for these types.
    """
    name, arguments, told = call.unresolved_function.function_name.lower(), _arguments(call), describe(call)
    columns.told.append(told)
    if name == "count":
        return f"coalesce(sum({columns.add('rows' if counts_rows(call) else told, call)}), 0L)"
    if len(arguments) != 1 or (call.unresolved_function.is_distinct and name not in ("min", "max")):
        raise NotMergedError(f"{told} does not merge exactly")
    (kind,) = types
    merged = None
    if kind.typeName() in _SAME_AGAIN.get(name, ()) and _is_plain(kind):
        merged = f"{name}({columns.add(told, call)})"
    elif name == "sum":
        merged = _merge_sum(call, kind, columns)
    elif name in _AVERAGES:
        merged = _merge_average(call, kind, columns)
    if merged is None:
        raise NotMergedError(f"{told} of {kind.simpleString()} does not merge exactly")
    return merged


def _merge_sum(call: Any, kind: DataType, columns: PartialColumns) -> str | None:
    name: Any = kind.typeName()
    if name == "long" and columns.may_drop and columns.is_ansi:
        return _merge_sum_of_long(call, columns)
    if name in _INTEGERS | _FLOATING:
        return f"sum({columns.add(describe(call), call)})"
    if name == "decimal" and kind.precision <= _MOST_DIGITS_ADDED:
        added = columns.add(describe(call), call)
        return f"CAST(sum({added}) AS DECIMAL({kind.precision + 10}, {kind.scale}))"
    return None


def _merge_sum_of_long(call: Any, columns: PartialColumns) -> str:
    """A partial sum that overflows is an error only if it is merged: plain Spark adds no rows that are dropped."""
    added = columns.add(describe(call), _renamed(call, "try_sum"))
    counted = columns.add(f"count({describe(*_arguments(call))})", _renamed(call, "count"))
    overflows = f"9223372036854775807L + {counted}"
    return f"sum(CASE WHEN {added} IS NULL AND {counted} > 0 THEN {overflows} ELSE {added} END)"


def _merge_average(call: Any, kind: Any, columns: PartialColumns) -> str | None:
    """As Spark's `Average` and its optimizer's `DecimalAggregates` divide."""
    (argument,), name = _arguments(call), kind.typeName()
    of = describe(argument)
    if name not in _INTEGERS | _FLOATING | {"decimal"}:
        return None
    counted = f"nullif(sum({columns.add(f'count({of})', _renamed(call, 'count'))}), 0L)"
    if name != "decimal":
        added = columns.add(f"sum({of} as double)", call_function("sum", _cast(argument, "double")))
        return f"sum({added}) / CAST({counted} AS DOUBLE)"
    digits, scale = kind.precision, kind.scale
    result = f"DECIMAL({digits + 4}, {scale + 4})"
    if digits <= _MOST_DIGITS_AS_DOUBLE:
        unscaled = _cast(call_function("*", argument, long_literal(10**scale)), "double")
        added = columns.add(f"sum({of} unscaled)", call_function("sum", unscaled))
        return f"CAST(sum({added}) / CAST({counted} AS DOUBLE) / 1e{scale}D AS {result})"
    if digits > _MOST_DIGITS_DIVIDED or scale > _MOST_SCALE_DIVIDED:
        return None
    added = f"sum({columns.add(f'sum({of})', _renamed(call, 'sum'))})"
    whole = f"CAST({added} div {counted} AS DECIMAL({digits - scale}, 0))"
    rest = f"CAST({added} % {counted} AS DECIMAL({12 + scale}, {scale})) / CAST({counted} AS DECIMAL(15, 0))"
    return f"CAST({whole} + {rest} AS {result})"


def _is_plain(kind: DataType) -> bool:
    """Equal values are the same: no collation, no padding."""
    return bool(kind.typeName() != "string" or kind.simpleString() == "string")


def counts_distinct(call: Any) -> bool:
    function = call.unresolved_function
    return bool(function.is_distinct) and function.function_name.lower() == "count"


def takes_distinct(call: Any) -> bool:
    return bool(call.unresolved_function.is_distinct)


def is_bare(argument: Any) -> bool:
    """Whether it may be a column as it is."""
    return bool(argument.WhichOneof("expr_type") == "unresolved_attribute")


def counts_rows(call: Any) -> bool:
    """Whether it is ``count(*)``, or ``count(1)``."""
    function = call.unresolved_function
    named = function.function_name.lower() == "count" and not function.is_distinct
    return named and all(_is_never_null(each) for each in function.arguments)


def _is_never_null(argument: Any) -> bool:
    if _is_star(argument):
        return not argument.unresolved_star.unparsed_target
    return bool(argument.WhichOneof("expr_type") == "literal" and argument.literal.WhichOneof("literal_type") != "null")


def _is_star(argument: Any) -> bool:
    return bool(argument.WhichOneof("expr_type") == "unresolved_star")


def describe(expression: Any) -> str:
    """``sum(amount)``; where an expression is something else than calls of columns, its kind."""
    match expression.WhichOneof("expr_type"):
        case "unresolved_attribute":
            return _QUOTED_WORD.sub(r"\1", str(expression.unresolved_attribute.unparsed_identifier))
        case "unresolved_star":
            return "*"
        case "literal":
            return str(getattr(expression.literal, expression.literal.WhichOneof("literal_type")))
        case "expression_string":
            return str(expression.expression_string.expression)
        case "unresolved_function":
            function = expression.unresolved_function
            return f"{function.function_name}({', '.join(map(describe, function.arguments))})"
        case other:
            return str(other).replace("_", " ")


def key_of(expression: Any) -> bytes:
    """Equal for equal expressions."""
    return bytes(expression.SerializeToString(deterministic=True))


def call_function(name: str, *arguments: Any, distinct: bool = False) -> Any:
    """A call of one of Spark's functions."""
    proto = protos()
    return proto.Expression(
        unresolved_function=proto.Expression.UnresolvedFunction(
            function_name=name, arguments=arguments, is_distinct=distinct
        )
    )


def _arguments(call: Any) -> list[Any]:
    return list(call.unresolved_function.arguments)


def _renamed(call: Any, name: str) -> Any:
    """Another function of the same arguments."""
    other = protos().Expression()
    other.CopyFrom(call)
    other.unresolved_function.function_name = name
    return other


def _cast(expression: Any, to: str) -> Any:
    proto = protos()
    return proto.Expression(cast=proto.Expression.Cast(expr=expression, type_str=to))


def long_literal(value: int) -> Any:
    """A BIGINT."""
    proto = protos()
    return proto.Expression(literal=proto.Expression.Literal(long=value))
