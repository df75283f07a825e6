"""The stage of the suite: a Spark server, three streams, and the process that supervises them now."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_abs.demo.bound_child import start_bound, stop_group
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.server.embedded import embedded_status, ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.stream.compile import StreamProgram, compile_stream
from tests.faults.streams.queries import FIRST_SECOND, FLUSH, QUERIES, ROWS, SCHEMA, Query, answer, write_file
from tests.faults.streams.spark_files import files_done, read_sink
from tests.faults.streams.supervisor import server_settings

SECONDS = 240.0
SMALL = "size=96m"


class Stage:
    """Use it in `with`. Files are delivered under rising numbers, one to each stream at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.small = folder / "small"
        self.journal = folder / "journal.jsonl"
        self.delivered = 0
        self._owners = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Stage:
        for name in ("events", "small", *(f"in/{query.name}" for query in QUERIES)):
            (self.folder / name).mkdir(parents=True)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", SMALL, "tmpfs", str(self.small)], check=False, capture_output=True
        )
        self.is_small = mounted.returncode == 0
        endpoint = ensure_embedded_server(self.folder / "spark", settings=server_settings(self.folder / "events"))
        with open_session(endpoint) as session:
            for query in QUERIES:
                (self.folder / f"{query.name}.plan").write_bytes(compile_stream(session, self._program(query)))
        self.deliver()
        self.start_supervisor()
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            stop_group(process, 0.5)
        stop_embedded_server(self.folder / "spark")
        if self.is_small:
            subprocess.run(["umount", "-l", str(self.small)], check=False)

    @property
    def supervisor(self) -> subprocess.Popen[bytes]:
        """The one that supervises now."""
        return self._processes[-1]

    @property
    def server_pid(self) -> int | None:
        return embedded_status(self.folder / "spark").jvm_pid

    def start_supervisor(self, *, another: bool = False) -> subprocess.Popen[bytes]:
        """Another process of the same task, or of `another` one."""
        self._owners += another
        command = [sys.executable, "-m", "tests.faults.streams.supervisor", str(self.folder), f"task {self._owners}"]
        command += [str(self.journal), *(query.name for query in QUERIES)]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with (self.folder / "supervisors.log").open("ab") as log:
            self._processes.append(start_bound(command, env=environment, log=log))
        return self.supervisor

    def deliver(self, number_of_rows: int = ROWS) -> str:
        """The next file to each stream; its name."""
        name = f"{self.delivered:05d}.parquet"
        for query in QUERIES:
            write_file(self.source(query) / name, self._first_row(query, self.delivered), number_of_rows)
        self.delivered += 1
        return name

    def deliver_poisoned(self, query: Query) -> Callable[[], None]:
        """As `deliver`, but what this stream gets is no Parquet file; what mends it."""
        name = f"{self.delivered:05d}-poisoned.parquet"
        for each in QUERIES:
            place = self.source(each) / name
            if each is query:
                hidden = place.with_name(f".{name}")
                hidden.write_bytes(b"no Parquet at all")
                hidden.rename(place)
            else:
                write_file(place, self._first_row(each, self.delivered))
        first = self._first_row(query, self.delivered)
        self.delivered += 1
        return lambda: write_file(self.source(query) / name, first)

    def say_again(self, query: Query) -> None:
        """Start a stream again that was given up."""
        (self.folder / f"{query.name}.again").touch()

    def told(self) -> list[dict[str, Any]]:
        """What became of the streams, in order."""
        lines = self.journal.read_text(encoding="utf-8").splitlines() if self.journal.exists() else []
        return [json.loads(line) for line in lines]

    def is_done(self) -> bool:
        """Whether every file of every stream is in a batch that was committed."""
        return all(
            files_done(self.small / query.name / "spark") >= {path.name for path in self.source(query).glob("[0-9]*")}
            for query in QUERIES
        )

    def finish(self) -> None:
        """Close the last window, and end the streams."""
        for number in range(2):
            for query in QUERIES:
                write_file(self.source(query) / f"99999-{number}.parquet", FLUSH)
            self.wait(self.is_done)
        with contextlib.suppress(TimeoutError):  # the last batch has no rows of its own
            self.wait(lambda: not self.wrong(), 30)
        (self.folder / "drain").touch()
        self.supervisor.wait(SECONDS)

    def wrong(self) -> list[str]:
        """The streams whose sink is not DuckDB's answer, and how it differs."""
        found = {query.name: self._published(query) for query in QUERIES}
        expected = {query.name: answer(query, self.source(query)) for query in QUERIES}
        return [
            f"{name}: {len(set(expected[name]) - set(found[name]))} of {len(expected[name])} rows are missing, "
            f"{len(found[name]) - len(set(found[name]) & set(expected[name]))} are too many"
            for name in found
            if found[name] != expected[name]
        ]

    def wait(self, condition: Callable[[], bool], seconds: float = SECONDS) -> float:
        """Seconds until it was so.

        Raises:
            TimeoutError: it was not.
        """
        started = time.monotonic()
        while not condition():
            if time.monotonic() - started > seconds:
                raise TimeoutError(f"after {seconds:g} s: {self.told()[-3:]}")
            time.sleep(0.1)
        return time.monotonic() - started

    def source(self, query: Query) -> Path:
        return self.folder / "in" / query.name

    def _published(self, query: Query) -> list[tuple[Any, ...]]:
        """Without what came of the rows that close the last window."""
        first = FLUSH + FIRST_SECOND - 60 if query.name == "count" else FLUSH
        return [row for row in read_sink(self.small / f"{query.name}.out") if row[0] < first]

    def _first_row(self, query: Query, number: int) -> int:
        return ROWS * (number - number % 2 if query.repeats else number)

    def _program(self, query: Query) -> StreamProgram:
        source = Files(str(self.source(query)), schema=SCHEMA, options={"maxFilesPerTrigger": "1"})
        sink, checkpoint = Files(str(self.small / f"{query.name}.out")), f"file://{self.small / query.name}/spark"
        return StreamProgram(query.name, query.name, source, query.transform, {}, sink, checkpoint)
