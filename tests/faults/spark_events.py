"""What Spark itself says it did: its event logs, one per start of a server, and its REST API."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from airflow_abs.spark.server.embedded import embedded_status

_OPERATION = "SparkListenerConnectOperation"
_STARTED = f"{_OPERATION}Started"
_OPERATION_TAG = re.compile(r"SparkConnect_OperationTag_.*?_Operation_([0-9a-f-]{36})")
_ENDS = frozenset({f"{_OPERATION}{end}" for end in ("Canceled", "Failed", "Finished", "Closed")})


def read_events(folder: Path, *, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(log, event) of every event whose type's last word starts with `kind`, log by log, in order."""
    for log in sorted(path for path in folder.rglob("*") if path.is_file()):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if kind in line[:120]:
                try:
                    yield f"{log.parent.name}/{log.name}", json.loads(line)
                except ValueError:  # the last line of a killed server's log is cut
                    continue


def started_operations(folder: Path) -> Counter[tuple[str, str]]:
    """How often each server (by its event log) started each operation of a subtask (derived ids, not random ones)."""
    found: Counter[tuple[str, str]] = Counter()
    for log, event in read_events(folder, kind=_OPERATION):
        if _is(event, _STARTED) and "write_operation" in json.dumps(event):
            operation = str(event["operationId"])
            if UUID(operation).version == 5:
                found[log, operation] += 1
    return found


def operations(folder: Path) -> set[str]:
    """Ids of the subtasks' operations that any server started."""
    return {operation for _, operation in started_operations(folder)}


def ended_operations(folder: Path, how: str = "") -> set[str]:
    """Ids of operations that came to an end; `how` is Canceled, Failed, Finished or Closed."""
    wanted = {f"{_OPERATION}{how}"} if how else _ENDS
    return {
        str(event["operationId"])
        for _, event in read_events(folder, kind=_OPERATION)
        if any(_is(event, each) for each in wanted)
    }


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


def _is(event: dict[str, Any], name: str) -> bool:
    return str(event["Event"]).endswith(name)
