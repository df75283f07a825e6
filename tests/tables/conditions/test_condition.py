"""A condition means the same to what chooses files and to what chooses rows, or it is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, FloatType, IntegerType, ListType, LongType, NestedField, StringType, StructType

from airflow_abs.spark.connect.session import open_session
from airflow_abs.tables.conditions.condition import read_condition
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.iceberg.snapshot import read_snapshot

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "small", IntegerType()),
    NestedField(3, "ratio", FloatType()),
    NestedField(4, "my col", StringType()),
    NestedField(5, "flag", BooleanType()),
    NestedField(6, "who", StructType(NestedField(7, "name", StringType(), required=True))),
    NestedField(8, "tags", ListType(9, StringType())),
)

TEXTS = ["a", "ab", "a_b", "axb", "a%b", "it's", 'say "a"', "a\\b", "", " ", "ä", "`", "NULL", "a\nb", None]
NUMBERS = [-1.5, 0.0, -0.0, 0.1, 1.0, 1e300, math.inf, -math.inf, math.nan, None]
ARROW = pa.schema(
    [
        ("number", pa.int32()),
        ("id", pa.int64()),
        ("my col", pa.string()),
        ("d", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us")),
        ("utc", pa.timestamp("us", tz="UTC")),
        ("who", pa.struct([("name", pa.string())])),
    ]
)


def row(number: int) -> dict[str, Any]:
    day = None if number % 7 == 0 else date(2026, 1, 1 + number % 5)
    hour = None if number % 5 == 0 else number % 24
    return {
        "number": number,
        "id": None if number % 13 == 0 else number - 5,
        "my col": TEXTS[number % len(TEXTS)],
        "d": NUMBERS[number % len(NUMBERS)],
        "price": None if number % 6 == 0 else Decimal(number * 25 - 300) / 100,
        "day": day,
        "moment": None if hour is None else datetime(2026, 1, 1, hour),  # noqa: DTZ001 - without a zone
        "utc": None if hour is None else datetime(2026, 1, 1, hour, tzinfo=UTC),
        "who": None if number % 11 == 0 else {"name": TEXTS[(number * 7) % len(TEXTS)]},
    }


ROWS = pa.Table.from_pylist([row(number) for number in range(150)], schema=ARROW)

COLUMNS = {
    "id": [str(number) for number in (-5, 0, 7, 100, 2**62)],
    '"my col"': ["'" + text.replace("'", "''") + "'" for text in TEXTS if text is not None and "\n" not in text],
    "d": ["-1.5", "0.0", "0.1", "1.0", "2"],
    "price": ["0.25", "-3.00", "7", "12.75"],
    "day": ["'2026-01-02'", "'2026-01-04'"],
    "moment": ["'2026-01-01T05:00:00'", "'2026-01-01T05:00:00.000001'"],
    "utc": ["'2026-01-01T05:00:00+00:00'", "'2026-01-01T09:00:00+02:00'"],
    "who.name": ["'ab'", "'it''s'", "'a_b'"],
}


@st.composite
def predicates(draw: st.DrawFn) -> tuple[str, str]:
    """A predicate as pyiceberg writes it, and the same for DuckDB, whose NaN is the largest number."""
    column = draw(st.sampled_from(sorted(COLUMNS)))
    literals = COLUMNS[column]
    if column == "d" and draw(st.booleans()):
        return draw(st.sampled_from([("d IS NAN", "isnan(d)"), ("d IS NOT NAN", "NOT isnan(d)")]))
    kind = draw(st.sampled_from(["compare", "null", "in", "like" if "col" in column else "compare"]))
    if kind == "null":
        text = f"{column} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
        return text, text
    if kind == "in":
        first = draw(st.sampled_from(literals))
        alike = [each for each in literals if ("." in each) == ("." in first)]  # pyiceberg's lists are of one kind
        wanted = [first, *draw(st.lists(st.sampled_from(alike), max_size=2))]
        text = f"{column} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(wanted)})"
        return text, text
    if kind == "like":
        prefix, negated = draw(st.sampled_from(["a", "it''s", "ä", "ab"])), draw(st.sampled_from(["", "NOT "]))
        return f"{column} {negated}LIKE '{prefix}%'", f"{negated}starts_with({column}, '{prefix}')"
    operator, literal = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="])), draw(st.sampled_from(literals))
    text = f"{column} {operator} {literal}"
    return text, f"({text} AND NOT isnan(d))" if column == "d" and ">" in operator and operator != "<>" else text


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, str]:
    parts = draw(st.lists(predicates(), min_size=1, max_size=3))
    how = draw(st.sampled_from([" AND ", " OR "]))
    return how.join(f"({mine})" for mine, _ in parts), how.join(f"({theirs})" for _, theirs in parts)


PLAIN = {
    number
    for number in range(150)
    if None not in (values := row(number)).values()
    and values["who"]["name"] is not None
    and not math.isnan(values["d"])
    and values["d"] != 0
}
"""Rows about which pyiceberg's reader has the opinion of SQL: it keeps NULLs that are not in a list, and may find
neither zero in a list with 0.0, where a file holds both."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """In ten files, the first of them with NULL and NaN alone in some columns."""
    folder = tmp_path_factory.mktemp("conditions")
    catalog = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    by_d = ROWS.take(pc.sort_indices(ROWS["d"]))
    for start in range(0, len(ROWS), 15):
        table.append(by_d.slice(start, 15).cast(table.schema().as_arrow()))
    yield table
    catalog.close()


@pytest.fixture(scope="module")
def frame(connect_server: ConnectEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(ROWS, path)
    with open_session(connect_server) as session:
        session.conf.set("spark.sql.session.timeZone", "America/New_York")
        yield session.read.parquet(str(path))


@pytest.mark.spark
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=conditions())
def test_spark_duckdb_and_pyiceberg_choose_the_same_rows(frame: Any, table: Any, pair: tuple[str, str]) -> None:
    where, oracle = pair
    expected = _numbers(duckdb.from_arrow(ROWS).filter(oracle).project("number").fetchall())
    found = read_snapshot("lake.db.t", table, where=where)
    assert _numbers(frame.where(found.condition).select("number").collect()) == expected
    read = {number for file in found.files for number in _numbers_in(file.path)}
    assert expected <= read
    scanned = set(table.scan(row_filter=where, selected_fields=("number",)).to_arrow()["number"].to_pylist())
    assert scanned & PLAIN == expected & PLAIN


def _numbers(rows: Iterable[Any]) -> set[int]:
    return {number for (number,) in rows}


@cache
def _numbers_in(path: str) -> tuple[int, ...]:
    return tuple(pq.read_table(path.removeprefix("file://"), columns=["number"])["number"].to_pylist())


def test_texts_with_quotes_backslashes_and_line_ends_are_written_as_bytes() -> None:
    told = read_condition("t", SCHEMA, "\"my col\" IN ('it''s', 'a\\b', 'north')").sql
    assert told == "(`my col` IN ('north', CAST(X'615c62' AS STRING), CAST(X'69742773' AS STRING)))"


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("\"my col\" LIKE 'a_b%'", "LIKE 'a_b%' has a wildcard _ or an escape, and only prefixes can be looked for"),
        ("\"my col\" LIKE '%b'", "only supports wildcard, '%', at the end"),
        ("id > 1.5", "column 'id' is of type long, which cannot hold 1.5 exactly"),
        ("small < 3000000000", "column 'small' is of type int, which cannot hold 3000000000 exactly"),
        ("ratio = 0.1", "column 'ratio' is of type float, which cannot hold 0.1 exactly"),
        ("id = '5'", "column 'id' is of type long, expected a number instead of '5'"),
        ("flag = 'true'", "column 'flag' is of type boolean, expected true or false instead of 'true'"),
        ('"my col" = 5', "column 'my col' is of type string, expected a string in single quotes instead of 5"),
        ("who.name IS NULL", "'name' is NULL where its struct is, and nowhere else; ask for the struct"),
        ("tags.element = 'x'", "'element' is in a list or a map, which has many values in a row"),
        ("id LIKE 'a%'", "expected a number instead of 'a'"),
        ("ID = 5", "Could not find field with name ID"),
        ("id + 1 = 2", "it is not understood from 'id + 1 = 2' on"),
    ],
)
def test_a_condition_that_would_not_mean_the_same_to_both_is_refused(where: str, reason: str) -> None:
    with pytest.raises(TableError, match=re.escape(reason)) as refused:
        read_condition("lake.db.t", SCHEMA, where)
    assert str(refused.value).startswith(f"table lake.db.t: where={where!r} cannot be used to choose files: ")
    assert "Put other conditions into a filter of the transform" in str(refused.value)
