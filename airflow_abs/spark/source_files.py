"""How a subtask reads its share of a source's files: as if it read the whole source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_abs.core.sql_names import quote
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.exchange.sources.planned_source import PlannedSource
from airflow_abs.exchange.sources.splits import reader_options, reads_in_order
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.relations import Relation, filter_rows, read_files, select_columns, sql_expression


def read_source(source: PlannedSource, files: Sequence[SourceFile]) -> Relation:
    """The rows of these files, with the source's columns in order."""
    paths = [file.path for file in files]
    if source.table is not None:
        return _read_table(source, source.table, paths)
    if source.files is None:
        raise ValueError(f"source {source.name}: the plan has neither files nor a table for it")
    relation = read_files(
        paths,
        file_format=source.files.format,
        schema=source.schema,
        options=reader_options(source.files, files),
    )
    if reads_in_order(source.files, source.columns, files):
        return relation  # only a reader itself has _metadata
    return select_columns(relation, source.columns)


def check_condition(vertex: str, empty: Any, table: PinnedTable) -> None:
    """Spark understands what the table made of its condition, here and not only in a subtask."""
    if table.condition is None:
        return
    try:
        empty.where(table.condition).schema  # noqa: B018 - asks the server
    except Exception as error:
        error.add_note(f"raised while Spark analysed the condition of the source of vertex {vertex!r}: {table.table}")
        raise


def _read_table(source: PlannedSource, table: PinnedTable, paths: Sequence[str]) -> Relation:
    """Found under the names that the table's format trusts, given under the table's own; only the rows for which its
    condition is true."""
    relation = read_files(paths, file_format=table.format, schema=table.file_schema)
    if table.file_schema != source.schema:
        relation = _rename(relation, _fields(table.file_schema), _fields(source.schema))
    return filter_rows(relation, table.condition) if table.condition is not None else relation


def _rename(relation: Relation, found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> Relation:
    """By position; a cast of a struct goes by position, too, and renames the fields in it."""
    proto = protos()
    columns = []
    for file_field, field in zip(found, wanted, strict=True):
        column = quote(file_field["name"])
        if not isinstance(field["type"], str):
            column = f"CAST({column} AS {_sql_type(field['type'])})"
        columns.append(
            proto.Expression(alias=proto.Expression.Alias(expr=sql_expression(column), name=[field["name"]]))
        )
    return proto.Relation(project=proto.Project(input=relation, expressions=columns))


def _sql_type(kind: Any) -> str:
    """Spark's JSON of a type as SQL: ``STRUCT<`a`: long>``."""
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "array":
            return f"ARRAY<{_sql_type(kind['elementType'])}>"
        case "map":
            return f"MAP<{_sql_type(kind['keyType'])}, {_sql_type(kind['valueType'])}>"
    fields = (f"{quote(field['name'])}: {_sql_type(field['type'])}" for field in kind["fields"])
    return f"STRUCT<{', '.join(fields)}>"


def _fields(schema: str) -> Sequence[Mapping[str, Any]]:
    fields: list[Mapping[str, Any]] = json.loads(schema)["fields"]
    return fields
