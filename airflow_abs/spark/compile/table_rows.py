"""Rows as a table's files must hold them: its columns in their order and types, with what its format asks for."""

from __future__ import annotations

import json
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.sql_names import quote
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.relations import Relation, drop_columns, sql_expression

StructType = Any
DataType = Any

_WIDER = {
    "byte": ("short", "integer", "long"),
    "short": ("integer", "long"),
    "integer": ("long",),
    "float": ("double",),
    "char": ("string",),
    "varchar": ("string",),
}
"""Types that every value of a type fits into, in Spark's words."""


def check_columns_fit(vertex: str, schema: StructType, target: TargetTable) -> None:
    """The output has the table's columns, whatever their order, and every value fits into its column.

    Raises:
        JobGraphError: names the vertex, what was found, and what to write.
    """
    found = {field.name: field.dataType for field in schema.fields}
    wanted = {field.name: field.dataType for field in _fields(target)}
    missing, unknown = [name for name in wanted if name not in found], [name for name in found if name not in wanted]
    if missing or unknown:
        told = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"also has {', '.join(unknown)}"] * bool(unknown)
        raise JobGraphError(
            f"vertex {vertex!r}: its output {' and '.join(told)}, compared with table {target.table}, whose columns "
            f"are {', '.join(wanted)}; select just these in the transform (lit(None).cast(...) where there is no value)"
        )
    for name, kind in wanted.items():
        if not _fits(found[name], kind):
            raise JobGraphError(
                f"vertex {vertex!r}: column {name!r} of its output is {found[name].simpleString()}, and "
                f"{kind.simpleString()} in table {target.table}, which cannot hold every such value; cast it in the "
                "transform"
            )
    if absent := [name for name in target.sort_by if name not in found]:
        raise JobGraphError(
            f"vertex {vertex!r}: sort_by of its sink names {absent[0]!r}, which its output does not have; its columns "
            f"are {', '.join(found)}"
        )


def to_table(relation: Relation, target: TargetTable) -> Relation:
    """The table's columns with their ids, by name; then the partition values, computed of what is written; without the
    columns that are not in its files."""
    from pyspark.sql.connect.types import pyspark_types_to_proto_types

    proto = protos()
    columns = []
    for field in _fields(target):
        cast = proto.Expression.Cast(
            expr=sql_expression(quote(field.name)), type=pyspark_types_to_proto_types(field.dataType)
        )
        alias = proto.Expression.Alias(
            expr=proto.Expression(cast=cast), name=[field.name], metadata=json.dumps(field.metadata)
        )
        columns.append(proto.Expression(alias=alias))
    rows = proto.Relation(project=proto.Project(input=relation, expressions=columns))
    if not target.partitions:
        return rows
    values = [
        proto.Expression.Alias(expr=sql_expression(partition.expression), name=[partition.column])
        for partition in target.partitions
    ]
    rows = proto.Relation(with_columns=proto.WithColumns(input=rows, aliases=values))
    return drop_columns(rows, target.not_in_files) if target.not_in_files else rows


def _fields(target: TargetTable) -> list[Any]:
    from pyspark.sql.types import StructType

    return list(StructType.fromJson(json.loads(target.schema)).fields)


def _fits(found: DataType, wanted: DataType) -> bool:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    match found, wanted:
        case StructType(), StructType():
            return bool(found.names == wanted.names) and all(
                _fits(mine.dataType, theirs.dataType) for mine, theirs in zip(found.fields, wanted.fields, strict=True)
            )
        case ArrayType(), ArrayType():
            return _fits(found.elementType, wanted.elementType)
        case MapType(), MapType():
            return _fits(found.keyType, wanted.keyType) and _fits(found.valueType, wanted.valueType)
        case DecimalType(), DecimalType():
            whole = wanted.precision - wanted.scale
            return bool(found.scale <= wanted.scale and found.precision - found.scale <= whole)
    name, other = found.typeName(), wanted.typeName()
    return bool(name == other) or other in _WIDER.get(name, ())
