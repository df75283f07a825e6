"""Columns of PostgreSQL in the words of Spark and of Arrow."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from airflow_abs.tables.errors import TableError
from airflow_abs.tables.postgres.connection import Connection, fetch_all

_BOOL, _BYTEA, _NUMERIC = 16, 17, 1700
_KINDS: dict[int, tuple[str, pa.DataType]] = {
    _BOOL: ("boolean", pa.bool_()),
    _BYTEA: ("binary", pa.binary()),
    21: ("short", pa.int16()),
    23: ("integer", pa.int32()),
    20: ("long", pa.int64()),
    700: ("float", pa.float32()),
    701: ("double", pa.float64()),
    1082: ("date", pa.date32()),
    1114: ("timestamp_ntz", pa.timestamp("us")),
    1184: ("timestamp", pa.timestamp("us", "UTC")),
    **dict.fromkeys((19, 25, 1042, 1043, 2950), ("string", pa.string())),  # name, text, char, varchar, uuid
}
"""By the number that a type has in every PostgreSQL."""

_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, Spark's name of its type, and Arrow's type.

    `as_text` says that PostgreSQL's own text of the value stands for it.
    """

    name: str
    kind: str
    arrow: pa.DataType
    as_text: bool = False

    @property
    def selected(self) -> str:
        """As SQL for COPY."""
        return quote(self.name) + ("::text" if self.as_text else "")


@dataclass(frozen=True, slots=True)
class Described:
    """A column as the server describes it; precision and scale of a numeric that has them."""

    name: str
    oid: int
    type: str
    precision: int | None
    scale: int | None


def quote(name: str) -> str:
    """An identifier as SQL."""
    return '"' + name.replace('"', '""') + '"'


def describe(connection: Connection, relation: str) -> list[Described]:
    """The columns of a table's quoted name, or of a query in parentheses."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {relation} AS described LIMIT 0")  # noqa: S608 - the author's own relation
        found = list(cursor.description or ())
    oids = sorted({column.type_code for column in found})
    types = dict(fetch_all(connection, "SELECT oid::int8, format_type(oid, NULL) FROM unnest(%s::oid[]) AS oid", oids))
    return [
        Described(column.name, column.type_code, types[column.type_code], column.precision, column.scale)
        for column in found
    ]


def choose(table: str, described: Sequence[Described], names: Collection[str]) -> list[Described]:
    """Those of these names, or all of them, if there are no names.

    Raises:
        TableError: one of them is not there; there are none, or two of one name.
    """
    there = [column.name for column in described]
    if unknown := [name for name in names if name not in there]:
        raise TableError(f"table {table}: has no column {unknown[0]!r}; its columns are {', '.join(there)}")
    chosen = [column for column in described if not names or column.name in names]
    folded = [column.name.lower() for column in chosen]
    if twice := [name for number, name in enumerate(folded) if name in folded[:number]]:
        raise TableError(
            f"table {table}: has several columns {twice[0]!r}, which Spark does not tell apart; give them other names "
            "in query="
        )
    if not chosen:
        raise TableError(f"table {table}: has no columns; expected some")
    return chosen


def read_columns(table: str, described: Sequence[Described], as_text: Collection[str]) -> list[Column]:
    """How each is read.

    Raises:
        TableError: a type that Spark has no equal of.
    """
    choose(table, described, as_text)
    return [_reading(table, column, column.name in as_text) for column in described]


def _reading(table: str, column: Described, as_text: bool) -> Column:
    if as_text:
        return Column(column.name, "string", pa.string(), as_text=True)
    kind = _kind_of(column)
    if kind is None:
        shown = "numeric without precision and scale" if column.oid == _NUMERIC else column.type
        raise TableError(
            f"table {table}: column {column.name!r} is {shown}, for which Spark has no equivalent type; name it in "
            f"as_text= to read PostgreSQL's text of it, leave it out by columns=, or cast it in query= (such as "
            f"{quote(column.name)}::numeric(18, 2))"
        )
    return Column(column.name, *kind)


def written_columns(described: Sequence[Described]) -> list[Column]:
    """How each is written: what Spark has no equal of is taken as a text, in PostgreSQL's own syntax."""
    return [Column(column.name, *(_kind_of(column) or ("string", pa.string()))) for column in described]


def _kind_of(column: Described) -> tuple[str, pa.DataType] | None:
    if column.oid != _NUMERIC:
        return _KINDS.get(column.oid)
    digits, scale = column.precision, column.scale
    if digits is None or scale is None or not 0 <= scale <= digits <= _MOST_DIGITS:
        return None
    return f"decimal({digits},{scale})", pa.decimal128(digits, scale)


def spark_schema(columns: Sequence[Column]) -> str:
    """Spark's JSON of them."""
    fields = [{"name": each.name, "type": each.kind, "nullable": True, "metadata": {}} for each in columns]
    return json.dumps({"type": "struct", "fields": fields})


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([(column.name, column.arrow) for column in columns])


def to_bytes(texts: pa.Array) -> pa.Array:
    """PostgreSQL's text of `bytea` values, ``\\x00ff``, as bytes."""
    return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in texts.to_pylist()], pa.binary())


def from_bytes(values: pa.Array) -> pa.Array:
    """The other way round."""
    return pa.array([None if value is None else f"\\x{value.hex()}" for value in values.to_pylist()], pa.string())
