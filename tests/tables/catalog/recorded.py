"""A catalog that answers as Spark 4.2 on a Hive metastore did, for what is decided about its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_abs.tables.catalog.statements import StatementError, StoredFile

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
RECORDED: Mapping[str, Any] = {
    "table_name": "h",
    "catalog_name": "spark_catalog",
    "namespace": ["d"],
    "schema_name": "d",
    "columns": [
        {"name": "id", "type": {"name": "bigint"}, "nullable": True},
        {"name": "Name", "type": {"name": "string", "collation": "UTF8_BINARY"}, "nullable": True},
    ],
    "location": "file:/lake/d.db/h",
    "serde_library": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    "input_format": PARQUET,
    "output_format": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    "storage_properties": {"serialization.format": "1"},
    "owner": "root",
    "created_time": "2026-11-23T02:18:14Z",
    "last_access": "UNKNOWN",
    "created_by": "Spark 4.2.0",
    "type": "MANAGED",
    "provider": "hive",
    "table_properties": {"transient_lastDdlTime": "1795400294"},
    "partition_provider": "Catalog",
    "collation": "UTF8_BINARY",
}
SCHEMA = [("id", "long"), ("Name", "string")]


@dataclass
class RecordedCatalog:
    """A table with these changes to what was recorded; `partitions` are locations by what SHOW PARTITIONS says."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    partitions: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[StoredFile] = ()
    columns: Sequence[tuple[str, Any]] = tuple(SCHEMA)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    refusals: Mapping[str, StatementError] = field(default_factory=dict)
    chosen: Sequence[tuple[Any, ...]] = ()
    asked: list[str] = field(default_factory=list)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        self.asked.append(statement)
        word = statement.partition(" ")[0]
        if word in self.refusals:
            raise self.refusals[word]
        match word:
            case "SHOW":
                return [(each,) for each in self.partitions]
            case "SELECT":
                return list(self.chosen)
        told = {**RECORDED, **self.changes}
        if "PARTITION" in statement:
            told["location"] = self._location_of(statement)
        return [(json.dumps(told),)]

    def _location_of(self, statement: str) -> str:
        from airflow_abs.exchange.sources.partitions import partition_values
        from airflow_abs.tables.catalog.statements import partition_clause

        return next(
            where for told, where in self.partitions.items() if partition_clause(partition_values(told)) in statement
        )

    def schema(self, table: str) -> str:
        fields = [
            {"name": name, "type": kind, "nullable": False, "metadata": self.metadata.get(name, {})}
            for name, kind in self.columns
        ]
        return json.dumps({"type": "struct", "fields": fields})

    def list_files(self, folders: Sequence[str]) -> list[StoredFile]:
        if "LIST" in self.refusals:
            raise self.refusals["LIST"]
        return [file for file in self.files if any(file.path.startswith(f"{folder}/") for folder in folders)]
