"""Streams over generated files, as the tests run them: compiled, supervised, and compared with DuckDB."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from airflow_abs.core.restart_backoff import FixedDelay
from airflow_abs.core.slots.resource_wait import WaitOptions
from airflow_abs.core.streaming.failures import FailureJudge
from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.slots_wanted import SlotsWanted
from airflow_abs.core.streaming.supervision import StreamSupervisor
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.streaming.lease import CheckpointLease, Holder
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.stream.compile import StreamProgram, compile_stream
from airflow_abs.spark.stream.state_partitions import StatePartitions
from airflow_abs.spark.stream.stream import Stream
from airflow_abs.spark.stream.supervise import StreamRun

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

SCHEMA = "id BIGINT, key BIGINT, at TIMESTAMP"


@dataclass(slots=True)
class Place:
    """A stream from `in` to `out` below one folder."""

    endpoint: ConnectEndpoint
    root: Path
    transform: Callable[..., Any] | None = None
    available_now: bool = True
    wanted: SlotsWanted = field(default_factory=SlotsWanted)
    rescale: Rescale | None = None
    conf: dict[str, str] = field(default_factory=lambda: {"spark.sql.shuffle.partitions": "2"})
    partition_by: tuple[str, ...] = ()
    restarts: int = 20
    resource_timeout: float = 60

    def deliver(self, number: int, query: str | None = None) -> None:
        """A file of a hundred rows, a second apart, whole at once."""
        folder = self.root / "in"
        folder.mkdir(exist_ok=True)
        first = number * 100
        rows = (
            f"SELECT {first} + i AS id, i % 7 AS key, to_timestamp(1767225600 + {first} + i) AS at FROM range(100) t(i)"
        )
        hidden = folder / f".{number}"
        duckdb.sql(f"COPY ({query or rows}) TO '{hidden}' (FORMAT parquet)")
        hidden.rename(folder / f"{number:04d}.parquet")

    def program(self) -> StreamProgram:
        return StreamProgram(
            "orders",
            "orders",
            Files(str(self.root / "in"), schema=SCHEMA, options={"maxFilesPerTrigger": "1"}),
            self.transform,
            {},
            Files(str(self.root / "out"), partition_by=self.partition_by),
            f"file://{self.root}/checkpoint/spark",
            self.available_now,
        )

    def compile(self) -> bytes:
        with open_session(self.endpoint) as session:
            return compile_stream(session, self.program())

    @asynccontextmanager
    async def supervised(
        self,
        plan: bytes,
        process: str = "one",
        owner: str = "task",
        again: Callable[[], Awaitable[Connection]] | None = None,
    ) -> AsyncIterator[StreamRun]:
        wait = WaitOptions(resource_timeout=self.resource_timeout, stabilization=1)
        judge = FailureJudge(FixedDelay(self.restarts, 100))
        async with open_connection(self.endpoint) as connection:

            async def connect() -> Connection:
                return connection

            lease = CheckpointLease(self.root / "checkpoint", Holder(owner, process), time.time)
            master = "" if self.rescale is None else self.rescale.repartition_state
            yield StreamRun(
                connection,
                again or connect,
                Stream("orders", plan, self.conf, poll_seconds=0.2, rescale=self.rescale),
                lease,
                StreamSupervisor(judge, self.wanted, ends=self.available_now, wait=wait, rescale=self.rescale),
                state=StatePartitions("orders", lease, self.root / "out", master),
            )

    def published(self) -> list[tuple[Any, ...]]:
        """The rows of the files that Spark's log of the sink names, by DuckDB."""
        with open_session(self.endpoint) as session:
            rows = session.read.parquet(str(self.root / "out")).toArrow()
        return sorted(duckdb.sql("SELECT * FROM rows").fetchall(), key=repr) if rows is not None else []

    def delivered(self) -> str:
        return f"'{self.root}/in/*.parquet'"
