"""What Spark's catalog says of a table, and whether its Parquet files can be read as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from airflow_abs.tables.catalog.statements import SparkCatalog, StatementError, refused
from airflow_abs.tables.errors import TableError, first_line

PARQUET_INPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
_HIVE, _PARQUET = "hive", "parquet"
_OTHER_KINDS = {"delta": "DeltaTable", "iceberg": "IcebergTable"}
_FILES = ("orc", "csv", "json")
_SAYS_NOTHING = frozenset("path serialization.format compression parquet.compression mergeschema".split())  # noqa: SIM905
"""Options of tables that change nothing of how files with a given schema are read, in lower case."""


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table, in the catalog's own words; `location` as Hadoop writes it."""

    table_name: str
    catalog_name: str = ""
    namespace: tuple[str, ...] = ()
    type: str = ""
    provider: str = ""
    location: str = ""
    input_format: str = ""
    created_time: str = ""
    partition_provider: str = ""
    partition_columns: tuple[str, ...] = ()
    partition_values: Mapping[str, str] = field(default_factory=dict)
    storage_properties: Mapping[str, str] = field(default_factory=dict)
    table_properties: Mapping[str, str] = field(default_factory=dict)
    num_buckets: int = 0

    @property
    def name(self) -> str:
        """``spark_catalog.sales.orders``."""
        return ".".join((self.catalog_name, *self.namespace, self.table_name))


def describe(table: str, catalog: SparkCatalog, quoted: str, partition: str = "") -> TableDescription:
    """Ask the catalog.

    Args:
        table: for messages.
        quoted: its name in backticks.
        partition: such as ``PARTITION (`day` = '2026-01-01')``, to know of this one.

    Raises:
        TableError: it is not there, or Spark does not tell.
    """
    statement = f"DESCRIBE TABLE EXTENDED {quoted} {partition} AS JSON"
    try:
        ((told,),) = catalog.rows(statement)
    except StatementError as error:
        if error.condition.startswith(("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")):
            raise TableError(
                f"table {table}: there is no such table in the catalog of the job's Spark; check the name, which is "
                "'database.table', and the server's catalog (spark.sql.catalogImplementation, its metastore). "
                "airflow_abs creates no tables"
            ) from error
        raise refused(table, statement, error) from error
    try:
        return msgspec.convert(json.loads(told), TableDescription)
    except ValueError as error:
        raise TableError(
            f"table {table}: the catalog's description of it cannot be read: {first_line(error)}; the server's Spark "
            "describes tables differently than Spark 4.2"
        ) from error


def check_readable(table: str, found: TableDescription) -> None:
    """Spark's reader of Parquet files gives the rows of the table.

    Raises:
        TableError: it would not; says what to write instead.
    """
    if found.type not in ("MANAGED", "EXTERNAL"):
        raise TableError(
            f"table {table}: is of the type {found.type}, which has no files of its own; read the tables that it is "
            "made of, and write its query in the vertex's transform or sql="
        )
    provider = found.provider.lower()
    if provider in _OTHER_KINDS:
        raise TableError(
            f"table {table}: its files are {found.provider}'s; write {_OTHER_KINDS[provider]}(...) instead of "
            "Table(...), which knows its versions"
        )
    if found.table_properties.get("transactional", "").lower() == "true":
        raise TableError(
            f"table {table}: is transactional (Hive's ACID), and its folder holds changes that only Hive can merge; "
            "read a copy of it (CREATE TABLE ... STORED AS PARQUET AS SELECT ...)"
        )
    if not (provider == _PARQUET or (provider == _HIVE and found.input_format == PARQUET_INPUT)):
        raise TableError(
            f"table {table}: its files are {_format_of(found)}, and Table(...) reads and writes Parquet; "
            f"{_instead(provider, found)}"
        )
    options = sorted(name for name in found.storage_properties if name.lower() not in _SAYS_NOTHING)
    if options:
        raise TableError(
            f"table {table}: has the option {options[0]!r}, which says how its files are read; give it to "
            f"Files({found.location!r}, options=...), or make a table without it"
        )
    if found.partition_columns and found.partition_provider != "Catalog":
        raise TableError(
            f"table {table}: its partitions are not in the catalog, but found in its folder; enter them there (MSCK "
            f"REPAIR TABLE), or read Files({found.location!r})"
        )


def _format_of(found: TableDescription) -> str:
    return found.provider if found.provider.lower() != _HIVE else found.input_format.rpartition(".")[2]


def _instead(provider: str, found: TableDescription) -> str:
    if provider in _FILES:
        return f"read Files({found.location!r}, format={provider!r}) instead"
    return f"read Files({found.location!r}, format=...) instead, or a copy of the table as Parquet"


def shown_columns(table: str, schema: str) -> list[dict[str, Any]]:
    """A table's columns in Spark's JSON, as readers of files see them: any value may be NULL, and of metadata there is
    only what says how they are read.

    Raises:
        TableError: a type whose values in files differ from those that the table shows.
    """
    return [_shown(table, each) for each in json.loads(schema)["fields"]]


_KEPT = ("EXISTS_DEFAULT", "__COLLATIONS")
"""Of a column's metadata: what rows of files without the column have, and how texts are compared."""


def _shown(table: str, column: Mapping[str, Any]) -> dict[str, Any]:
    metadata = column["metadata"]
    if "char(" in metadata.get("__CHAR_VARCHAR_TYPE_STRING", "").replace("varchar(", ""):
        raise TableError(
            f"table {table}: column {column['name']!r} is {metadata['__CHAR_VARCHAR_TYPE_STRING']}, whose values "
            "Spark pads with spaces when it reads the table; make it a string or a varchar"
        )
    kept = {name: metadata[name] for name in _KEPT if name in metadata}
    return {"name": column["name"], "type": _nullable(table, column["type"]), "nullable": True, "metadata": kept}


def _nullable(table: str, kind: Any) -> Any:
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "struct":
            return {"type": "struct", "fields": [_shown(table, each) for each in kind["fields"]]}
        case "array":
            return {"type": "array", "elementType": _nullable(table, kind["elementType"]), "containsNull": True}
        case "map":
            sides = {side: _nullable(table, kind[side]) for side in ("keyType", "valueType")}
            return {"type": "map", **sides, "valueContainsNull": True}
    raise TableError(
        f"table {table}: has a column of the type {kind['type']!r}, which is not in files as it is shown; read a copy "
        "of the table without it"
    )
