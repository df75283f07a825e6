"""Tables as sources and sinks: metadata through the formats' own Python libraries, rows through Spark.

The parts of a kind of table of your own are public; the names are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_abs.exchange.publish.record import StagedFile
    from airflow_abs.exchange.publish.target_table import TargetPartition, TargetTable
    from airflow_abs.exchange.sources.listing import SourceFile
    from airflow_abs.exchange.sources.pinned import PinnedTable
    from airflow_abs.tables.access import TableAccess
    from airflow_abs.tables.errors import TableError
    from airflow_abs.tables.sink import Published, RunFiles, TableSink
    from airflow_abs.tables.source import (
        InferenceContext,
        Inferred,
        InfersFiles,
        InfersParallelism,
        LandedSource,
        Pin,
        TableSource,
    )

_HOMES = {
    "InferenceContext": "airflow_abs.tables.source",
    "Inferred": "airflow_abs.tables.source",
    "InfersFiles": "airflow_abs.tables.source",
    "InfersParallelism": "airflow_abs.tables.source",
    "LandedSource": "airflow_abs.tables.source",
    "Pin": "airflow_abs.tables.source",
    "PinnedTable": "airflow_abs.exchange.sources.pinned",
    "Published": "airflow_abs.tables.sink",
    "RunFiles": "airflow_abs.tables.sink",
    "SourceFile": "airflow_abs.exchange.sources.listing",
    "StagedFile": "airflow_abs.exchange.publish.record",
    "TableAccess": "airflow_abs.tables.access",
    "TableError": "airflow_abs.tables.errors",
    "TableSink": "airflow_abs.tables.sink",
    "TableSource": "airflow_abs.tables.source",
    "TargetPartition": "airflow_abs.exchange.publish.target_table",
    "TargetTable": "airflow_abs.exchange.publish.target_table",
}

__all__ = [
    "InferenceContext",
    "Inferred",
    "InfersFiles",
    "InfersParallelism",
    "LandedSource",
    "Pin",
    "PinnedTable",
    "Published",
    "RunFiles",
    "SourceFile",
    "StagedFile",
    "TableAccess",
    "TableError",
    "TableSink",
    "TableSource",
    "TargetPartition",
    "TargetTable",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
