"""A stream on a real standalone cluster whose Spark workers come and go: 2 slots, then 4, then 2.

python -m tests.testbed.rescaling --times 3
python -m tests.testbed.rescaling --repartition     its state follows, too
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb

from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.slots_wanted import SlotsWanted
from airflow_abs.core.streaming.states import State
from airflow_abs.demo.bound_child import start_bound, stop_group
from airflow_abs.exchange.streaming.spark_checkpoint import read_spark_checkpoint
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.stream.query import StreamProgress
from airflow_abs.spark.stream.supervise import StreamRun
from testbed.processes import ClusterProcesses, base_environment
from testbed.topology.place import WORKERS, Place
from testbed.topology.spark import spark_worker
from tests.spark.stream.streams import Place as StreamPlace
from tests.testbed.cluster_injection import with_worker

SECONDS = 240.0
AHEAD = 12
ADDED = ("spark-worker-3", "spark-worker-4")
FOLLOW = Rescale(partitions_per_slot=1, files_per_slot=1, cooldown=1, stabilization=2, max_delay=60)


@dataclass(slots=True)
class Rescales:
    """With how many slots the query has run, in order; how many files batches had with each (one that was under way is
    done again as it was); in how many partitions its state was then; the most seconds without a batch since
    each start; files that were read; and the rows that came out, beside DuckDB's."""

    slots: list[int] = field(default_factory=list)
    files: list[set[int]] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)
    silent: list[float] = field(default_factory=list)
    read: int = 0
    found: list[Any] = field(default_factory=list)
    expected: list[Any] = field(default_factory=list)


def without_repeated(orders: Any) -> Any:
    return orders.withWatermark("at", "1 day").dropDuplicates(["id", "at"]).select("id", "key")


@contextmanager
def two_more_workers(place: Place, logs: Path) -> Iterator[None]:
    """Spark workers of one core each, gone afterwards as after a crash."""
    with ExitStack() as running:
        for name in ADDED:
            service = spark_worker(with_worker(place, name), name)
            with (logs / f"{name}.log").open("ab") as log:
                environment = base_environment() | dict(service.environment)
                process = start_bound(service.command, env=environment, log=log, cwd=logs)
            running.callback(stop_group, process, 0.0)
        yield


def follow_the_slots(place: Place, folder: Path, rescale: Rescale = FOLLOW) -> Rescales:
    """Run a stateful stream on the cluster while workers come and go; files are delivered all the time, and half of
    their rows are repeated by a later one, however the query was started in between."""
    token, port = place.secrets["SPARK_CONNECT_TOKEN"], place.ports["spark-connect"]
    stream = StreamPlace(
        ConnectEndpoint("localhost", port, token=token),
        folder,
        without_repeated,
        available_now=False,
        wanted=SlotsWanted(4, 2),
        rescale=rescale,
        conf={},
    )
    stream.deliver(0)
    report = Rescales()
    asyncio.run(_follow(stream, stream.compile(), place, report))
    report.found = stream.published()
    expected = duckdb.sql(f"SELECT DISTINCT id, key FROM {stream.delivered()}").fetchall()
    report.expected = sorted(expected, key=repr)
    return report


async def _follow(stream: StreamPlace, plan: bytes, place: Place, report: Rescales) -> None:
    last = time.monotonic()

    def note(progress: StreamProgress) -> None:
        nonlocal last
        silent, last = time.monotonic() - last, time.monotonic()
        slots = run.lease.holder.slots
        if not report.slots or slots != report.slots[-1]:
            report.slots.append(slots)
            report.files.append(set())
            report.partitions.append(None)
            report.silent.append(silent)
        report.silent[-1] = max(report.silent[-1], silent)
        report.partitions[-1] = read_spark_checkpoint(stream.root / "checkpoint/spark").state_partitions
        report.read += progress.rows // 100
        report.files[-1].add(progress.rows // 100)

    async with stream.supervised(plan) as run, asyncio.timeout(SECONDS):
        run.on_progress = note
        supervised = asyncio.create_task(run.run())
        delivering = asyncio.create_task(_deliver(stream, report))
        try:
            await _until(supervised, lambda: report.files != [] and 2 in report.files[-1])
            with two_more_workers(place, stream.root):
                # On a busy machine the two come so far apart, or go, that it runs with three in between.
                await _until(supervised, lambda: report.slots[-1] == 4 and 4 in report.files[-1])
            await _until(supervised, lambda: report.slots[-1] == 2 and 2 in report.files[-1])
        finally:
            delivering.cancel()
        await _drain(run, supervised)


async def _deliver(stream: StreamPlace, report: Rescales) -> None:
    """Some files more than are read."""
    number = 0
    while True:
        while number - report.read > AHEAD:
            await asyncio.sleep(0.05)
        number += 1
        before = f"SELECT * FROM '{stream.root}/in/{number // 2:04d}.parquet'"
        await asyncio.to_thread(stream.deliver, number, before if number % 2 else None)


async def _until(supervised: asyncio.Task[Any], condition: Any) -> None:
    while not condition():
        assert not supervised.done(), supervised.result()
        await asyncio.sleep(0.1)


async def _drain(run: StreamRun, supervised: asyncio.Task[Any]) -> None:
    """Once it has read all that was delivered."""
    while run.supervisor.state is not State.EXECUTING or run._activity != "idle":
        assert not supervised.done(), supervised.result()
        await asyncio.sleep(0.1)
    run.drain()
    assert (await supervised).status == "FINISHED"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--repartition", action="store_true", help="the state, too")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="airflow-abs-rescale-"))
    right = True
    try:
        (folder / "dags").mkdir()
        cluster = ClusterProcesses(folder, folder / "dags")
        try:
            for name in ("spark-master", *WORKERS, "spark-connect"):
                cluster.start(name)
            for time_ in range(options.times):
                place = folder / "shared" / f"stream-{time_}"
                place.mkdir()
                rescale = replace(FOLLOW, repartition_state="local[1]" if options.repartition else "")
                report = follow_the_slots(cluster.place, place, rescale)
                is_equal = report.found == report.expected
                silent = ", ".join(f"{seconds:.1f}" for seconds in report.silent)
                told = f"slots {report.slots}, files {report.files}, state {report.partitions}"
                print(f"{told}, seconds without a batch {silent}: {is_equal}")
                right = right and is_equal
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
