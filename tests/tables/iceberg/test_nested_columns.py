"""Lists and maps whose insides were renamed, widened, dropped and added again between two of our own writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

from airflow_abs import Files, IcebergTable
from airflow_abs.testing.rows import describe_difference
from airflow_abs.testing.table_contract import planned_tables

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

ITEM = StructType(NestedField(10, "sku", StringType()), NestedField(11, "n", IntegerType()))
PLACE = StructType(NestedField(20, "city", StringType()), NestedField(21, "zip", StringType()))
COLUMNS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "items", ListType(3, ITEM, element_required=False)),
    NestedField(4, "places", MapType(5, StringType(), 6, PLACE, value_required=False)),
    NestedField(7, "grid", ListType(8, ListType(9, IntegerType(), element_required=False), element_required=False)),
)


def before(number: int) -> dict[str, Any]:
    items = [{"sku": f"s{number}", "n": number}, None, {"sku": None, "n": None}]
    return {
        "id": number,
        "items": None if number % 5 == 0 else items[: number % 4],
        "places": [("home", {"city": f"c{number}", "zip": "old"}), ("none", None)][: number % 3],
        "grid": [[number, None], [], None][: number % 4],
    }


def after(number: int) -> dict[str, Any]:
    """With the names, types and fields of the second day: a new ``zip`` is a number, and no one of the first day has
    it."""
    return {
        "id": number,
        "items": [{"code": f"s{number}", "n": 2**40 + number}, None],
        "places": [("work", {"town": f"c{number}", "zip": number})],
        "grid": [[2**40 + number]],
    }


def in_todays_words(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the first day as the second day's columns have it."""
    items, places = row["items"], row["places"]
    return row | {
        "items": items and [item and {"code": item["sku"], "n": item["n"]} for item in items],
        "places": [(key, place and {"town": place["city"], "zip": None}) for key, place in places],
    }


def write(endpoint: ConnectEndpoint, folder: Path, rows: pa.Table) -> None:
    """As a job does that passes on what it reads."""
    folder.mkdir()
    for number in range(3):
        pq.write_table(rows.slice(number * 10, 10), folder / f"{number}.parquet")
    vertex = {"source": Files(str(folder)), "sink": IcebergTable("lake.db.t")}
    with planned_tables(endpoint, folder / "exchange", {"t": vertex}) as tables:
        tables.run(3, folder.name)


def plain(rows: list[dict[str, Any]], schema: Any) -> pa.Table:
    """Without ids, as other programs write."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return pa.Table.from_pylist(rows, schema=schema_to_pyarrow(schema, include_field_ids=False))


def test_pyiceberg_duckdb_and_our_source_read_the_same_of_what_we_wrote(
    catalog: Any,
    properties: dict[str, str],
    connect_server: ConnectEndpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": properties}))
    table = catalog.create_table("db.t", COLUMNS)
    write(connect_server, tmp_path / "monday", plain([before(number) for number in range(30)], table.schema()))
    first = files_of(table)
    with table.update_schema() as update:
        update.rename_column("items.element.sku", "code").rename_column("places.value.city", "town")
        update.update_column("items.element.n", LongType()).update_column("grid.element.element", LongType())
        update.delete_column("places.value.zip")
    with table.update_schema() as update:
        update.add_column(("places", "value", "zip"), LongType())
    written = plain([after(number) for number in range(30, 60)], table.schema())
    write(connect_server, tmp_path / "tuesday", written)

    expected = pa.concat_tables([plain([in_todays_words(before(n)) for n in range(30)], table.schema()), written])
    second = sorted(set(files_of(table)) - set(first))
    assert describe_difference(table.scan().to_arrow(), without_null_lists(expected)) is None
    in_duckdb = duckdb.sql(f"""
        SELECT id, list_transform(items, lambda i: if(i IS NULL, NULL, {{'code': i.sku, 'n': i.n::BIGINT}})) AS items,
            map_from_entries(list_transform(map_entries(places), lambda e: (e.key, if(e.value IS NULL, NULL,
                {{'town': e.value.city, 'zip': NULL::BIGINT}})))) AS places,
            grid::BIGINT[][] AS grid FROM read_parquet({first})
        UNION ALL FROM read_parquet({second})
    """).to_arrow_table()
    assert describe_difference(in_duckdb.cast(expected.schema), expected) is None
    source = {"t": {"source": IcebergTable("lake.db.t")}}
    with planned_tables(connect_server, tmp_path / "exchange", source) as tables:
        for parallelism in (1, 3, 8):
            assert describe_difference(tables.run(parallelism)["t"].rows, expected) is None
    assert table.properties == {}


def without_null_lists(table: pa.Table) -> pa.Table:
    """As pyiceberg 0.12 reads it: a NULL list of structs is an empty one for it (apache/iceberg-python#3833)."""
    rows = [row | {"items": row["items"] or []} for row in table.to_pylist()]
    return pa.Table.from_pylist(rows, schema=table.schema)


def files_of(table: Any) -> list[str]:
    table.refresh()
    return [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
