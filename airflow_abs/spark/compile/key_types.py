"""One type for the hash keys of all inputs of a consumer.

Spark hashes 5 as INT and 5 as BIGINT to different numbers, so the rows of a join would miss each other. Keys are cast
to the type in which Spark would compare them, and -0.0 becomes 0.0, before they are hashed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.sql_names import quote

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_TRIED = frozenset(
    {"boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "binary"}
    | {"date", "timestamp", "timestamp_ntz", "daytimeinterval", "yearmonthinterval"}
)
"""Types of keys other than STRING, alone or in structs and arrays, by `typeName`."""
_NOT_COMPARED = {"map": "hash", "variant": "compare"}
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}


def resolve_keys(vertex: str, schema: StructType, keys: Sequence[str]) -> tuple[str, ...]:
    """The columns that the keys name, in the spelling of the schema (Spark's names do not care for case).

    Raises:
        JobGraphError: a key is not a column, or two columns answer to it.
    """
    resolved = []
    for key in keys:
        found = [name for name in schema.names if name == key] or [
            name for name in schema.names if name.lower() == key.lower()
        ]
        if len(found) != 1:
            raise JobGraphError(
                f"vertex {vertex!r}: hash key {key!r} is {'ambiguous' if found else 'not a column of its output'}; "
                f"its columns are {', '.join(schema.names)}"
            )
        resolved.append(found[0])
    return tuple(resolved)


def find_hash_keys(
    graph: JobGraph, schemas: Mapping[str, StructType], consumer: str
) -> dict[str, list[tuple[str, DataType]]]:
    """By hash input of a consumer its keys with their types, in order; `schemas` are outputs by vertex.

    Raises:
        JobGraphError: see `resolve_keys`.
    """
    return {
        edge.input_name: [
            (key, schemas[edge.producer][key].dataType)
            for key in resolve_keys(edge.producer, schemas[edge.producer], edge.keys)
        ]
        for edge in graph.inputs_of(consumer)
        if edge.partitioning is Partitioning.HASH and graph.crosses_regions(edge)
    }


def compute_common_types(
    session: Any, consumer: str, keys_by_input: Mapping[str, Sequence[tuple[str, DataType]]]
) -> tuple[str, ...]:
    """The common type of each key position over all hash inputs of `consumer`, as DDL.

    Args:
        session: a Connect session; only its analyser is asked.
        consumer: vertex, for messages.
        keys_by_input: input name to its keys with their types, in order.

    Raises:
        JobGraphError: different numbers of keys, a type that keys cannot have, or no type in which both compare without
            loss.
    """
    counts = {name: len(keys) for name, keys in keys_by_input.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise JobGraphError(
            f"vertex {consumer!r}: its hash inputs have different numbers of keys ({found}); rows that "
            "belong together would "
            "reach different subtasks. Hash all inputs by the same keys"
        )
    positions = zip(*keys_by_input.values(), strict=True)
    return tuple(
        _common_type(session, consumer, index, dict(zip(keys_by_input, keys, strict=True)))
        for index, keys in enumerate(positions, start=1)
    )


def subpartition_expression(
    keys: Sequence[str], key_types: Sequence[str], schema: StructType, subpartitions: int
) -> str:
    """SQL for the subpartition of a row: ``pmod(xxhash64(keys), subpartitions)``.

    xxhash64 is independent of the Murmur3 that Spark's own shuffles use: with the same function all rows of one
    subpartition would fall into one Spark partition of the consumer.
    """
    hashed = ", ".join(
        _key_expression(key, type_, schema[key].dataType.simpleString())
        for key, type_ in zip(keys, key_types, strict=True)
    )
    return f"CAST(pmod(xxhash64({hashed}), {subpartitions}L) AS INT)"


def row_expression(vertex: str, schema: StructType, subpartitions: int) -> str:
    """SQL for the subpartition of a row by all its columns: a recomputed partition puts every row where it was.

    Raises:
        JobGraphError: no column can be hashed.
    """
    columns = [field.name for field in schema.fields if is_hashable(field.dataType)]
    if not columns:
        raise JobGraphError(
            f"vertex {vertex!r}: rebalance() finds no column that Spark can hash among {schema.simpleString()}; "
            "add one, or use hash() with a key"
        )
    return f"CAST(pmod(xxhash64({', '.join(quote(name) for name in columns)}), {subpartitions}L) AS INT)"


def row_hash(schema: StructType, *, by_file: bool = False) -> str | None:
    """SQL for a number within 31 bits that depends on a row's values alone; None if no column can be hashed.

    Sums of it tell two sets of rows apart, whatever their order. Floating-point columns are left out: their last bits
    depend on the order in which Spark adds up. With `by_file` it also depends on the Spark partition that writes the
    row, and each writes one file: then sums tell apart the same rows in other files.
    """
    columns = [
        field.name for field in schema.fields if is_hashable(field.dataType) and not _is_floating(field.dataType)
    ]
    hashed = [*map(quote, columns), *(["spark_partition_id()"] if by_file else [])]
    return f"xxhash64({', '.join(hashed)}) % 2147483647L" if hashed else None


def _key_expression(key: str, common: str, own: str) -> str:
    expression = quote(key) if own == common else f"CAST({quote(key)} AS {common})"
    return f"({expression} + CAST(0 AS {common}))" if common in ("double", "float") else expression


def is_hashable(data_type: DataType) -> bool:
    """Whether Spark hashes values of this type."""
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    if isinstance(data_type, (MapType, VariantType)):
        return False
    if isinstance(data_type, ArrayType):
        return is_hashable(data_type.elementType)
    return not isinstance(data_type, StructType) or all(is_hashable(field.dataType) for field in data_type.fields)


def _is_floating(data_type: DataType) -> bool:
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, StructType

    match data_type:
        case ArrayType():
            return _is_floating(data_type.elementType)
        case StructType():
            return any(_is_floating(field.dataType) for field in data_type.fields)
        case _:
            return isinstance(data_type, (DoubleType, FloatType))


def _common_type(session: Any, consumer: str, index: int, keys: Mapping[str, tuple[str, DataType]]) -> str:
    from pyspark.sql.types import ArrayType, StructType

    for name, (key, data_type) in keys.items():
        for path, part in _parts(key, data_type):
            _check_key_type(consumer, index, name, path, part)
    distinct = {data_type.simpleString(): data_type for _, data_type in keys.values()}
    if len(distinct) == 1:
        return str(next(iter(distinct)))
    nested = any(isinstance(each, (ArrayType, StructType)) for each in distinct.values())
    common = None if nested else _wider_type(session, list(distinct.values()))
    if common is None or any(not _keeps_values(data_type, common) for data_type in distinct.values()):
        found = ", ".join(f"{name}: {data_type.simpleString()}" for name, (_, data_type) in keys.items())
        raise JobGraphError(
            f"vertex {consumer!r}: hash key {index} of its inputs has no common type ({found}); cast it to one type "
            "in the upstream transforms"
        )
    return str(common.simpleString())


def _parts(path: str, data_type: DataType) -> Iterator[tuple[str, DataType]]:
    """The types in a key that are compared, each with where it is: ``k.lines[].n``."""
    from pyspark.sql.types import ArrayType, StructType

    if type(data_type) is StructType:
        for field in data_type.fields:
            yield from _parts(f"{path}.{field.name}", field.dataType)
    elif type(data_type) is ArrayType:
        yield from _parts(f"{path}[]", data_type.elementType)
    else:
        yield path, data_type


def is_key_type(data_type: DataType) -> bool:
    """Whether it was tried that equal values of this type have equal hashes."""
    return all(_is_tried(part) for _, part in _parts("", data_type))


def _is_tried(data_type: DataType) -> bool:
    from pyspark.sql.types import StringType

    if isinstance(data_type, StringType):
        return bool(data_type.simpleString() == "string")
    return data_type.typeName() in _TRIED


def _check_key_type(consumer: str, index: int, name: str, path: str, data_type: DataType) -> None:
    """Refuse key types unless equal values are known to have equal hashes; `tests/proof` draws all accepted ones."""
    from pyspark.sql.types import StringType

    kind, shown = data_type.typeName(), data_type.simpleString()
    if _is_tried(data_type):
        return
    if isinstance(data_type, StringType):
        raise JobGraphError(
            f"vertex {consumer!r}: hash key {index} of input {name!r} has a collation in {path} ({shown}), under "
            "which equal strings hash differently; hash by a normalized copy, such as lower(key)"
        )
    if kind in _NOT_COMPARED:
        raise JobGraphError(
            f"vertex {consumer!r}: hash key {index} of input {name!r} holds {path} of type {shown}, which Spark cannot "
            f"{_NOT_COMPARED[kind]}; hash by another column"
        )
    raise JobGraphError(
        f"vertex {consumer!r}: hash key {index} of input {name!r} holds {path} of type {shown}, and it is untested "
        "whether equal values of this type always reach the same subtask; hash by a copy of another type, such as "
        f"CAST({path} AS STRING)"
    )


def _wider_type(session: Any, types: Sequence[DataType]) -> DataType | None:
    """The type that Spark's own coercion gives, or None; strings and numbers are not mixed, that could lose rows."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions
    from pyspark.sql.types import StringType

    if any(isinstance(data_type, StringType) for data_type in types):
        return None
    nulls = [functions.lit(None).cast(data_type) for data_type in types]
    try:
        schema = session.range(0).select(functions.coalesce(*nulls).alias("key")).schema
    except AnalysisException:
        return None
    common: DataType = schema["key"].dataType
    return common


def _keeps_values(data_type: DataType, common: DataType) -> bool:
    """Decimals above 38 digits are cut by the coercion; then equal values could differ, or different ones be equal."""
    from pyspark.sql.types import DecimalType

    if not isinstance(common, DecimalType):
        return True
    integer_digits, scale = _DIGITS.get(data_type.typeName(), 0), 0
    if isinstance(data_type, DecimalType):
        integer_digits, scale = data_type.precision - data_type.scale, data_type.scale
    return bool(scale <= common.scale and integer_digits <= common.precision - common.scale)
