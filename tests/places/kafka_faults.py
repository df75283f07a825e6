"""Broker outages, killed servers and rescalings under one stateful stream: `python -m tests.places.kafka_faults`.

The stream drops repeated numbers, on a standalone Spark cluster whose second worker comes and goes. Records are
produced in waves, one before and one after each fault; each repeats a tenth of the numbers of the wave before. A fault
hits once the first batch of its wave is done, and the next one comes when all that was produced is in committed
batches. At the end the sink must have every number once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.slots_wanted import SlotsWanted
from airflow_abs.core.streaming.state_partitions import ROCKSDB, STATE_STORE
from airflow_abs.exchange.streaming.spark_checkpoint import read_spark_checkpoint
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.server.embedded import embedded_status, stop_embedded_server
from testbed.places.kafka_broker import kafka_broker
from testbed.places.served import Served
from tests.java_options import QUICK
from tests.places.topics import FromTopic, Told, running, server
from tests.standalone import choose_ports, master_started, worker_started

OUTAGES = (5, 10, 15, 20, 30, 40, 50, 70, 90, 120)
"""Seconds, of a whole series; it has as many faults of the other kinds as these say."""
KILLS, RESCALES = 5, 3
CORES = 2
"""Of each worker."""
SECONDS = 3 * 3600.0
REPEATED = 10
FOLLOW = Rescale(partitions_per_slot=2, records_per_slot=10_000, cooldown=1, stabilization=2, max_delay=60)


def without_repeated(messages: Any) -> Any:
    from pyspark.sql import functions as sf

    numbers = messages.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS n")
    # A thousand numbers are a second, so the state holds the last million or so.
    timed = numbers.withColumn("at", sf.expr("timestamp_seconds(1767225600 + n DIV 1000)"))
    return timed.withWatermark("at", "1000 seconds").dropDuplicates(["n", "at"]).select("n")


@dataclass(frozen=True, slots=True)
class Fault:
    """`recovered`: seconds from its end (the broker is back, the server dead, the slots other ones) until
    all that was produced before and after it was in committed batches; `restarts`: of the query since it began."""

    kind: str
    what: str
    recovered: float
    restarts: int


@dataclass(slots=True)
class Report:
    """`found` are rows, different numbers, the least and the greatest of the sink; expected is each of `numbers`."""

    seed: int
    records: int = 0
    numbers: int = 0
    seconds: float = 0.0
    batches: int = 0
    faults: list[Fault] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    found: tuple[int, ...] = ()

    @property
    def is_right(self) -> bool:
        return self.found == (self.numbers, self.numbers, 0, self.numbers - 1)

    def to_markdown(self) -> str:
        lines = [
            f"| fault (seed {self.seed}) | times | restarts | seconds to recover: median, most |",
            "|---|---|---|---|",
        ]
        for kind in [*dict.fromkeys(fault.kind for fault in self.faults), ""]:
            own = [fault for fault in self.faults if fault.kind == kind or not kind]
            seconds = [fault.recovered for fault in own]
            restarts = sum(fault.restarts for fault in own)
            spread = f"{statistics.median(seconds):.0f}, {max(seconds):.0f}"
            lines.append(f"| {kind or '**all**'} | {len(own)} | {restarts} | {spread} |")
        rows, different, least, most = self.found
        verdict = "each number once" if self.is_right else f"WRONG, expected {self.numbers} from 0 on"
        lines += [
            "",
            f"* records: {self.records}, of {self.numbers} numbers; batches: {self.batches}; "
            f"slots after each fault: {self.slots}; seconds: {self.seconds:.0f}",
            f"* the sink has {rows} rows, {different} different numbers from {least} to {most}: {verdict}",
        ]
        return "\n".join(lines)


@dataclass(slots=True)
class Series:
    """Its servers, while it lasts."""

    stream: FromTopic
    another: Callable[[], ConnectEndpoint]
    broker: Served
    state: Path
    worker: Callable[[ExitStack], None]
    workers: ExitStack = field(default_factory=ExitStack)
    is_large: bool = False

    def produce(self, report: Report, count: int) -> None:
        """`count` new numbers, and every tenth of the wave before once more."""
        self.stream.endpoint = self.another()
        self.stream.produce(report.numbers, count)
        if report.numbers:
            self.stream.produce(report.numbers - count, count // REPEATED, REPEATED)
            report.records += count // REPEATED
        report.records, report.numbers = report.records + count, report.numbers + count

    def committed(self) -> int:
        """Records of the topic that are in batches which are done, by the checkpoint."""
        checkpoint = self.stream.root / "checkpoint" / "spark"
        done = read_spark_checkpoint(checkpoint).done
        if done is None:
            return 0
        offsets = json.loads((checkpoint / "offsets" / str(done)).read_text().splitlines()[-1])
        return sum(offsets[self.stream.topic].values())

    def count(self) -> int:
        """Records of the topic: more than were produced where a Spark task that produced was repeated."""
        with open_session(self.stream.endpoint) as session:
            topic = session.read.format("kafka").option("kafka.bootstrap.servers", self.stream.broker)
            return int(topic.option("subscribe", self.stream.topic).load().count())

    async def break_broker(self, seconds: float) -> str:
        self.broker.kill()
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.broker.start)
        return f"{seconds:g} s"

    async def kill_server(self) -> str:
        pid = embedded_status(self.state).jvm_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return str(pid)

    async def rescale(self, told: Told) -> str:
        """The second worker comes, or is gone as after a crash; until batches run with the other number of slots."""
        if self.is_large:
            await asyncio.to_thread(self.workers.close)
        else:
            await asyncio.to_thread(self.worker, self.workers)
        self.is_large = not self.is_large
        slots = CORES * (1 + self.is_large)
        await told.until(lambda: told.run.lease.holder.slots == slots)
        return f"to {slots} slots"


def faults_of(seed: int, outages: Sequence[int], kills: int, rescales: int) -> list[tuple[str, int]]:
    """Kinds, and seconds of those that last, in a random order."""
    found = [("broker away", each) for each in outages] + [("server killed", 0)] * kills + [("rescaled", 0)] * rescales
    random.Random(seed).shuffle(found)  # noqa: S311
    return found


async def play(series: Series, kinds: Sequence[tuple[str, int]], report: Report, wave: int, at_most: float) -> None:
    plan, began = series.stream.compile(), time.monotonic()
    async with running(series.stream, plan, series.another, 2 * SECONDS) as told:
        for number, (kind, seconds) in enumerate(kinds, 1):
            if time.monotonic() - began > at_most:
                break
            done = series.committed()
            await asyncio.to_thread(series.produce, report, wave)
            await told.until(lambda before=done: series.committed() > before)
            changes = len(told.changes)
            told.say(f"fault {number} of {len(kinds)}: {kind}")
            match kind:
                case "broker away":
                    what = await series.break_broker(seconds)
                case "server killed":
                    what = await series.kill_server()
                case _:
                    what = await series.rescale(told)
            ended = time.monotonic()
            await asyncio.to_thread(series.produce, report, wave)
            await told.until(lambda: series.committed() >= report.records)
            restarts = sum(each.entered == "Restarting" for each in told.changes[changes:])
            report.faults.append(Fault(kind, what, time.monotonic() - ended, restarts))
            report.slots.append(told.run.lease.holder.slots)
            told.say(f"{report.faults[-1]}")
        report.records = await asyncio.to_thread(series.count)
        await told.until(lambda: series.committed() == report.records)
    report.batches, report.seconds = len(told.batches), time.monotonic() - began


def run_series(seed: int, records: int, kinds: Sequence[tuple[str, int]], folder: Path, at_most: float) -> Report:
    cluster, state = choose_ports(), folder / "state"
    os.environ["JDK_JAVA_OPTIONS"] = QUICK

    def worker(stack: ExitStack) -> None:
        stack.enter_context(worker_started(cluster, folder / "worker-2", CORES, 2))

    def another() -> ConnectEndpoint:
        conf = {"spark.master": f"spark://127.0.0.1:{cluster.port}", "spark.executor.memory": "1g"}
        return server(state, CORES, **conf)

    with ExitStack() as running_, kafka_broker(folder) as broker:
        running_.enter_context(master_started(cluster, folder / "master"))
        running_.enter_context(worker_started(cluster, folder / "worker-1", CORES, 1))
        running_.callback(stop_embedded_server, state)
        stream = FromTopic(
            another(), folder, without_repeated, available_now=False, wanted=SlotsWanted(2 * CORES, 1), rescale=FOLLOW,
            conf={STATE_STORE: ROCKSDB}, restarts=10_000, broker=broker.address,
            topic="numbers",
        )  # fmt: skip
        series = Series(stream, another, broker, state, worker)
        running_.callback(series.workers.close)
        # What is repeated counts as a record, and nothing is before the first wave.
        waves = 2 * len(kinds)
        wave = math.ceil(records / (waves * REPEATED + waves - 1)) * REPEATED
        report = Report(seed)
        asyncio.run(play(series, kinds, report, wave, at_most))
        with open_session(stream.endpoint) as session:
            found = session.read.parquet(str(folder / "out")).selectExpr(
                "count(*)", "count(DISTINCT n)", "min(n)", "max(n)"
            )
            report.found = tuple(found.first())
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--outages", type=int, nargs="*", default=OUTAGES, metavar="SECONDS")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--rescales", type=int, default=RESCALES)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="after which no further fault is caused")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="airflow-abs-kafka-"))
    try:
        kinds = faults_of(options.seed, options.outages, options.kills, options.rescales)
        report = run_series(options.seed, options.records, kinds, folder, options.seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(report.to_markdown())
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    return 0 if report.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
