"""What Spark itself says it did: its event logs, one per start of a server, and its REST API.

Tests ask again and again while many megabytes are written, so what was read of a log is not read a second time.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from airflow_abs.spark.server.embedded import embedded_status

QUERY_STARTED, QUERY_ENDED = (
    f"org.apache.spark.sql.streaming.StreamingQueryListener$Query{what}Event" for what in ("Started", "Terminated")
)
_OPERATION = "org.apache.spark.sql.connect.service.SparkListenerConnectOperation"
_QUERIES = (f'"{QUERY_STARTED}"'.encode(), f'"{QUERY_ENDED}"'.encode())
_JOBS = (b'"SparkListenerJobStart"', b'"SparkListenerJobEnd"')
_BEGINNING = 120  # of a line: an event begins with its kind
_DERIVED = 5  # version of the ids of subtasks' operations; those of others are random
_OPERATION_TAG = re.compile(r"SparkConnect_OperationTag_.*?_Operation_([0-9a-f-]{36})")
_CANCELED = "[SPARK_JOB_CANCELLED]"
_ENDS = ("Canceled", "Failed", "Finished", "Closed")


@dataclass(frozen=True, slots=True)
class OperationEvent:
    """What became of a subtask's operation (`Started`, `ReadyForExecution`, ..., `Closed`) on the server of a log.

    `at` is in milliseconds since the epoch; `writes` is told of `Started` alone.
    """

    log: str
    operation: str
    what: str
    at: int
    writes: bool


@dataclass(slots=True)
class _Log:
    """What was read of one file up to `position`, which is the end of a line."""

    name: str
    position: int = 0
    operations: list[OperationEvent] = field(default_factory=list)
    queries: list[dict[str, Any]] = field(default_factory=list)
    operation_of_job: dict[int, str] = field(default_factory=dict)
    canceled: set[str] = field(default_factory=set)

    def read_on(self, path: Path) -> None:
        with path.open("rb") as file:
            file.seek(self.position)
            whole, end, _ = file.read().rpartition(b"\n")  # the last line may be being written, or cut by a kill
        self.position += len(whole) + len(end)
        for line in whole.splitlines():
            beginning = line[:_BEGINNING]
            if _OPERATION.encode() in beginning:
                self._add_operation(json.loads(line))
            elif any(kind in beginning for kind in _QUERIES):
                self.queries.append(json.loads(line))
            elif any(kind in beginning for kind in _JOBS):
                self._add_job(json.loads(line))

    def _add_operation(self, event: dict[str, Any]) -> None:
        operation = str(event["operationId"])
        if UUID(operation).version == _DERIVED:
            what = str(event["Event"]).removeprefix(_OPERATION)
            writes = "write_operation" in event.get("statementText", "")
            self.operations.append(OperationEvent(self.name, operation, what, int(event["eventTime"]), writes))

    def _add_job(self, event: dict[str, Any]) -> None:
        tagged = _OPERATION_TAG.search(event.get("Properties", {}).get("spark.job.tags", ""))
        if tagged:
            self.operation_of_job[event["Job ID"]] = tagged[1]
        elif _CANCELED in str(event.get("Job Result")) and event["Job ID"] in self.operation_of_job:
            self.canceled.add(self.operation_of_job[event["Job ID"]])


_logs: dict[Path, _Log] = {}


def _follow(folder: Path) -> Iterator[_Log]:
    """Every log, in the order in which the servers were started, with all that is in it now."""
    for path in _files(folder):
        log = _logs.setdefault(path, _Log(f"{path.parent.name}/{path.name}"))
        log.read_on(path)
        yield log


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def operation_events(folder: Path) -> list[OperationEvent]:
    """Of the subtasks' operations, log by log, in order."""
    return [event for log in _follow(folder) for event in log.operations]


def started_operations(folder: Path) -> Counter[tuple[str, str]]:
    """How often each server (by its event log) started each writing operation of a subtask."""
    return Counter(
        (each.log, each.operation) for each in operation_events(folder) if each.what == "Started" and each.writes
    )


def operations(folder: Path) -> set[str]:
    """Ids of the subtasks' writing operations that any server started."""
    return {operation for _, operation in started_operations(folder)}


def operations_told(folder: Path, *what: str) -> set[str]:
    """Ids of the subtasks' operations that a server says one of these of."""
    return {each.operation for each in operation_events(folder) if each.what in what}


def canceled_operations(folder: Path) -> set[str]:
    """Ids of the subtasks' operations that a server says it canceled, or whose Spark jobs it did.

    Before 4.2 a server says nothing of an operation that ends together with its session.
    """
    jobs = {operation for log in _follow(folder) for operation in log.canceled if UUID(operation).version == _DERIVED}
    return jobs | operations_told(folder, "Canceled")


def ended_operations(folder: Path, how: str = "") -> set[str]:
    """Ids of operations that came to an end; `how` is Canceled, Failed, Finished or Closed."""
    return operations_told(folder, *([how] if how else _ENDS))


def query_events(folder: Path) -> list[dict[str, Any]]:
    """Starts and ends of streaming queries, log by log, in order."""
    return [event for log in _follow(folder) for event in log.queries]


def read_events(folder: Path, *, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(log, event) of every event of whatever kind whose type has this in it, log by log, in order; read anew."""
    for path in _files(folder):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if kind in line[:_BEGINNING]:
                try:
                    yield f"{path.parent.name}/{path.name}", json.loads(line)
                except ValueError:  # the last line of a killed server's log is cut
                    continue


def bytes_read(folder: Path) -> Counter[str]:
    """What the Spark tasks of each operation read from files, by its id."""
    operation_of: dict[tuple[str, int], str] = {}
    found: Counter[str] = Counter()
    for log, event in read_events(folder, kind="SparkListenerJobStart"):
        operation = _OPERATION_TAG.search(event["Properties"].get("spark.job.tags", ""))
        if operation:
            operation_of |= {(log, stage): operation[1] for stage in event["Stage IDs"]}
    for log, event in read_events(folder, kind="SparkListenerTaskEnd"):
        if (log, event["Stage ID"]) in operation_of and "Task Metrics" in event:
            found[operation_of[log, event["Stage ID"]]] += event["Task Metrics"]["Input Metrics"]["Bytes Read"]
    return found


def running_tasks(spark_folder: Path) -> int:
    """Spark tasks that run on the embedded server now, by its REST API: its event log tells of their end late."""
    pages = f"http://{embedded_status(spark_folder).ui_address}/api/v1/applications"
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        application = http.get(pages).raise_for_status().json()[0]["id"]
        executors = http.get(f"{pages}/{application}/executors").raise_for_status().json()
    return sum(executor["activeTasks"] for executor in executors)
