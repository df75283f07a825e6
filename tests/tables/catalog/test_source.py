"""A table of Spark's catalog as the source of a vertex: its rows are those of `spark.table`, and of DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from airflow_abs import Files, Table
from airflow_abs.spark.errors import SourceChangedError
from airflow_abs.tables.catalog.content import read_content
from airflow_abs.testing.rows import describe_difference
from airflow_abs.testing.table_contract import planned_tables, table_access
from tests.tables.catalog.many_files import check_many_files
from tests.tables.catalog.warehouse import Warehouse

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, Amount DOUBLE, who STRUCT<name: STRING, age: INT>, tags ARRAY<STRING>"
PARTITIONS = "region STRING, day DATE, cents DECIMAL(6, 2), small SMALLINT, flag BOOLEAN, at TIMESTAMP"
ROWS = 20
REGIONS = ["north", None, "a/b%=c +:", "ünï", "[x]{y}*?#&;'\""]


def rows(count: int) -> pa.Table:
    start = date(1969, 12, 28)
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("Amount", pa.float64()),
            ("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
            ("tags", pa.list_(pa.string())),
            ("region", pa.string()),
            ("day", pa.date32()),
            ("cents", pa.decimal128(6, 2)),
            ("small", pa.int16()),
            ("flag", pa.bool_()),
            ("at", pa.timestamp("us", tz="UTC")),
        ]
    )
    listed = [
        {
            "id": number if number % 7 else None,
            "Amount": number / 8,
            "who": None if number % 3 == 0 else {"name": f"n{number}", "age": number},
            "tags": [] if number % 2 else ["x", None],
            "region": REGIONS[number % len(REGIONS)],
            "day": None if number % 4 == 0 else start + timedelta(days=number % 3),
            "cents": None if number % 6 == 0 else Decimal(number % 2) / 4,
            "small": number % 2 - 1,
            "flag": [True, None][number % 2],
            "at": [1_000_000 * 3600 * 5, None][number % 2],
        }
        for number in range(count)
    ]
    return pa.Table.from_pylist(listed, schema=schema)


def read_all(
    server: ConnectEndpoint, folder: Path, sources: Mapping[str, Table], parallelisms: tuple[int, ...]
) -> dict[int, dict[str, pa.Table]]:
    vertices = {name: {"source": source} for name, source in sources.items()}
    with planned_tables(server, folder / "exchange", vertices) as tables:
        return {count: {name: done.rows for name, done in tables.run(count).items()} for count in parallelisms}


def test_rows_are_those_of_sparks_own_reader_whatever_became_of_the_table(
    warehouse: Warehouse, tmp_path: Path, connect_server: ConnectEndpoint
) -> None:
    warehouse.run(f"CREATE TABLE {{db}}.t ({COLUMNS}, {PARTITIONS}) USING parquet PARTITIONED BY ({names(PARTITIONS)})")
    warehouse.insert("t", rows(ROWS))
    assert describe_difference(warehouse.read("t").select(rows(0).column_names), rows(ROWS)) is None
    warehouse.run("ALTER TABLE {db}.t ADD COLUMNS (later STRING, price DECIMAL(12, 3))")
    warehouse.run("ALTER TABLE {db}.t ADD COLUMNS (known INT DEFAULT 5)")
    # Another writer's partition: elsewhere, other capitals and order of columns, narrower types, one column less.
    elsewhere = tmp_path / "else where" / "x=1"
    elsewhere.mkdir(parents=True)
    narrow = {"AMOUNT": pa.array([1.5], pa.float32()), "Id": pa.array([1000], pa.int32()), "other": ["?"]}
    pq.write_table(
        pa.table({**narrow, "price": pa.array([Decimal("1.25")], pa.decimal128(5, 2))}), elsewhere / "f.parq"
    )
    place = (
        "region = 'else', day = '2026-01-01', cents = '1.00', small = '7', flag = 'true', at = '2026-01-01 00:00:00'"
    )
    warehouse.run(f"ALTER TABLE {{db}}.t ADD PARTITION ({place}) LOCATION '{elsewhere}'")
    expected = warehouse.read("t")
    assert (len(expected), expected.schema.names[-6:]) == (ROWS + 1, names(PARTITIONS).split(", "))

    table = f"{warehouse.database}.t"
    conditions = [
        "region = 'a/b%=c +:' AND id > 5",
        "day IS NULL OR small = 7",
        "Amount < 2",
        "\"at\" > '2025-01-01T00:00:00+00:00'",
    ]
    chosen = {f"c{number}": Table(table, where=where) for number, where in enumerate(conditions)}
    for count, by_vertex in read_all(connect_server, tmp_path / "t", {"t": Table(table)}, (1, 3, 8)).items():
        assert by_vertex["t"].column_names == expected.column_names
        assert describe_difference(by_vertex["t"], expected) is None, count
    found = read_all(connect_server, tmp_path / "chosen", chosen, (2,))[2]
    for own, where in zip(found.values(), conditions, strict=True):
        sql = where.replace("'2025-01-01T00:00:00+00:00'", "TIMESTAMPTZ '2025-01-01 00:00:00+00'")
        wanted = duckdb.sql(f"SELECT * FROM expected WHERE {sql}").to_arrow_table()
        assert 0 < wanted.num_rows < ROWS + 1
        assert describe_difference(own, wanted.cast(own.schema)) is None, where


def names(columns: str) -> str:
    return ", ".join(each.split()[0] for each in columns.replace("(6, 2)", "").split(", "))


@pytest.mark.sample
def test_only_partitions_that_a_condition_may_hold_in_are_listed(
    warehouse: Warehouse, connect_server: ConnectEndpoint
) -> None:
    warehouse.run("CREATE TABLE {db}.t (id BIGINT, day DATE) USING parquet PARTITIONED BY (day)")
    warehouse.insert("t", pa.table({"id": [1, 2, 3], "day": [date(2026, 1, 1), date(2026, 1, 2), None]}))
    access = table_access(lambda: connect_server)
    pins = {
        where: Table(f"{warehouse.database}.t", where=where, prune={"day": {"vertex": "v", "column": "d"}}).pin(access)
        for where in ("day > '2026-01-01'", "day IS NULL AND id > 1", "id = 1", None)
    }
    told = {where: (pin.pinned.files, pin.pinned.details["partitions"]) for where, pin in pins.items()}
    assert told == {"day > '2026-01-01'": (1, 1), "day IS NULL AND id > 1": (1, 1), "id = 1": (3, 3), None: (3, 3)}
    assert set(pins[None].spans["day"]) == {(20454,), (20455,), ()}
    assert {pin.pinned.details["all_partitions"] for pin in pins.values()} == {3}


def test_what_is_no_plain_table_of_files_is_refused_by_name(warehouse: Warehouse, session: Any) -> None:
    from airflow_abs.spark.catalog.session_catalog import SessionCatalog
    from airflow_abs.tables.errors import TableError

    warehouse.run("CREATE TABLE {db}.t (id BIGINT, c CHAR(5)) USING parquet")
    warehouse.run("CREATE VIEW {db}.v AS SELECT * FROM {db}.t")
    warehouse.run("CREATE TABLE {db}.o (id BIGINT) USING orc")
    warehouse.run("CREATE TABLE {db}.e (id BIGINT, day DATE) USING parquet PARTITIONED BY (day)")
    warehouse.run(f"ALTER TABLE {{db}}.e ADD PARTITION (day = '2026-01-01') LOCATION '{warehouse.folder}/gone'")
    (warehouse.folder / "gone").rmdir()
    refused = {
        "t": "char.5.",
        "v": "of the type VIEW",
        "o": "files are orc",
        "e": "PATH_NOT_FOUND",
        "n": "no such table",
    }
    for table, words in refused.items():
        with pytest.raises(TableError, match=words):
            read_content(f"{warehouse.database}.{table}", SessionCatalog(session), None, [])


@pytest.mark.sample
@pytest.mark.parametrize("how", ["replaced", "emptied", "deleted"])
def test_a_file_that_is_not_what_plan_listed_fails_its_subtask_and_is_named(
    warehouse: Warehouse, tmp_path: Path, connect_server: ConnectEndpoint, how: str
) -> None:
    warehouse.create("t", rows(0).select(["id"]).schema)
    for start in (0, 10):
        warehouse.insert("t", rows(20).slice(start, 10).select(["id"]))
    source = {"t": {"source": Table(f"{warehouse.database}.t"), "transform": keep_large}}
    with planned_tables(connect_server, tmp_path / "exchange", source) as tables:
        assert sorted(tables.run(2)["t"].rows["id"].to_pylist()) == [15, 16, 17, 18, 19]
        changed = sorted((warehouse.folder / "t").glob("*.parquet"))[0]
        if how == "deleted":
            changed.unlink()
        else:
            pq.write_table(rows(20 if how == "replaced" else 0).select(["id"]), changed)
        with pytest.raises(SourceChangedError) as caught:
            tables.run(2, "again")
    told = str(caught.value)
    assert changed.name in told
    assert "when plan listed it" in told
    assert "Clear plan and everything after it" in told
    assert not caught.value.restartable


def keep_large(table: Any) -> Any:
    return table.where("id > 14")


@pytest.mark.sample
def test_a_bucketed_table_gives_all_its_rows_and_duckdb_the_same(
    warehouse: Warehouse, tmp_path: Path, connect_server: ConnectEndpoint
) -> None:
    warehouse.run("CREATE TABLE {db}.t (id BIGINT, name STRING) USING parquet CLUSTERED BY (id) INTO 4 BUCKETS")
    held = pa.table({"id": range(30), "name": [None if number % 3 else str(number) for number in range(30)]})
    warehouse.insert("t", held)
    (place,) = (row[1] for row in warehouse.run("DESCRIBE TABLE EXTENDED {db}.t") if row[0] == "Location")
    files = place.removeprefix("file:") + "/*.parquet"
    expected = duckdb.sql(f"SELECT * FROM read_parquet('{files}')").to_arrow_table()
    found = read_all(connect_server, tmp_path, {"t": Table(f"{warehouse.database}.t")}, (3,))[3]["t"]
    assert describe_difference(found, expected.cast(found.schema)) is None
    assert pc.sum(found["id"]).as_py() == sum(range(30))


def test_partitions_are_left_out_by_what_another_vertex_finds(
    warehouse: Warehouse, tmp_path: Path, connect_server: ConnectEndpoint
) -> None:
    from airflow.sdk import DAG

    from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator
    from airflow_abs.testing import run_locally

    warehouse.run("CREATE TABLE {db}.t (id BIGINT, day DATE) USING parquet PARTITIONED BY (day)")
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(6)]
    warehouse.insert("t", pa.table({"id": range(7), "day": [*days, None]}))
    pq.write_table(pa.table({"d": [days[1], days[4], None]}), tmp_path / "dates.parquet")
    with DAG("tables"), AdaptiveSparkJob("job", durability="always") as job:
        dates = AdaptiveSparkOperator(task_id="dates", source=Files(str(tmp_path / "dates.parquet")))
        pruned = Table(f"{warehouse.database}.t", prune={"day": dates.column("d")})
        AdaptiveSparkOperator(task_id="sold", source=pruned)
    done = run_locally(job, None, endpoint=connect_server)
    assert sorted(done["sold"].rows["id"].to_pylist()) == [1, 4]
    assert any("2 of 7 files" in str(reason) for reason in [done["sold"].decision])


def test_a_thousand_files_in_partitions_wherever_they_lie_give_sparks_and_duckdbs_rows(
    warehouse: Warehouse, tmp_path: Path, connect_server: ConnectEndpoint
) -> None:
    how = ", number INT, kind STRING) USING parquet PARTITIONED BY (number, kind)"
    check_many_files(warehouse, how, 25, connect_server, tmp_path / "exchange", (1, 3, 8))
