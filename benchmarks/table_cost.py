# ruff: noqa: S608 - the SQL is put together from our own numbers
"""What a table costs beside files: the same rows in and out, as `Files`, as an Iceberg and as a Delta table.

In this process, without Airflow: what `plan`, the subtasks and `commit` take is told apart. Each format's files are
written by its own library; every output is read back by it and compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_abs import DeltaTable, Files, IcebergTable
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.run.attempt import release_sessions
from airflow_abs.spark.server.embedded import embedded_status, ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from airflow_abs.testing.table_contract import planned_tables

ROWS = int(os.environ.get("AIRFLOW_ABS_TABLE_ROWS", "12000000"))  # some 500 MB
FILES = 8
ROUNDS = 3
KEPT = "amount >= 100"
STEPS = ("plan", "run", "commit", "all", "cpu")

Row = dict[str, int | float | str]


@dataclass(slots=True)
class Lake:
    """The same rows in three formats, and a place for what comes out."""

    folder: Path
    catalog: Any = None

    def make(self) -> None:
        from deltalake import WriterProperties, write_deltalake
        from pyiceberg.catalog import load_catalog

        properties = {
            "type": "sql",
            "uri": f"sqlite:///{self.folder}/catalog.db",
            "warehouse": f"file://{self.folder}/iceberg",
        }
        os.environ["AIRFLOW_CONN_LAKE"] = json.dumps({"conn_type": "iceberg", "extra": properties})
        self.catalog = load_catalog("lake", **properties)
        self.catalog.create_namespace("db")
        (self.folder / "in").mkdir()
        zstd = WriterProperties(compression="ZSTD")
        for part in range(FILES):
            rows = _rows(part)
            pq.write_table(rows, self.folder / "in" / f"part-{part}.parquet", compression="zstd")
            self.catalog.create_table_if_not_exists("db.in", rows.schema).append(rows)
            write_deltalake(self.folder / "delta" / "in", rows, mode="append", writer_properties=zstd)
        self.catalog.create_table("db.out", rows.schema)
        write_deltalake(self.folder / "delta" / "out", rows.schema.empty_table())

    def ends(self) -> Mapping[str, tuple[Any, Any]]:
        """Source and sink by the format's name."""
        folder = self.folder
        return {
            "files": (Files(str(folder / "in")), Files(str(folder / "out"))),
            "iceberg": (IcebergTable("lake.db.in"), IcebergTable("lake.db.out", mode="overwrite")),
            "delta": (
                DeltaTable(str(folder / "delta" / "in")),
                DeltaTable(str(folder / "delta" / "out"), mode="overwrite"),
            ),
        }

    def read(self, kind: str) -> tuple[int, int]:
        """Rows of the output, and the sum of their ids."""
        from deltalake import DeltaTable as Library

        match kind:
            case "files":
                found = pq.read_table(self.folder / "out", columns=["id"])
            case "iceberg":
                found = self.catalog.load_table("db.out").scan(selected_fields=("id",)).to_arrow()
            case _:
                found = Library(self.folder / "delta" / "out").to_pyarrow_table(columns=["id"])
        return len(found), int(duckdb.from_arrow(found).sum("id").fetchall()[0][0])


def _rows(part: int) -> pa.Table:
    start, stop = part * ROWS // FILES, (part + 1) * ROWS // FILES
    return duckdb.sql(f"""
        SELECT range AS id, (hash(range) % 1000000)::INT AS customer_id, md5(range::VARCHAR) AS note,
               ((hash(range * 7) % 100000) / 100)::DECIMAL(12,2) AS amount FROM range({start}, {stop})
    """).to_arrow_table()


def run() -> list[Row]:
    """One row per format: medians of seconds by step, of the server's CPU seconds, and of the ratio to `Files`."""
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        settings = EmbeddedSettings(cores=os.cpu_count() or 1, driver_memory="3g", idle_seconds=600)
        try:
            endpoint = ensure_embedded_server(folder / "spark", settings=settings)
            server = psutil.Process(embedded_status(folder / "spark").jvm_pid)
            lake = Lake(folder)
            lake.make()
            samples = [
                measure(endpoint, lake, server, kind, number) for number in range(ROUNDS + 1) for kind in lake.ends()
            ]
        finally:
            stop_embedded_server(folder / "spark")
    return summarise(samples[len(samples) // (ROUNDS + 1) :])  # the first round warms up


def measure(endpoint: ConnectEndpoint, lake: Lake, server: psutil.Process, kind: str, number: int) -> Row:
    source, sink = lake.ends()[kind]
    vertex = {"source": source, "sink": sink, "sql": f"SELECT * FROM {{source}} WHERE {KEPT}"}
    exchange = lake.folder / f"exchange-{number}-{kind}"
    taken: Row = {"kind": kind, "round": number}
    before = _cpu(server)
    with _timed(taken, "all"):
        context = planned_tables(endpoint, exchange, {"copy": vertex})
        with _timed(taken, "plan"):
            tables = context.__enter__()
        with _timed(taken, "run"):
            failed = asyncio.run(tables.planned.run_regions())
        with _timed(taken, "commit"):
            tables.planned.commit()
    taken["cpu"] = _cpu(server) - before
    context.__exit__(None, None, None)
    asyncio.run(release_sessions(endpoint, tables.planned.folder))
    shutil.rmtree(exchange)
    if failed or lake.read(kind) != expected():
        raise RuntimeError(f"{kind}: {failed or lake.read(kind)}; expected {expected()}")
    return taken


@cache
def expected() -> tuple[int, int]:
    parts = []
    for part in range(FILES):
        parts += duckdb.from_arrow(_rows(part)).filter(KEPT).aggregate("count(*), sum(id)").fetchall()
    return sum(count for count, _ in parts), sum(int(total) for _, total in parts)


def _cpu(server: psutil.Process) -> float:
    """Of the JVM and of this process."""
    return sum(sum(each.cpu_times()[:2]) for each in (server, psutil.Process()))


@contextmanager
def _timed(taken: Row, step: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    taken[step] = time.perf_counter() - began


def summarise(samples: list[Row]) -> list[Row]:
    files = {each["round"]: each for each in samples if each["kind"] == "files"}
    rows = []
    for kind in dict.fromkeys(each["kind"] for each in samples):
        own = [each for each in samples if each["kind"] == kind]
        row: Row = {"kind": kind}
        row |= {step: round(statistics.median(float(each[step]) for each in own), 2) for step in STEPS}
        for step in ("all", "cpu"):
            shares = [float(each[step]) / float(files[each["round"]][step]) for each in own]
            row[f"{step}/files"] = round(statistics.median(shares), 2)
        rows.append(row)
    return rows
