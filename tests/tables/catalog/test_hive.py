"""Tables of a real Hive metastore, on Derby: the one that comes with Spark's wheel. It needs a server of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_abs import Table
from airflow_abs.testing.rows import describe_difference
from airflow_abs.testing.table_contract import planned_tables, table_access
from tests.tables.catalog.hidden_names import check_hidden_names
from tests.tables.catalog.many_files import check_many_files
from tests.tables.catalog.warehouse import open_warehouse

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def hive_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectEndpoint]:
    from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
    from airflow_abs.spark.server.embedded_state import EmbeddedSettings

    folder = tmp_path_factory.mktemp("hive-spark")
    folder.chmod(0o700)
    derby = f"jdbc:derby:;databaseName={folder}/metastore;create=true"
    conf = (
        ("spark.sql.catalogImplementation", "hive"),
        ("spark.hadoop.javax.jdo.option.ConnectionURL", derby),
        ("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder}"),
        ("spark.sql.shuffle.partitions", "2"),
    )
    settings = EmbeddedSettings(cores=2, driver_memory="1g", idle_seconds=600, conf=conf)
    try:
        yield ensure_embedded_server(folder, settings=settings)
    finally:
        stop_embedded_server(folder)


def test_tables_of_a_hive_metastore_are_read_and_written_by_locations(
    hive_server: ConnectEndpoint, tmp_path: Path
) -> None:
    from airflow_abs.spark.connect.session import open_session

    with open_session(hive_server) as session, open_warehouse(session, tmp_path / "warehouse") as warehouse:
        for name in ("orders", "copies"):
            warehouse.run(
                f"CREATE TABLE {{db}}.{name} (id BIGINT, Name STRING) PARTITIONED BY (day DATE) STORED AS PARQUET"
            )
        rows = pa.table({"id": [1, 2, 3], "Name": ["a", None, "c"], "day": [date(2026, 1, 1), date(2026, 1, 2), None]})
        warehouse.insert("orders", rows)
        warehouse.run("ALTER TABLE {db}.orders ADD COLUMNS (later DOUBLE)")
        warehouse.run("ALTER TABLE {db}.copies ADD COLUMNS (later DOUBLE)")
        warehouse.insert("copies", warehouse.read("orders").slice(0, 1))
        warehouse.run("CREATE TABLE {db}.whole (id BIGINT, later DOUBLE, Name STRING, day DATE) USING parquet")
        warehouse.run("INSERT INTO {db}.whole VALUES (9, 9, '9', NULL)")
        expected, db = warehouse.read("orders"), warehouse.database
        partitions = Table(f"{db}.copies", mode="overwrite_partitions")
        vertices = {
            "copy": {"source": Table(f"{db}.orders"), "sink": partitions},
            "one": {"source": Table(f"{db}.orders", where="day = '2026-01-02'")},
            "all": {"source": Table(f"{db}.orders"), "sink": Table(f"{db}.whole", mode="overwrite")},
        }
        with planned_tables(hive_server, tmp_path / "exchange", vertices) as tables:
            done = tables.run(2)
            tables.run(1, "again")
        one = {"id": 2, "Name": None, "later": None, "day": date(2026, 1, 2)}
        assert done["one"].rows.to_pylist() == [one]
        assert describe_difference(warehouse.read("copies"), expected) is None
        assert describe_difference(warehouse.read("whole").select(expected.column_names), expected) is None
        where = {row[1] for row in warehouse.run("DESCRIBE TABLE EXTENDED {db}.copies PARTITION (day = NULL)")}
        assert any("/_airflow_abs/" in str(each) for each in where)
        assert len(Table(f"{db}.copies").pin(table_access(lambda: hive_server)).files) == 3


def test_many_files_of_a_hive_metastores_table_give_sparks_and_duckdbs_rows(
    hive_server: ConnectEndpoint, tmp_path: Path
) -> None:
    from airflow_abs.spark.connect.session import open_session

    how = ") PARTITIONED BY (number INT, kind STRING) STORED AS PARQUET"
    with open_session(hive_server) as session, open_warehouse(session, tmp_path / "warehouse") as warehouse:
        # After `plan` it is as the table of 1,000 files in `test_source.py`.
        check_many_files(warehouse, how, 5, hive_server, tmp_path / "exchange", (8,))


def test_runs_whose_names_spark_hides_are_known_by_a_hive_metastore(
    hive_server: ConnectEndpoint, tmp_path: Path
) -> None:
    from airflow_abs.spark.connect.session import open_session

    with open_session(hive_server) as session, open_warehouse(session, tmp_path / "warehouse") as warehouse:
        check_hidden_names(warehouse, hive_server, tmp_path)
