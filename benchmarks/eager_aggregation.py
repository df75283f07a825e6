"""CPU of grouping rows before their consumer joins them, by rows a group: where partial aggregates begin to pay."""

from __future__ import annotations

import asyncio
import os
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import psutil

from airflow_abs.core.durability.prediction import JobHistory, RunHistory
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.manifest import read_manifests
from airflow_abs.exchange.sources.files import Files
from benchmarks.exchange import bench_server, cpu_of
from tests.job_runner import JobRun, plan_run, program_of

ROWS = 2_000_000
ROUNDS = 3
ROWS_A_GROUP = (1, 2, 4, 8, 16)
FILES = 4
SHARES = {"rows": 1.0, "partial aggregates": 0.0}
"""Partial results of each row that an earlier run is said to have made: those that pay are written."""
KEYS = {"together": "range // {a_group}", "scattered": "range * 7919 % {groups}"}
"""Where the rows of a group are in the file that has all of them."""


def run(rows: int = ROWS, rounds: int = ROUNDS) -> list[dict[str, float | str]]:
    """CPU seconds of Spark, medians of all rounds: of the producer, of the consumer, and of both."""
    found = []
    with bench_server("2g") as (endpoint, folder, server):
        for order, key in KEYS.items():
            for a_group in ROWS_A_GROUP:
                place = folder / f"{order}-{a_group}"
                _write_tables(place, key, rows, a_group)
                samples: dict[str, list[dict[str, float]]] = {way: [] for way in SHARES}
                for number in range(rounds + 1):  # the first one warms the server up
                    for way, share in SHARES.items():
                        samples[way].append(_measure(endpoint, place, server, f"{number}-{share:.0f}", share))
                for way, measured in samples.items():
                    medians = {what: statistics.median(each[what] for each in measured[1:]) for what in measured[0]}
                    of = {"rows of a group": f"{a_group}, {order}", "edge of": way}
                    found.append(of | {what: round(value, 2) for what, value in medians.items()})
    return found


def _write_tables(folder: Path, key: str, rows: int, a_group: int) -> None:
    groups = rows // FILES // a_group
    (folder / "items").mkdir(parents=True)
    (folder / "orders").mkdir()
    for part in range(FILES):
        own = f"{part * groups} + {key.format(a_group=a_group, groups=groups)}"
        items = f"""SELECT {own} AS key, ((hash(range) % 1000000) / 100)::DECIMAL(15,2) AS price,
                           (hash(range * 7) % 50)::INT AS quantity, md5(range::VARCHAR) AS note
                    FROM range({rows // FILES})"""  # noqa: S608
        orders = f"""SELECT range AS key, 'segment ' || hash(range) % 5 AS segment
                     FROM range({part * groups}, {(part + 1) * groups})"""  # noqa: S608
        for name, query in (("items", items), ("orders", orders)):
            duckdb.sql(f"COPY ({query}) TO '{folder}/{name}/part-{part}.parquet' (FORMAT parquet)")


def spend(items: Any, orders: Any) -> Any:
    from pyspark.sql import functions as sf

    joined = items.join(orders, "key")
    return joined.groupBy("key", "segment").agg(
        sf.sum("price").alias("price"), sf.max("quantity").alias("largest"), sf.count("*").alias("items")
    )


def _measure(endpoint: Any, folder: Path, server: psutil.Process, run_id: str, share: float) -> dict[str, float]:
    job = _plan(endpoint, folder, run_id, share)
    asyncio.run(job.run_region("orders"))
    seconds = {
        "producer": cpu_of(server, partial(_run, job, "items")),
        "consumer": cpu_of(server, partial(_run, job, "spent")),
    }
    manifests = read_manifests(job.folder, "items", job.decisions["items"].parallelism)
    written = sum(result.bytes for manifest in manifests for result in manifest.results.values())
    return {**seconds, "both": sum(seconds.values()), "megabytes": written / 1e6}


def _run(job: JobRun, region: str) -> None:
    asyncio.run(job.run_region(region))


def _plan(endpoint: Any, folder: Path, run_id: str, share: float) -> JobRun:
    """Each file of items is a subtask's."""
    largest = max(path.stat().st_size for path in (folder / "items").iterdir())
    job = plan_run(
        endpoint,
        folder / "exchange",
        [JobVertex("items", has_source=True), JobVertex("orders", has_source=True), JobVertex("spent", has_sink=True)],
        [JobEdge(name, "spent", name, Partitioning.HASH, ("key",)) for name in ("items", "orders")],
        [
            program_of("items", None, {}, Files(f"{folder}/items")),
            program_of("orders", None, {}, Files(f"{folder}/orders")),
            program_of("spent", spend, sink=Files(f"{folder}/out")),
        ],
        target_bytes=largest,
        slots=os.cpu_count(),
        run_id=run_id,
        history=JobHistory((RunHistory(0.0, (), partial_shares={"items": share}),)),
    )
    entry = next(each for each in job.plan.region("spent").inputs if each.name == "spent.items")
    if entry.written.startswith("partial ") is not (share == 0.0):
        raise AssertionError(f"the edge carries {entry.written!r}, and earlier runs made {share} results of each row")
    return job
