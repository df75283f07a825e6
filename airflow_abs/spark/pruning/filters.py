"""Reads filters as Spark's plans show them, such as ``[isnotnull(ds#45), (ds#45 >= 2026-01-03)]``, back into SQL.

Literals have no quotes there. So only what has one reading is read: columns of a few types, comparisons with literals
that hold no parentheses or commas, and lists of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from airflow_abs.core.sql_names import quote
from airflow_abs.spark.proof.explained import split_list

_WHOLE, _TEXT = r"-?\d+", r"[\w.:/+ -]*[\w.:/+-]"
_LITERALS = {
    "string": _TEXT,
    "date": r"\d{4}-\d{2}-\d{2}",
    "boolean": "true|false",
    **dict.fromkeys(("byte", "short", "integer", "long", "tinyint", "smallint", "int", "bigint"), _WHOLE),
}
_SQL_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_FUNCTIONS = {"year": "int", "quarter": "int", "month": "int", "dayofmonth": "int", "dayofweek": "int"}
"""Functions of a date, with the type of what they give."""

_COMPARISON = re.compile(r"(.+?) (=|<=>|<|<=|>|>=) (.+)")
_LIST = re.compile(r"(.+?) IN \((.+)\)")
_COLUMN = re.compile(r"(.+)#\d+L?")
_CALL = re.compile(r"(\w+)\((.+)\)")
_CAST = re.compile(r"(.+) as (\w+)")


class UnreadableFilterError(ValueError):
    """A filter with another meaning than its text shows for certain."""


def read_filters(text: str, types: Mapping[str, str]) -> list[str]:
    """The filters that can be read, as SQL; all of them hold for every row that a scan gives.

    Args:
        text: ``PartitionFilters`` as Spark writes them.
        types: of the partition columns, as in Spark's JSON form of a schema.
    """
    return list(_readable(split_list(text), types))


def read_condition(text: str, types: Mapping[str, str]) -> list[str]:
    """Of the condition of a filter, ``(isnotnull(k#1) AND (k#1 > 5))``, the parts that can be read, as SQL.

    Every row that passes the filter meets all of them, and none of them can fail: casts are passed over, and so are
    lists of strings, in which a comma says nothing.
    """
    sides = _sides(text, " AND ")
    if sides:
        return [sql for side in sides for sql in read_condition(side, types)]
    try:
        sql = _condition(text, types)
    except UnreadableFilterError:
        return []
    return [] if "cast(" in text or (" IN (" in sql and " AS string)" in sql) else [sql]


def type_in_sql(name: str) -> str | None:
    """The type of a partition column as SQL names it; None for one that no filter is read of."""
    return _SQL_TYPES.get(name, name) if name in _LITERALS else None


def is_plain(value: str) -> bool:
    """Whether a text is written like the literals that are read: of no other could Spark's text mean something else."""
    return re.fullmatch(_TEXT, value) is not None


def _readable(filters: list[str], types: Mapping[str, str]) -> Iterator[str]:
    for entry in filters:
        try:
            yield _condition(entry, types)
        except UnreadableFilterError:
            continue


def _condition(text: str, types: Mapping[str, str]) -> str:
    for word in ("AND", "OR"):
        sides = _sides(text, f" {word} ")
        if sides:
            return f"({_condition(sides[0], types)} {word} {_condition(sides[1], types)})"
    if text.startswith("NOT ("):  # of nothing else: too long a list of strings would filter too much
        return f"(NOT {_comparison(text.removeprefix('NOT '), types)})"
    call = _CALL.fullmatch(text)
    if call and call[1] in ("isnull", "isnotnull"):
        column = _COLUMN.fullmatch(call[2])
        operand = quote(column[1]) if column and column[1] in types else _operand(call[2], types)[0]
        return f"({operand} IS {'NOT ' if call[1] == 'isnotnull' else ''}NULL)"
    if call and call[1] == "StartsWith":
        value, _, prefix = call[2].partition(", ")
        return f"startswith({_operand(value, types)[0]}, {_literal(prefix, 'string')})"
    listed = _LIST.fullmatch(text)
    if listed:
        value, kind = _operand(listed[1], types)
        return f"({value} IN ({', '.join(_literal(each, kind) for each in listed[2].split(','))}))"
    return _comparison(text, types)


def _comparison(text: str, types: Mapping[str, str]) -> str:
    compared = _COMPARISON.fullmatch(text[1:-1]) if text.startswith("(") and text.endswith(")") else None
    if compared is None:
        raise UnreadableFilterError(text)
    value, kind = _operand(compared[1], types)
    return f"({value} {compared[2]} {_literal(compared[3], kind)})"


def _operand(text: str, types: Mapping[str, str]) -> tuple[str, str]:
    """A column, a cast of it or a function of it, in SQL, with its type."""
    column = _COLUMN.fullmatch(text)
    if column and type_in_sql(types.get(column[1], "")):
        return quote(column[1]), types[column[1]]
    call = _CALL.fullmatch(text)
    if call and call[1] == "cast" and (cast := _CAST.fullmatch(call[2])) and cast[2] in _LITERALS:
        return f"CAST({_operand(cast[1], types)[0]} AS {cast[2]})", cast[2]
    if call and call[1] in _FUNCTIONS:
        return f"{call[1]}({_operand(call[2], types)[0]})", _FUNCTIONS[call[1]]
    raise UnreadableFilterError(text)


def _literal(text: str, kind: str) -> str:
    if not re.fullmatch(_LITERALS[kind], text) or text == "null":
        raise UnreadableFilterError(text)
    return f"CAST('{text}' AS {type_in_sql(kind)})"


def _sides(text: str, word: str) -> tuple[str, str] | None:
    """Both sides of ``(a AND b)``, split where no parenthesis is open."""
    if not (text.startswith("(") and text.endswith(")")):
        return None
    depth, inside = 0, text[1:-1]
    for position, character in enumerate(inside):
        depth += (character == "(") - (character == ")")
        if depth == 0 and inside.startswith(word, position + 1) and character in ")":
            return inside[: position + 1], inside[position + 1 + len(word) :]
    return None
