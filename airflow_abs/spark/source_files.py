"""How a subtask reads its share of a source's files: as if it read the whole source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote as quote_uri

from airflow_abs.core.sql_names import quote, text_literal
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.exchange.sources.planned_source import PlannedSource
from airflow_abs.exchange.sources.splits import reader_options, reads_in_order
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.relations import (
    WHOLE,
    Relation,
    filter_rows,
    no_rows,
    read_files,
    select_columns,
    sql_expression,
)

_FILE, _OF_FILE = "__file", "__of_file"
_LAST_OF_ASCII = 127
_KEPT_IN_URIS = "/;:@&=+$,-_.!~*'()"


def read_source(source: PlannedSource, files: Sequence[SourceFile]) -> Relation:
    """The rows of these files, with the source's columns in order."""
    paths = [file.path for file in files]
    if source.table is not None:
        return _read_table(source, source.table, files)
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
        error.add_note(f"raised while Spark analyzed the condition of the source of vertex {vertex!r}: {table.table}")
        raise


def _read_table(source: PlannedSource, table: PinnedTable, files: Sequence[SourceFile]) -> Relation:
    """Found under the names that the table's format trusts, given under the table's own; only the rows for which its
    condition is true."""
    if not files:
        return no_rows(source.schema)
    relation = read_files(
        [file.path for file in files], file_format=table.format, schema=table.file_schema, options=WHOLE
    )
    if table.constants:
        relation = _join_constants(relation, files, [constant.column for constant in table.constants])
    if table.file_schema != source.schema:
        constants = {constant.name: _constant_value(constant.expression) for constant in table.constants}
        relation = _rename(relation, _fields(table.file_schema), _fields(source.schema), constants)
    return filter_rows(relation, table.condition) if table.condition is not None else relation


def _rename(
    relation: Relation,
    found: Sequence[Mapping[str, Any]],
    wanted: Sequence[Mapping[str, Any]],
    constants: Mapping[str, str],
) -> Relation:
    """By position, but for the constants; a cast of a struct goes by position, too, and renames the fields in it."""
    proto = protos()
    columns, in_files = [], iter(found)
    for field in wanted:
        if field["name"] in constants:
            column = constants[field["name"]]
        else:
            column = quote(next(in_files)["name"])
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


def _join_constants(relation: Relation, files: Sequence[SourceFile], names: Sequence[str]) -> Relation:
    """A reader's rows, each with the texts of its file's constants, which Spark is told as a small table.

    A transform that does not use such a column leaves the join out. Reading the files of each value by themselves would
    cost a Spark task for each value.

    Args:
        relation: reads `files`.
        names: of the new columns, in the order of the texts; there may be one more text.
    """
    proto = protos()
    rows = ", ".join(_row(file, len(names)) for file in files)
    columns = ", ".join(map(quote, (_OF_FILE, *names)))
    table = proto.Relation(sql=proto.SQL(query=f"SELECT * FROM VALUES {rows} AS t({columns})"))  # noqa: S608
    small = proto.Relation(hint=proto.Hint(input=table, name="broadcast"))
    file = proto.Expression.Alias(expr=sql_expression("_metadata.file_path"), name=[_FILE])
    named = proto.Relation(with_columns=proto.WithColumns(input=relation, aliases=[file]))
    return proto.Relation(
        join=proto.Join(
            left=named,
            right=small,
            join_condition=sql_expression(f"{_FILE} = {_OF_FILE}"),
            join_type=proto.Join.JOIN_TYPE_LEFT_OUTER,
        )
    )


def _constant_value(expression: str) -> str:
    """SQL of a constant after `_join_constants`; it fails where the file is not among those that were joined."""
    failure = f"raise_error(concat('no constants of file ', {_FILE}))"
    return f"IF({_OF_FILE} IS NULL, {failure}, {expression})"


def _row(file: SourceFile, count: int) -> str:
    texts = ("CAST(NULL AS STRING)" if text is None else text_literal(text) for text in file.constants[:count])
    return f"({', '.join((text_literal(escape_path(file.path)), *texts))})"


def escape_path(path: str) -> str:
    """A file's path as Spark (4.2) shows it in rows: as a URI, in which characters beyond ASCII stay what they are, and
    without an empty place of local files (``file:/lake``)."""
    scheme, separator, rest = path.partition("://")
    escaped = "".join(char if ord(char) > _LAST_OF_ASCII else quote_uri(char, safe=_KEPT_IN_URIS) for char in rest)
    return f"{scheme}{':' if escaped.startswith('/') else separator}{escaped}"
