"""A Delta schema as Spark's reader takes it: its own JSON, less what only Delta knows.

Names of columns in files are those of the table, unless it maps them: then files hold other names (mode `name`) or are
matched by field id (mode `id`). Partition columns are in no file; their values stand in the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_abs.tables.errors import TableError
from airflow_abs.tables.spark_settings import FIELD_ID

if TYPE_CHECKING:
    from deltalake import DeltaTable

Field = Mapping[str, Any]
"""Of a schema in Spark's JSON form."""

_MODE = "delta.columnMapping.mode"
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_ID = "delta.columnMapping.id"
_WIDENED = "delta.typeChanges"
_PLAIN = frozenset(
    "string long integer short byte float double boolean binary date timestamp timestamp_ntz".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class DeltaColumns:
    """A table's columns: `schema` as its readers see them, `file_schema` as Spark looks them up in files, without the
    partition columns; both are Spark's JSON, in the same order."""

    schema: str
    file_schema: str
    partitions: tuple[str, ...]
    mode: str

    @property
    def fields(self) -> list[Field]:
        found: list[Field] = json.loads(self.schema)["fields"]
        return found

    def type_of(self, column: str) -> str:
        """Of a column that is no struct, list or map."""
        return str(next(field["type"] for field in self.fields if field["name"] == column))


def read_columns(name: str, table: DeltaTable) -> DeltaColumns:
    """How to read files of this table; every column may be NULL, as in whatever Spark reads from files.

    Raises:
        TableError: a type that Spark's Parquet reader cannot give, one that was widened, an unknown way of naming
            columns; names `table`.
    """
    mode = mapping_mode(table)
    if mode not in ("none", "name", "id"):
        raise TableError(
            f"table {name}: {_MODE} is {mode!r}; expected none, name or id: this version of airflow_abs does not know "
            "what its files call their columns"
        )
    fields = stored_fields(table)
    partitions = tuple(table.metadata().partition_columns)
    in_files = [field for field in fields if field["name"] not in partitions]
    return DeltaColumns(
        schema=json.dumps(_Reading(name, _as_shown).struct(fields)),
        file_schema=json.dumps(_Reading(name, _NAMINGS[mode]).struct(in_files)),
        partitions=partitions,
        mode=mode,
    )


def mapping_mode(table: DeltaTable) -> str:
    """How columns are found in files: by their names (``none``), by physical names (``name``) or by field id."""
    return table.metadata().configuration.get(_MODE) or "none"


def stored_fields(table: DeltaTable) -> list[Field]:
    """With all metadata, as they stand in the log."""
    fields: list[Field] = json.loads(table.schema().to_json())["fields"]
    return fields


def stored_path(fields: Sequence[Field], path: Sequence[str]) -> tuple[str, ...]:
    """The names that statistics in the log have for a column, itself or through structs."""
    field = next(field for field in fields if field["name"] == path[0])
    name = str(field["metadata"].get(_PHYSICAL_NAME, field["name"]))
    return (name, *(stored_path(field["type"]["fields"], path[1:]) if path[1:] else ()))


def _as_shown(field: Field) -> dict[str, Any]:
    return {"name": field["name"], "metadata": {}}


def _physical(field: Field) -> dict[str, Any]:
    return {"name": field["metadata"][_PHYSICAL_NAME], "metadata": {}}


def _by_id(field: Field) -> dict[str, Any]:
    """Under a name that no file of a sane writer holds: Spark looks at names here and there although it reads by id."""
    number = field["metadata"][_ID]
    return {"name": f"__field_{number}", "metadata": {FIELD_ID: number}}


_NAMINGS: dict[str, Callable[[Field], dict[str, Any]]] = {"none": _as_shown, "name": _physical, "id": _by_id}


@dataclass(frozen=True, slots=True)
class _Reading:
    table: str
    naming: Callable[[Field], dict[str, Any]]

    def struct(self, fields: Sequence[Field]) -> dict[str, Any]:
        return {"type": "struct", "fields": [self._field(field) for field in fields]}

    def _field(self, field: Field) -> dict[str, Any]:
        if field["metadata"].get(_WIDENED):
            raise TableError(
                f"table {self.table}: the type of column {field['name']!r} was widened, and older files hold the "
                "narrower one; rewrite them (ALTER TABLE ... DROP FEATURE typeWidening), or read a copy of the table"
            )
        return {**self.naming(field), "nullable": True, "type": self._type(field["name"], field["type"])}

    def _type(self, column: str, kind: Any) -> Any:
        if isinstance(kind, str):
            if kind in _PLAIN or kind.startswith("decimal("):
                return kind
            raise TableError(
                f"table {self.table}: column {column!r} is of type {kind}, which Spark's Parquet reader cannot give; "
                "read a copy of the table without it"
            )
        match kind["type"]:
            case "array":
                return {
                    "type": "array",
                    "elementType": self._type(column, kind["elementType"]),
                    "containsNull": True,
                }
            case "map":
                return {
                    "type": "map",
                    "keyType": self._type(column, kind["keyType"]),
                    "valueType": self._type(column, kind["valueType"]),
                    "valueContainsNull": True,
                }
        return self.struct(kind["fields"])
