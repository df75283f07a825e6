"""Columns in Spark's JSON as pyiceberg has them, whose conditions choose files of tables of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

_TYPES: Mapping[str, type[IcebergType]] = {
    "boolean": BooleanType,
    "byte": IntegerType,
    "short": IntegerType,
    "integer": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "date": DateType,
    "timestamp": TimestamptzType,
    "timestamp_ntz": TimestampType,
    "string": StringType,
    "binary": BinaryType,
}


def schema_of(columns: Iterable[Mapping[str, Any]]) -> Schema:
    """Columns, numbered with all that is in them; those of types that no condition knows are not there."""
    return Schema(*_fields((column for column in columns if _is_known(column["type"])), count(1)))


def _is_known(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind in _TYPES or kind.startswith("decimal(")
    match kind["type"]:
        case "struct":
            return all(_is_known(field["type"]) for field in kind["fields"])
        case "array":
            return _is_known(kind["elementType"])
        case "map":
            return _is_known(kind["keyType"]) and _is_known(kind["valueType"])
    return False


def _fields(fields: Iterable[Mapping[str, Any]], numbers: Iterator[int]) -> list[NestedField]:
    """All are optional: whatever Spark reads may be NULL."""
    return [NestedField(next(numbers), field["name"], _type(field["type"], numbers)) for field in fields]


def _type(kind: Any, numbers: Iterator[int]) -> IcebergType:
    if isinstance(kind, str):
        if kind.startswith("decimal("):
            precision, scale = kind.removeprefix("decimal(").rstrip(")").split(",")
            return DecimalType(int(precision), int(scale))
        return _TYPES[kind]()
    match kind["type"]:
        case "array":
            return ListType(next(numbers), _type(kind["elementType"], numbers), element_required=False)
        case "map":
            key, value = (_type(kind[of], numbers) for of in ("keyType", "valueType"))
            return MapType(next(numbers), key, next(numbers), value, value_required=False)
    return StructType(*_fields(kind["fields"], numbers))
