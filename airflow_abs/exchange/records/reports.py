"""What a subtask reports when it has committed: the bytes by which the regions below it are decided."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from airflow_abs.exchange.records.manifest import (
    Manifest,
    ResultManifest,
    bytes_by_file,
    bytes_by_subpartition,
)
from airflow_abs.exchange.records.run_records import RunRecords


def report(manifest: Manifest, subtasks: int) -> dict[str, Any]:
    """What the subtask pushes as XCom: bytes per subpartition of each result, or per file, and no file names."""
    return {**_measured(manifest, subtasks), "ended": round(time.time(), 3)}


def read_reports(records: RunRecords, region: str) -> list[dict[str, Any]]:
    """The same, from the exchange, for who cannot pull XComs of mapped tasks at once (a trigger); not when they ended.

    Raises:
        ExchangeError: decision or a manifest are missing, damaged, or of different decisions.
    """
    return [_measured(manifest, records.subtasks(region)) for manifest in records.manifests(region)]


def _measured(manifest: Manifest, subtasks: int) -> dict[str, Any]:
    return {
        "index": manifest.index,
        "subtasks": subtasks,
        "attempt": manifest.attempt,
        "decision": manifest.decision,
        "rows": manifest.rows,
        "seconds": round(manifest.seconds, 3),
        "results": {name: _sizes(result) for name, result in manifest.results.items()},
        **({"inside": inside} if (inside := _inside(manifest)) else {}),
    }


def _inside(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Rows that no other region reads, by vertex."""
    written = {vertex: asdict(each) | {"how": "written"} for vertex, each in manifest.inner.items()}
    return {vertex: asdict(each) for vertex, each in manifest.passed.items()} | written


def _sizes(result: ResultManifest) -> dict[str, Any]:
    sizes: dict[str, Any] = {"bytes": bytes_by_subpartition(result)}
    return sizes | ({"files": bytes_by_file(result), "checksum": result.checksum} if result.by_file else {})
