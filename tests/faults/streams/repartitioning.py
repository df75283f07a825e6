"""Kill whoever repartitions the state of a stream, again and again: `python -m tests.faults.streams.repartitioning`.

Each supervisor is of another task, so it ends the query of the one before and starts it anew, with another number of
partitions; it is killed at any moment between its start and its first batches. At the end the sink must be DuckDB's
answer: each id once, half of which were delivered twice.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from airflow_abs.core.streaming.failures import FailureJudge
from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.slots_wanted import SlotsWanted
from airflow_abs.core.streaming.supervision import StreamSupervisor
from airflow_abs.demo.bound_child import start_bound, stop_group
from airflow_abs.exchange.streaming.lease import CheckpointLease, Holder, read_holder
from airflow_abs.exchange.streaming.spark_checkpoint import read_spark_checkpoint
from airflow_abs.restart_strategy import ExponentialDelayRestart
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from airflow_abs.spark.stream.state_partitions import StatePartitions
from airflow_abs.spark.stream.stream import Stream
from airflow_abs.spark.stream.supervise import StreamRun
from tests.faults.streams.spark_files import files_done
from tests.faults.streams.supervisor import LEASE_SECONDS, Server
from tests.spark.stream.streams import Place

PARTITIONS = (1, 2, 3, 5)
SECONDS = 240.0
_TOLD = {
    "repartitioned": r"its state has \d+ partitions? instead of",
    "left midway and undone": r"undone: it was left midway",
    "failed and undone": r"undone: (?!it was left midway)",
    "a batch done first": r"which has begun, is completed first",
}


def once(orders: Any) -> Any:
    return orders.withWatermark("at", "1 day").dropDuplicates(["id", "at"]).select("id", "key")


class Stage:
    """One stream from `in` to `out` below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.endpoint = ensure_embedded_server(folder / "spark", settings=EmbeddedSettings(driver_memory="1g"))
        self.place = Place(self.endpoint, folder, once, available_now=False)
        self.delivered = 0
        self.deliver()
        (folder / "plan").write_bytes(self.place.compile())

    def deliver(self) -> None:
        first = self.delivered * 50  # half of it is what the file before has
        rows = (
            f"SELECT i AS id, i % 7 AS key, to_timestamp(1767225600 + i) AS at FROM range({first}, {first + 100}) t(i)"
        )
        self.place.deliver(self.delivered, rows)
        self.delivered += 1

    @contextmanager
    def supervisor(self, number: int, partitions: int) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", __spec__.name, "--supervise", str(self.folder), str(number), str(partitions)]
        with (self.folder / "supervisors.log").open("ab") as log:
            process = start_bound(command, env=dict(os.environ), log=log)
        try:
            yield process
        finally:
            stop_group(process, 0.0)

    def is_done(self) -> bool:
        """Whether all that was delivered is in batches that were committed."""
        names = {path.name for path in (self.folder / "in").glob("[0-9]*")}
        return files_done(self.folder / "checkpoint/spark") >= names

    def told(self) -> dict[str, int]:
        text = (self.folder / "supervisors.log").read_text()
        return {what: len(re.findall(words, text)) for what, words in _TOLD.items()}

    def wrong(self) -> str:
        """How the sink differs from DuckDB's answer; "" if it does not."""
        expected = duckdb.sql(f"SELECT DISTINCT id, key FROM {self.place.delivered()}").fetchall()
        found = self.place.published()
        missing = len(set(expected) - set(found))
        return "" if found == sorted(expected, key=repr) else f"{len(found)} of {len(expected)} rows, {missing} missing"


def kill_them(folder: Path, seed: int, kills: int, longest: float) -> str:
    """What is wrong in the end, "" if nothing is."""
    chance, stage = random.Random(seed), Stage(folder)  # noqa: S311
    try:
        for number in range(kills):
            stage.deliver()
            partitions = PARTITIONS[(number + 1) % len(PARTITIONS)]
            with stage.supervisor(number, partitions):
                time.sleep(chance.uniform(LEASE_SECONDS, longest))
            print(f"{number}: killed; {read_spark_checkpoint(folder / 'checkpoint/spark')}, {stage.told()}", flush=True)
        with stage.supervisor(kills, PARTITIONS[0]):
            until = time.monotonic() + SECONDS
            while not stage.is_done() and time.monotonic() < until:
                time.sleep(0.2)
        return stage.wrong() if stage.is_done() else f"after {SECONDS:g} s it had not read all that was delivered"
    finally:
        stop_embedded_server(folder / "spark")


async def _supervise(folder: Path, number: str, partitions: int) -> None:
    rescale = Rescale(partitions_per_slot=partitions, repartition_state="local[1]")
    judge = FailureJudge(ExponentialDelayRestart(initial=0.5, longest=5, attempts=None).new_backoff(number))
    lease = CheckpointLease(folder / "checkpoint", Holder(number, number), time.time, LEASE_SECONDS)
    server = Server(folder)
    while not _is_free(folder):
        await asyncio.sleep(0.2)
    run = StreamRun(
        await server.connect(),
        server.connect,
        Stream("orders", (folder / "plan").read_bytes(), {}, 0.3, rescale=rescale),
        lease,
        StreamSupervisor(judge, SlotsWanted(), ends=False, rescale=rescale),
        state=StatePartitions("orders", lease, folder / "out", rescale.repartition_state),
    )
    await run.run()


def _is_free(folder: Path) -> bool:
    holder = read_holder(folder / "checkpoint")
    return holder is None or holder.until < time.time()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--longest", type=float, default=45.0, help="seconds after which one is killed at the latest")
    parser.add_argument("--folder", type=Path, help="keep everything here (default: a temporary folder)")
    parser.add_argument("--supervise", nargs=3)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.supervise:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
        folder, number, partitions = options.supervise
        asyncio.run(_supervise(Path(folder), number, int(partitions)))
        return 0
    with tempfile.TemporaryDirectory(prefix="airflow-abs-repartitioning-") as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        wrong = kill_them(folder, options.seed, options.kills, options.longest)
    print(f"WRONG: {wrong}" if wrong else "the sink is DuckDB's answer")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
