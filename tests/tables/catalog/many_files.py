"""A table of many files in 40 partitions, some of them not where one would look for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_abs import Table
from airflow_abs.spark.catalog.session_catalog import SessionCatalog
from airflow_abs.tables.catalog.content import read_content
from airflow_abs.tables.catalog.partitions import folder_of
from airflow_abs.tables.catalog.statements import partition_clause, string_literal
from airflow_abs.testing.rows import describe_difference
from airflow_abs.testing.table_contract import planned_tables
from tests.tables.catalog.warehouse import Warehouse

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

PARTITIONS = 40
KINDS = ["north", None, "a/b%=c:", "it's ünï"]
Values = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class CountingCatalog(SessionCatalog):
    """Knows what it was asked, by the first two words."""

    asked: list[str] = field(default_factory=list)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        self.asked.append(" ".join(statement.split()[:2]))
        return SessionCatalog.rows(self, statement)


def make_many_files(warehouse: Warehouse, how: str, files: int) -> dict[Values, Path]:
    """The table ``many``, its statement ending in `how`, with so many files in each of its partitions; where those lie,
    by values.

    Some are elsewhere, two have each other's folders.
    """
    warehouse.run(f"CREATE TABLE {{db}}.many (id BIGINT, name STRING{how}")
    root = warehouse.folder / "many"
    listed: list[Values] = [(str(number), KINDS[number % len(KINDS)]) for number in range(PARTITIONS)]
    folders = {values: root / folder_of(["number", "kind"], values) for values in listed}
    folders[listed[4]], folders[listed[8]] = folders[listed[8]], folders[listed[4]]
    folders |= {values: warehouse.folder / "else where" / f"x={number}" for number, values in enumerate(listed[30:])}
    for number, folder in enumerate(folders.values()):
        folder.mkdir(parents=True)
        for part in range(files):
            start = (number * files + part) * 3
            rows = pa.table({"id": range(start, start + 3), "name": [None, f"n{start}", "x"]})
            pq.write_table(rows, folder / f"part-{part:03d}.parquet", compression="none")
    added = (
        f"{partition_clause(dict(zip(('number', 'kind'), values, strict=True)))} LOCATION {string_literal(str(folder))}"
        for values, folder in folders.items()
    )
    warehouse.run(f"ALTER TABLE {{db}}.many ADD {' '.join(added)}")
    return folders


def check_many_files(
    warehouse: Warehouse, how: str, files: int, server: ConnectEndpoint, exchange: Path, parallelisms: Sequence[int]
) -> None:
    """Our rows are Spark's and DuckDB's, and no partition was asked for by itself."""
    folders = make_many_files(warehouse, how, files)
    name = f"{warehouse.database}.many"
    catalog = CountingCatalog(warehouse.session)
    content = read_content(name, catalog, None, [])
    assert {(each.file.folder, each.values) for each in content.files} == {
        (f"file:{folder}", values) for values, folder in folders.items()
    }
    assert len(content.files) == PARTITIONS * files
    assert catalog.asked == [
        "DESCRIBE TABLE",
        "SHOW PARTITIONS",
        "SELECT __number,",
        "SET spark.sql.maxMetadataStringLength=1000000000",
        "EXPLAIN SELECT",
    ]
    places = pa.table(
        {
            "folder": [str(folder) for folder in folders.values()],
            "number": pa.array([int(str(number)) for number, _ in folders], pa.int32()),
            "kind": [kind for _, kind in folders],
        }
    )
    expected = duckdb.sql(
        f"SELECT id, name, number, kind FROM read_parquet('{warehouse.folder}/**/*.parquet', filename = true, "
        "hive_partitioning = false) JOIN places ON folder = parse_dirpath(filename)"
    ).to_arrow_table()
    assert (len(places), len(expected)) == (PARTITIONS, PARTITIONS * files * 3)
    assert describe_difference(warehouse.read("many"), expected.cast(warehouse.read("many").schema)) is None
    with planned_tables(server, exchange, {"many": {"source": Table(name)}}) as tables:
        for count in parallelisms:
            found = tables.run(count, f"at-{count}")["many"].rows
            assert describe_difference(found, expected.cast(found.schema)) is None, count
