"""What is copied out of PostgreSQL: every row of one snapshot once, with its value, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.postgres import landing
from airflow_abs.tables.postgres.landed_files import bytes_of_file
from airflow_abs.tables.postgres.landing import LEAST_PAGES, MOST_RANGES, tid_ranges
from tests.tables.postgres.warehouse import PASSWORD, Warehouse, rows_in

UTC = ZoneInfo("UTC")

pytestmark = pytest.mark.cluster

TYPES = """
    a smallint, b integer, c bigint, d real, e double precision, f numeric(10, 3), g boolean, h text, i varchar(5),
    j char(3), k date, l timestamp, m timestamptz, n bytea, o uuid, "Capital ""letter" text
"""
VALUES: list[tuple[Any, ...]] = [
    (
        *(1, 2, 2**63 - 1, 0.1, 0.1, Decimal("-1234567.890"), True, "", "é", "a"),
        *(date(1500, 2, 28), datetime(1, 1, 1), datetime(2026, 1, 1, 23, 59, 59, 999999, UTC)),  # noqa: DTZ001
        *(b"\x00\xff", "00000000-0000-0000-0000-00000000002a", 'quoted "\n\\.\n, and a % sign'),
    ),
    (None,) * 16,
    (
        *(-1, -2, -(2**63), float("nan"), float("-inf"), Decimal("0.001"), False, "NULL", "\\N", "abc"),
        *(date(9999, 12, 31), datetime(2026, 7, 1, 0, 0, 0, 1), datetime(1969, 12, 31, 23, tzinfo=UTC)),  # noqa: DTZ001
        *(b"", "ffffffff-ffff-ffff-ffff-ffffffffffff", "\\."),
    ),
]


def test_values_of_every_type_come_as_they_are(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute("ALTER DATABASE warehouse SET timezone = 'America/New_York'")
    warehouse.execute("ALTER DATABASE warehouse SET datestyle = 'German'")
    warehouse.execute("ALTER DATABASE warehouse SET extra_float_digits = -5")
    warehouse.execute("ALTER DATABASE warehouse SET bytea_output = 'escape'")
    warehouse.execute(f"CREATE TABLE t ({TYPES})")
    for values in VALUES:
        warehouse.execute(f"INSERT INTO t VALUES ({', '.join(['%s'] * 16)})", *values)
    found = rows_in(warehouse.land(tmp_path, table="t"))
    expected = [list(values) for values in VALUES]
    expected[0][9] = "a  "  # char(3) pads
    expected[0][3] = pa.scalar(0.1, pa.float32()).as_py()
    assert repr([list(row.values()) for row in found.to_pylist()]) == repr(expected)
    assert found.column_names[-1] == 'Capital "letter'
    assert [str(kind) for kind in found.schema.types] == [
        *("int16", "int32", "int64", "float", "double", "decimal128(10, 3)", "bool", "string", "string", "string"),
        *("date32[day]", "timestamp[us]", "timestamp[us, tz=UTC]", "binary", "string", "string"),
    ]


def test_one_column_that_is_null_is_no_row_less(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute("CREATE TABLE t (a text); INSERT INTO t VALUES (NULL), (''), ('x'), (NULL)")
    found = rows_in(warehouse.land(tmp_path, table="t"))
    assert found.to_pydict() == {"a": [None, "", "x", None]}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("numeric", "1.5"), ("integer[]", "{1,2}"), ("jsonb", '{"a": 1}'), ("interval", "01:00:00"), ("time", "12:00:00")],
)
def test_a_type_that_spark_has_no_equal_of_is_refused_or_read_as_text(
    warehouse: Warehouse, tmp_path: Path, kind: str, value: str
) -> None:
    warehouse.execute(f"CREATE TABLE t (id bigint, a {kind})")
    warehouse.execute("INSERT INTO t VALUES (1, %s), (2, NULL)", value)
    with pytest.raises(
        TableError, match=r"warehouse\.t: column 'a' is .*, for which Spark has no equivalent type; name it in as_t"
    ):
        warehouse.land(tmp_path / "refused", table="t")
    read = rows_in(warehouse.land(tmp_path / "read", table="t", as_text=("a",)))
    assert read.to_pydict() == {"id": [1, 2], "a": [value, None]}
    without = rows_in(warehouse.land(tmp_path / "without", table="t", columns=["id"]))
    assert without.to_pydict() == {"id": [1, 2]}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("date", "infinity"), ("timestamptz", "-infinity"), ("date", "0044-03-15 BC"), ("numeric(5, 2)", "NaN")],
)
def test_a_value_that_spark_has_no_equal_of_is_refused(
    warehouse: Warehouse, tmp_path: Path, kind: str, value: str
) -> None:
    warehouse.execute(f"CREATE TABLE t (a {kind}); INSERT INTO t VALUES ('{value}')")
    with pytest.raises(TableError, match=r"warehouse\.t: .*; Spark has no such value\. Leave such rows out by where="):
        warehouse.land(tmp_path, table="t")


def test_views_and_queries_are_read_and_conditions_are_postgresqls_own(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute('CREATE SCHEMA "Sales"; CREATE TABLE "Sales".orders (id bigint, tags text[])')
    warehouse.execute("INSERT INTO \"Sales\".orders VALUES (1, '{a}'), (2, '{b,c}'), (3, '{}')")
    warehouse.execute('CREATE VIEW many AS SELECT id, cardinality(tags) AS tags FROM "Sales".orders')
    warehouse.execute("CREATE MATERIALIZED VIEW kept AS SELECT * FROM many")
    where = "'c' = ANY (tags) -- 100 % of them"
    assert rows_in(warehouse.land(tmp_path / "1", table="many")).to_pydict() == {"id": [1, 2, 3], "tags": [1, 2, 0]}
    assert rows_in(warehouse.land(tmp_path / "2", table="kept", where="tags > 1")).to_pydict() == {
        "id": [2],
        "tags": [2],
    }
    found = warehouse.land(tmp_path / "3", table='"Sales".orders', where=where, columns=["id"])
    assert rows_in(found).to_pydict() == {"id": [2]}
    query = 'SELECT count(*) AS n FROM "Sales".orders -- all'
    assert rows_in(warehouse.land(tmp_path / "4", query=query)).to_pydict() == {"n": [3]}


def test_rows_of_partitions_and_of_children_are_read_once(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute("CREATE TABLE p (id bigint) PARTITION BY RANGE (id)")
    warehouse.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100000)")
    warehouse.execute("CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100000) TO (1000000)")
    warehouse.execute("INSERT INTO p SELECT generate_series(1, 200000)")
    warehouse.execute("CREATE TABLE parent (id bigint); CREATE TABLE child () INHERITS (parent)")
    warehouse.execute("INSERT INTO parent SELECT generate_series(1, 100000)")
    warehouse.execute("INSERT INTO child SELECT generate_series(100001, 200000)")
    for table in ("p", "parent"):
        found = rows_in(warehouse.land(tmp_path / table, table=table))
        assert sorted(found["id"].to_pylist()) == list(range(1, 200_001))


def test_what_is_not_there_is_refused(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute("CREATE TABLE t (a bigint)")
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"table": "nothing"}, r"table warehouse\.nothing: there is no such table or view, or the login may not"),
        ({"table": "t", "columns": ["b"]}, r"table warehouse\.t: has no column 'b'; its columns are a"),
        (
            {"table": "t", "where": "b = 1"},
            r'warehouse\.t: cannot be read: column "b" does not exist .*; check the tab',
        ),
        ({"table": "t", "where": ""}, r"warehouse\.t: cannot be read: syntax error .*; check the table, where= and"),
        ({"query": "SELECT 1 AS a, 2 AS A"}, r"warehouse\.query: has several columns 'a', which Spark does not tell"),
        ({"query": "SELECT"}, r"warehouse\.query: has no columns; expected some"),
        ({"query": "DELETE FROM t RETURNING a"}, r"warehouse\.query: cannot be read: syntax error"),
        ({"query": "SELECT setval('s', 1) AS a"}, r"warehouse\.query: cannot be read: .*s.* does not exist"),
        ({"query": "SELECT 1 / 0 AS a"}, r"warehouse\.query: cannot be read: division by zero"),
    ]
    for declared, message in refusals:
        with pytest.raises(TableError, match=message):
            warehouse.land(tmp_path, **declared)


def test_a_table_without_rows_gives_its_columns(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute("CREATE TABLE t (a bigint)")
    pin = warehouse.land(tmp_path, table="t")
    assert (pin.files, pin.pinned.bytes) == ((), 0)
    assert '"name": "a", "type": "long"' in pin.schema


def fill(warehouse: Warehouse, rows: int) -> None:
    warehouse.execute("CREATE TABLE t (id bigint PRIMARY KEY, filling text)")
    warehouse.execute("INSERT INTO t SELECT id, repeat(md5(id::text), 3) FROM generate_series(1, %s) AS id", rows)


def test_several_connections_read_one_snapshot_while_others_write(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(warehouse, 100_000)
    real: Callable[..., Any] = landing._Copy.copy

    def write_first(self: Any, connection: Any, number: int, tids: str | None = None) -> Any:
        assert tids is not None
        warehouse.execute("UPDATE t SET filling = 'later' WHERE id %% 1000 = %s", number)
        warehouse.execute("DELETE FROM t WHERE id %% 1000 = %s", 500 + number)
        warehouse.execute("INSERT INTO t VALUES (%s, 'later')", 1_000_000 + number)
        return real(self, connection, number, tids)

    monkeypatch.setattr(landing._Copy, "copy", write_first)
    pin = warehouse.land(tmp_path, table="t", where="id % 2 = 0")
    found = rows_in(pin)
    assert len(pin.files) > 4
    assert sorted(found["id"].to_pylist()) == list(range(2, 100_001, 2))
    assert "later" not in found["filling"].to_pylist()
    assert pin.pinned.label.startswith("warehouse.t at 20")


def test_nobody_truncates_or_rewrites_a_table_that_is_copied(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(warehouse, 60_000)
    real, refused = landing._Copy.copy, []

    def disturb(self: Any, connection: Any, number: int, tids: str | None = None) -> Any:
        for statement in ("TRUNCATE t", "CLUSTER t USING t_pkey", "ALTER TABLE t DROP COLUMN filling"):
            try:
                warehouse.execute(f"SET lock_timeout = '10ms'; {statement}")
            except Exception as error:
                refused.append(str(error).partition("\n")[0])
        return real(self, connection, number, tids)

    monkeypatch.setattr(landing._Copy, "copy", disturb)
    found = rows_in(warehouse.land(tmp_path, table="t"))
    assert sorted(found["id"].to_pylist()) == list(range(1, 60_001))
    assert set(refused) <= {
        "canceling statement due to lock timeout",
        "CLUSTER cannot run inside a transaction block",
    }


def test_a_connection_that_is_lost_on_the_way_ends_in_a_refusal_without_the_password(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(warehouse, 100_000)
    real: Callable[..., Any] = landing._Copy.copy

    def lose(self: Any, connection: Any, number: int, tids: str | None = None) -> Any:
        if number == 3:
            warehouse.execute("SELECT pg_terminate_backend(%s)", connection.get_backend_pid())
        return real(self, connection, number, tids)

    monkeypatch.setattr(landing._Copy, "copy", lose)
    with pytest.raises(TableError, match=r"warehouse\.t: cannot be read: .*; check the table, where= and") as refused:
        warehouse.land(tmp_path, table="t")
    assert PASSWORD not in str(refused.value)


def test_a_server_that_cannot_be_reached_and_a_connection_of_another_kind_are_refused(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    elsewhere = Warehouse(1, "warehouse")
    with pytest.raises(TableError, match=r"warehouse\.t: PostgreSQL cannot be reached: .*; check the Airflow connect"):
        elsewhere.land(tmp_path, table="t")
    from airflow_abs import PostgresTable

    with pytest.raises(TableError, match=r"warehouse\.t: its Airflow connection names no PostgreSQL database"):
        PostgresTable("warehouse", "t").land(TableAccess(lambda conn_id: {"uri": "mysql"}, Path), tmp_path)
    strange = warehouse.properties | {"cursor": "dictcursor"}
    with pytest.raises(TableError, match=r'invalid connection option "cursor"; check the Airflow conn'):
        PostgresTable("warehouse", "t").land(TableAccess(lambda conn_id: strange, Path), tmp_path)


@given(st.integers(0, 10_000_000))
def test_ranges_of_a_table_cover_it_once_and_have_no_end(pages: int) -> None:
    ranges = tid_ranges(pages)
    assert 1 <= len(ranges) <= MOST_RANGES
    if len(ranges) == 1:
        assert (ranges, pages <= LEAST_PAGES) == ([None], True)
        return
    texts = [str(each) for each in ranges]
    assert texts[0].startswith("ctid >= '(0,0)'::tid AND ")
    assert " AND " not in texts[-1]
    for before, after in pairwise(texts):
        assert before.partition("< ")[2] == after.partition(">= ")[2].partition(" AND")[0]


def test_files_grow_with_their_number() -> None:
    # 64 of 8 MiB, 64 of 16 MiB, ...: 1 TiB = 2**40 is 64 * 2**23 * (2**n - 1), so n = 11.0..., 705 files
    size, files = 0, 0
    while size < 1 << 40:
        size += bytes_of_file(files)
        files += 1
    assert (bytes_of_file(0), bytes_of_file(63), bytes_of_file(64), files) == (8 << 20, 8 << 20, 16 << 20, 705)
