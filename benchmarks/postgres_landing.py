"""Copying a PostgreSQL table into the exchange: by the threads of `plan`, or by processes that share its snapshot.

The processes are what subtasks could be at best: they have started already, and wait for nothing.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from airflow_abs.tables.postgres import landing
from airflow_abs.tables.postgres.connection import open_transaction
from airflow_abs.tables.postgres.connection import run as execute
from airflow_abs.tables.postgres.landing import Wanted, land
from tests.postgres_server import running_postgres
from tests.tables.postgres.warehouse import Warehouse

REPEATS = 3
MADE = """
CREATE TABLE sold AS SELECT n AS id, n % 97 AS customer, now() - n * interval '1 s' AS at,
  (n % 100000)::numeric(12, 2) AS price, md5(n::text) AS note, repeat(md5((n * 7)::text), 2) AS more
FROM generate_series(1, 3000000) AS n
"""
Row = dict[str, int | float | str]


def run() -> list[Row]:
    """One row per way, interleaved; the medians of three by seconds."""
    with running_postgres() as port:
        Warehouse(port, "postgres").execute(MADE)
        Warehouse(port, "postgres").execute("VACUUM ANALYZE sold")
        ways: list[tuple[str, int]] = [
            ("threads", 1),
            ("threads", 2),
            ("threads", 4),
            ("processes", 2),
            ("processes", 4),
        ]
        rounds = [[measure(port, *way) for way in ways] for _ in range(REPEATS)]
    return [sorted(of, key=lambda row: float(row["s"]))[REPEATS // 2] for of in zip(*rounds, strict=True)]


def measure(port: int, way: str, number: int) -> Row:
    properties = Warehouse(port, "postgres").properties
    wanted = Wanted("warehouse.sold", "sold", None, None, (), ())
    copy = copy_in_processes if way == "processes" else landing._copy_ranges
    with (
        TemporaryDirectory() as folder,
        patch.object(landing, "CONNECTIONS", number),
        patch.object(landing, "_copy_ranges", copy),
    ):
        before, started = cpu_seconds(), time.perf_counter()
        land(wanted, properties, Path(folder) / "landed")
        seconds = time.perf_counter() - started
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        return {
            "way": way,
            "number": number,
            "MB": round(size / 1e6),
            "s": round(seconds, 2),
            "CPU s of copying": round(cpu_seconds() - before, 2),
        }


def copy_in_processes(copy: Any, ranges: Sequence[str | None], snapshot: str, properties: Any) -> list[Any]:
    """In the place of `landing._copy_ranges`: a process for each share of the ranges, under the same snapshot."""
    forked = multiprocessing.get_context("fork")
    count = landing.CONNECTIONS
    numbered = list(enumerate(ranges))
    workers = [
        forked.Process(target=copy_share, args=(copy, numbered[k::count], snapshot, properties)) for k in range(count)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise RuntimeError(f"a process ended with {worker.exitcode}")
    return []


def copy_share(copy: Any, share: Sequence[tuple[int, str | None]], snapshot: str, properties: Any) -> None:
    with open_transaction(copy.wanted.label, properties, readonly=True) as connection:
        execute(connection, "SET TRANSACTION SNAPSHOT %s", snapshot)
        for number, tids in share:
            copy.copy(connection, number, tids)


def cpu_seconds() -> float:
    """Of this process and of those that it has awaited; the database's are not among them."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
