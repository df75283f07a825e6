# ruff: noqa: S608 - the SQL is put together from our own queries and paths
"""The workloads' tables as Parquet files, and the comparison of an output with DuckDB's.

<root>/<scale>/tpch/<table>.parquet           made by tpchgen-cli
<root>/<scale>/<workload>/<table>/*.parquet   what the peers read
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import duckdb

from airflow_abs.demo.generate import find_tpchgen
from airflow_abs.demo.oracle import Verdict, compare
from benchmarks.workloads import Workload

FILE_BYTES = 64 * 1024 * 1024
TPCH_TABLES = ("orders", "lineitem", "customer")


def make_tables(root: Path, workload: Workload, scale: float, file_bytes: int = FILE_BYTES) -> Path:
    """The workload's folder, made if it is not there; `scale` is TPC-H's (1: 6 million line items).

    A file may be larger than `file_bytes` by one row group.
    """
    folder = root / f"{scale:g}" / workload.name
    if folder.exists():
        return folder
    tpch = _make_tpch(root / f"{scale:g}" / "tpch", scale)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name, duckdb.connect() as connection:
        for table in TPCH_TABLES:
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{tpch}/{table}.parquet'")
        made = Path(name, "made")
        for table, query in workload.tables.items():
            (made / table).mkdir(parents=True)
            connection.execute(
                f"COPY ({query}) TO '{made}/{table}' (FORMAT parquet, COMPRESSION snappy, FILE_SIZE_BYTES {file_bytes})"
            )
        made.rename(folder)  # whole or not at all
    return folder


def table_bytes(folder: Path) -> int:
    """Bytes of all tables."""
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def verify(workload: Workload, data: Path, output: Path) -> Verdict:
    """Compare the Parquet files below `output` with the oracle's rows: same columns and types, same rows as often."""
    files = sorted(str(file) for file in output.rglob("*.parquet"))
    if not files:
        return Verdict(0, f"{workload.name}: no Parquet file below {output}")
    with duckdb.connect() as connection:
        for table in workload.tables:
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{data}/{table}/*.parquet'")
        expected = _expected(connection, workload, data)
        connection.execute(f"CREATE TABLE expected AS SELECT * FROM '{expected}'")
        connection.execute(f"CREATE TABLE actual AS SELECT * FROM read_parquet({files!r}, hive_partitioning = false)")
        return compare(connection, workload.name)


def _expected(connection: duckdb.DuckDBPyConnection, workload: Workload, data: Path) -> Path:
    """The oracle's rows, computed once for all runs over the same data."""
    path = data.parent / f"{workload.name}-expected.parquet"
    if not path.exists():
        connection.execute(f"COPY ({workload.oracle}) TO '{path}' (FORMAT parquet)")
    return path


def _make_tpch(folder: Path, scale: float) -> Path:
    if not folder.exists():
        making = folder.with_name("tpch-making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        tables = ",".join(TPCH_TABLES)
        command = [find_tpchgen(), "parquet", "--scale-factor", f"{scale:f}", "--tables", tables]
        subprocess.run([*command, "--output-dir", str(making), "--quiet"], check=True)
        making.rename(folder)
    return folder
