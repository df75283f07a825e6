"""What Spark has written of its streaming queries: checkpoints, logs of sinks, event logs."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb

from tests.spark_events import read_events

_EVENT = "org.apache.spark.sql.streaming.StreamingQueryListener"


def files_done(checkpoint: Path) -> set[str]:
    """Names of the files whose batch is in the log of commits, in every source that reads them."""
    done = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    if not done:
        return set()
    offsets = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()[2:]
    found = []
    for number, line in enumerate(offsets):
        if line == "-":
            return set()
        until = json.loads(line)["logOffset"]
        entries = _read_log(checkpoint / "sources" / str(number))
        found.append({Path(entry["path"]).name for entry in entries if entry["batchId"] <= until})
    return set.intersection(*found)


def read_sink(sink: Path) -> list[tuple[Any, ...]]:
    """The rows of the files that Spark's log of the sink names, in order."""
    files = [entry["path"].removeprefix("file://") for entry in _read_log(sink / "_spark_metadata") if entry["size"]]
    return sorted(duckdb.sql(f"SELECT * FROM read_parquet({files})").fetchall()) if files else []


def _read_log(folder: Path) -> list[dict[str, Any]]:
    """All entries: those of the last compact file, and of all after it."""
    logs = {int(path.stem): path for path in folder.glob("[0-9]*") if path.suffix in ("", ".compact")}
    first = max((number for number, path in logs.items() if path.suffix), default=0)
    chosen = [path for number, path in sorted(logs.items()) if number >= first]
    return [json.loads(line) for path in chosen for line in path.read_text().splitlines()[1:]]


def broken_promises(events: Path) -> list[str]:
    """Where Spark's event logs, one of each start of its server, tell of two queries on one checkpoint."""
    running: dict[tuple[str, str], str] = {}
    done: dict[tuple[str, int], set[str]] = defaultdict(set)
    broken = []
    for server, event in read_events(events, kind=_EVENT):
        kind = event["Event"].removeprefix(_EVENT).lstrip("$")
        if kind == "QueryStartedEvent":
            if before := running.get((server, event["id"])):
                broken.append(f"{server}: run {event['runId']} of {event['id']} began beside run {before}")
            running[server, event["id"]] = event["runId"]
        elif kind == "QueryTerminatedEvent" and running.get((server, event["id"])) == event["runId"]:
            del running[server, event["id"]]
        elif kind == "QueryProgressEvent":
            progress = event["progress"]
            if "addBatch" in progress["durationMs"]:
                done[progress["id"], progress["batchId"]].add(progress["runId"])
    twice = [
        f"batch {batch} of {query} was done by {sorted(runs)}"
        for (query, batch), runs in done.items()
        if runs - {min(runs)}
    ]
    return broken + sorted(twice)


def count_runs(events: Path) -> int:
    """How often a query was started."""
    return sum(event["Event"].endswith("QueryStartedEvent") for _, event in read_events(events, kind=_EVENT))
