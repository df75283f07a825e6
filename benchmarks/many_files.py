"""What Spark's listing of many small files costs a session, with its own settings and with those of every session here.

A listing is part of every analysis of a read, before any row is read.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_abs.spark.connect.operations import EVERY_SESSION
from airflow_abs.spark.connect.session import open_session
from benchmarks.exchange import bench_server, cpu_of

FILES = (32, 40, 200, 1000)
ROUNDS = 3
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def run(counts: Sequence[int] = FILES, rounds: int = ROUNDS) -> list[dict[str, float | int]]:
    """CPU seconds of the server by number of files; medians of all rounds, after one that warms the server up."""
    with bench_server("2g") as (endpoint, folder, server), open_session(endpoint) as session:
        paths = [_write(folder / f"{number}.parquet") for number in range(max(counts))]
        return [_measure(session, server, paths[:count], rounds) for count in counts]


def _write(path: Path) -> str:
    pq.write_table(pa.table({"id": range(3)}), path)
    return f"file://{path}"


def _measure(session: Any, server: psutil.Process, paths: Sequence[str], rounds: int) -> dict[str, float | int]:
    samples: Mapping[str, list[float]] = {"Spark's own": [], "ours": []}
    for _ in range(rounds + 1):
        session.conf.unset(_LISTING)
        samples["Spark's own"].append(cpu_of(server, partial(_analyse, session, paths)))
        session.conf.set(_LISTING, EVERY_SESSION[_LISTING])
        samples["ours"].append(cpu_of(server, partial(_analyse, session, paths)))
    medians = {what: round(statistics.median(found[1:]), 2) for what, found in samples.items()}
    return {"files": len(paths), **medians}


def _analyse(session: Any, paths: Sequence[str]) -> None:
    session.read.schema("id BIGINT").parquet(*paths).isLocal()
