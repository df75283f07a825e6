"""What one file for the result of a broadcast edge would save: CPU of writing it and of the reads of eight subtasks.

Each subtask of the consumer reads the whole result, and Spark sends it to all of its tasks as one table.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from airflow_abs.spark.connect.session import open_session
from benchmarks.exchange import READERS, bench_server, cpu_of

FILES = (1, 2, 8, 32)
ROWS = 900_000
ROUNDS = 3
_SCHEMA = "c_custkey BIGINT, c_name STRING, c_mktsegment STRING"


def run(counts: Sequence[int] = FILES, rows: int = ROWS, rounds: int = ROUNDS) -> list[dict[str, float | int]]:
    """CPU seconds of the server by number of files; medians of all rounds, after one that warms the server up."""
    samples: Mapping[int, list[dict[str, float]]] = {count: [] for count in counts}
    with bench_server("2g") as (endpoint, folder, server), open_session(endpoint) as session:
        for number in range(rounds + 1):
            for count in counts:
                samples[count].append(_measure(session, server, folder / f"{number}-{count}", count, rows))
    return [
        {"files": count, **{what: round(statistics.median(each[what] for each in found[1:]), 2) for what in found[0]}}
        for count, found in samples.items()
    ]


def _measure(session: Any, server: psutil.Process, path: Path, count: int, rows: int) -> dict[str, float]:
    write = cpu_of(server, partial(_write, session, path, count, rows))
    reads = cpu_of(server, partial(_read_all, session, path, rows))
    return {"write": write, f"{READERS} reads": reads, "both": write + reads}


def _write(session: Any, path: Path, count: int, rows: int) -> None:
    from pyspark.sql import functions as sf

    key = sf.col("id").alias("c_custkey")
    name = sf.format_string("Customer#%09d", "id").alias("c_name")
    segment = sf.concat(sf.lit("segment "), (sf.col("id") % 5).cast("string")).alias("c_mktsegment")
    session.range(0, rows, 1, count).select(key, name, segment).write.parquet(f"file://{path}")


def _read_all(session: Any, path: Path, rows: int) -> None:
    from pyspark.sql import functions as sf

    for number in range(READERS):
        customers = session.read.schema(_SCHEMA).parquet(*[f"file://{file}" for file in sorted(path.glob("*.parquet"))])
        orders = session.range(number, rows, READERS, 2).withColumnRenamed("id", "o_custkey")
        joined = orders.join(sf.broadcast(customers), orders.o_custkey == customers.c_custkey)
        joined.write.format("noop").mode("overwrite").save()
