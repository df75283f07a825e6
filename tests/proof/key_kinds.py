"""What the first columns of both tables are: every type that keys may have, and those that are refused as keys.

A column holds numbers, which stand for values of its type. Some values are equal and not the same (0.0 and -0.0, or 'x'
and 'X' under a collation), some only look alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyKind:
    """The type of the first column of either table, as DDL, and the values for the numbers 1 to 4, as SQL."""

    left: str
    right: str
    values: tuple[str, str, str, str]

    def expression(self, column: str, table: str) -> str:
        """SQL for a column of this kind from one of numbers."""
        kind = {"left": self.left, "right": self.right}[table]
        cases = " ".join(f"WHEN {number} THEN {value}" for number, value in enumerate(self.values, start=1))
        return f"CAST(CASE {column} {cases} END AS {kind})"


def _nested(shape: str, kind: str, wrap: str, values: tuple[str, str, str, str]) -> KeyKind:
    """`shape` and `wrap` have a place for the type and for the value."""
    made = tuple(wrap.format(f"CAST({value} AS {kind})") for value in values)
    return KeyKind(shape.format(kind), shape.format(kind), made)  # type: ignore[arg-type]


_TEXTS = ("'x'", "'X'", "'x '", "''")
_CASES = ("'ab'", "'AB'", "'aB'", "'Ab'")
_REALS = ("0.0D", "-0.0D", "CAST('NaN' AS DOUBLE)", "1.5D")
_MOMENTS = ("'2026-03-29 01:30:00'", "'2026-03-29 03:30:00'", "'1582-10-04 00:00:00'", "'2026-10-25 00:00:00'")
_MAPS = ("map('x', 1, 'y', 2)", "map('y', 2, 'x', 1)", "map('x', 1)", "map()")
_LCASE = "string collate UTF8_LCASE"
_RTRIM = "string collate UTF8_BINARY_RTRIM"
_MAP_OF_LCASE = f"map(CAST('k' AS {_LCASE}), {{}})"

KEY_KINDS: Mapping[str, KeyKind] = {
    "int and bigint": KeyKind("int", "bigint", ("1", "2", "3", "4")),
    "tinyint and smallint": KeyKind("tinyint", "smallint", ("1", "-1", "127", "0")),
    "boolean": KeyKind("boolean", "boolean", ("true", "false", "true", "false")),
    "text": KeyKind("string", "string", _TEXTS),
    "binary": KeyKind("binary", "binary", ("X''", "X'00'", "X'0000'", "X'78'")),
    "decimal": KeyKind("decimal(10,2)", "decimal(12,4)", ("0", "1.1", "1.10", "-0.05")),
    "decimal and bigint": KeyKind("decimal(20,3)", "bigint", ("1", "1.000", "2", "0")),
    "wide decimals": KeyKind("decimal(38,10)", "decimal(38,0)", ("1", "1.0", "2", "0")),
    "double": KeyKind("double", "double", _REALS),
    "float and double": KeyKind("float", "double", _REALS),
    "date": KeyKind("date", "date", ("'2026-03-29'", "'1582-10-04'", "'0001-01-01'", "'2026-10-25'")),
    "date and timestamp": KeyKind("date", "timestamp", _MOMENTS),
    "timestamp": KeyKind("timestamp", "timestamp", _MOMENTS),
    "timestamp without zone": KeyKind("timestamp_ntz", "timestamp_ntz", _MOMENTS),
    "timestamps with and without zone": KeyKind("timestamp", "timestamp_ntz", _MOMENTS),
    "days to seconds": KeyKind(
        "interval day to second",
        "interval day to second",
        ("INTERVAL '1' DAY", "INTERVAL '24' HOUR", "INTERVAL '-1' SECOND", "INTERVAL '0' DAY"),
    ),
    "years to months": KeyKind(
        "interval year to month",
        "interval year to month",
        ("INTERVAL '1' YEAR", "INTERVAL '12' MONTH", "INTERVAL '-1' MONTH", "INTERVAL '0' YEAR"),
    ),
    "struct": _nested("struct<n: {}, m: int>", "string", "named_struct('n', {}, 'm', 1)", _TEXTS),
    "struct of a double": _nested("struct<n: {}>", "double", "named_struct('n', {})", _REALS),
    "struct of a decimal": _nested("struct<n: {}>", "decimal(9,3)", "named_struct('n', {})", ("1", "1.0", "0", "2")),
    "array of floats": _nested("array<{}>", "float", "array({0}, {0})", _REALS),
    "array of structs": _nested("array<struct<n: {}>>", "double", "array(named_struct('n', {}))", _REALS),
    "array of moments": _nested("array<{}>", "timestamp", "array({}, NULL)", _MOMENTS),
    # None of these may be a key.
    "char and varchar": KeyKind("char(3)", "varchar(3)", _TEXTS),
    "collated": KeyKind(_LCASE, _LCASE, _CASES),
    "trimmed": KeyKind(_RTRIM, _RTRIM, _TEXTS),
    "collated and not": KeyKind(_LCASE, "string", _CASES),
    "struct of a collated": _nested("struct<n: {}>", _LCASE, "named_struct('n', {})", _CASES),
    "array of collated": _nested("array<{}>", _LCASE, "array({})", _CASES),
    "array of structs of collated": _nested("array<struct<n: {}>>", _LCASE, "array(named_struct('n', {}))", _CASES),
    "map": KeyKind("map<string, int>", "map<string, int>", _MAPS),
    "map of collated": _nested(f"map<{_LCASE}, {{}}>", "int", _MAP_OF_LCASE, ("1", "2", "3", "4")),
    "struct of a map": _nested("struct<n: {}>", "map<string, int>", "named_struct('n', {})", _MAPS),
    "variant": KeyKind(
        "variant",
        "variant",
        ("parse_json('1')", "parse_json('1.0')", "parse_json('\"x\"')", "parse_json('{\"x\": 1}')"),
    ),
    "time": KeyKind("time", "time", ("TIME '01:30:00'", "TIME '00:00:00'", "TIME '23:59:59'", "TIME '12:00:00'")),
}
ACCEPTED_AS_KEYS = tuple(KEY_KINDS)[: list(KEY_KINDS).index("char and varchar")]
REFUSED_AS_KEYS = tuple(KEY_KINDS)[len(ACCEPTED_AS_KEYS) :]
