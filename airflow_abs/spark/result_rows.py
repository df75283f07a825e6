"""The rows of a result as an Arrow table of Spark's own types: for tests, which have few of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.records.manifest import Manifest
from airflow_abs.exchange.records.plan import PlannedStep
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.spark.connect.abilities import release_number
from airflow_abs.spark.connect.protocol import client_version

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_schema(schema: str) -> pa.Schema:
    """Arrow's form of Spark's schema JSON; timestamps are UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    # Before 4.2 pyspark takes no time zone here, and means UTC.
    zone = {"timezone": "UTC"} if release_number(client_version()) >= (4, 2) else {}
    return to_arrow_schema(StructType.fromJson(json.loads(schema)), **zone)


def read_rows(session: Any, folder: JobFolder, step: PlannedStep, manifests: Sequence[Manifest]) -> pa.Table:
    """What all subtasks wrote for one result, in the order of subtasks and files.

    Args:
        session: reads what pyarrow does not read as Spark does: other formats than Parquet, and types of Spark's own.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = [file for manifest in manifests for file in manifest.results[step.result].files]
    paths = [folder.file_path(file.path) for file in files]
    if step.partition_by:
        return _read_partitioned(session, folder, step, [file.path for file in files])
    if step.format != "parquet" or any(name in step.schema for name in ('"variant"', '"interval', '"udt"')):
        reader = session.read.format(step.format).options(**step.options)
        return reader.schema(_struct(step.schema)).load([uri_for_spark(path) for path in paths]).toArrow()
    schema = arrow_schema(step.schema)
    tables = [
        pq.ParquetFile(locate(path).path, coerce_int96_timestamp_unit="us").read(columns=schema.names) for path in paths
    ]
    return pa.concat_tables([table.select(schema.names).cast(schema) for table in tables] or [schema.empty_table()])


def _read_partitioned(session: Any, folder: JobFolder, step: PlannedStep, names: Sequence[str]) -> pa.Table:
    """Each attempt's files with the folders below its own as columns."""
    import pyarrow as pa

    below: dict[str, list[str]] = {}
    for name in names:
        base = name.partition("=")[0].rpartition("/")[0]
        below.setdefault(base, []).append(uri_for_spark(folder.file_path(name)))
    reader = session.read.format(step.format).options(**step.options).schema(_struct(step.schema))
    tables = [
        reader.option("basePath", uri_for_spark(folder.file_path(base))).load(paths).select(step.columns).toArrow()
        for base, paths in below.items()
    ]
    return pa.concat_tables(tables or [arrow_schema(step.schema).empty_table()])


def _struct(schema: str) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema))
