"""Flink's adaptive batch scheduler for Airflow and Spark.

The names of a DAG file are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_abs.core.expect.expectations import Expect, RowCountChange, Unique
    from airflow_abs.core.settings import JobOptions, VertexOptions
    from airflow_abs.core.streaming.rescale import Rescale
    from airflow_abs.exchange.sources.files import Files
    from airflow_abs.exchange.sources.kafka import Kafka
    from airflow_abs.exchange.sources.rate import Rate
    from airflow_abs.hooks.ephemeral import Ephemeral
    from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator
    from airflow_abs.operators.streams.adaptive_spark_stream import AdaptiveSparkStream
    from airflow_abs.tables.catalog_table import Table
    from airflow_abs.tables.delta_table import DeltaTable
    from airflow_abs.tables.iceberg_table import IcebergTable
    from airflow_abs.tables.postgres_table import PostgresTable
    from airflow_abs.task_groups.adaptive_spark import AdaptiveSparkJob

__version__ = "0.1.0"

LAST_COMPLETE_DAY = "{{ macros.adaptive_spark.last_complete_day() }}"
"""Template for the last day, as ``2026-01-31``, that was over when the run's data interval ended, in the time zone of
the DAG's schedule. A run without a logical date has no interval, and fails."""

_HOMES = {
    "AdaptiveSparkJob": "airflow_abs.task_groups.adaptive_spark",
    "AdaptiveSparkOperator": "airflow_abs.operators.adaptive_spark",
    "AdaptiveSparkStream": "airflow_abs.operators.streams.adaptive_spark_stream",
    "DeltaTable": "airflow_abs.tables.delta_table",
    "Expect": "airflow_abs.core.expect.expectations",
    "RowCountChange": "airflow_abs.core.expect.expectations",
    "Unique": "airflow_abs.core.expect.expectations",
    "JobOptions": "airflow_abs.core.settings",
    "VertexOptions": "airflow_abs.core.settings",
    "Ephemeral": "airflow_abs.hooks.ephemeral",
    "Files": "airflow_abs.exchange.sources.files",
    "Kafka": "airflow_abs.exchange.sources.kafka",
    "Rate": "airflow_abs.exchange.sources.rate",
    "Rescale": "airflow_abs.core.streaming.rescale",
    "IcebergTable": "airflow_abs.tables.iceberg_table",
    "PostgresTable": "airflow_abs.tables.postgres_table",
    "Table": "airflow_abs.tables.catalog_table",
}

__all__ = [
    "LAST_COMPLETE_DAY",
    "AdaptiveSparkJob",
    "AdaptiveSparkOperator",
    "AdaptiveSparkStream",
    "DeltaTable",
    "Ephemeral",
    "Expect",
    "Files",
    "IcebergTable",
    "JobOptions",
    "Kafka",
    "PostgresTable",
    "Rate",
    "Rescale",
    "RowCountChange",
    "Table",
    "Unique",
    "VertexOptions",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
