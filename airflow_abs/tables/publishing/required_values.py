"""Whether a file has NULL where its table allows none, at any depth: in a column, in the fields of a struct, in the
elements of a list, in the keys and values of a map.

A path is the name of a column and then those of what is inside: of fields, or ``element``, ``key`` and ``value``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_abs.tables.errors import TableError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from airflow_abs.exchange.publish.record import StagedFile
    from airflow_abs.exchange.publish.target_table import TargetTable

Path = tuple[str, ...]


def leaf_paths(fields: Iterable[pa.Field]) -> Iterator[Path]:
    """Of the columns of a Parquet file, in their order. Its own names for them do not tell a column ``a.b`` from the
    field ``b`` of a struct ``a``."""
    for field in fields:
        parts = _parts(field.type)
        yield from ((field.name, *path) for path in (leaf_paths(parts) if parts else ((),)))


def required_inside(fields: Iterable[pa.Field], above: Path = ()) -> Iterator[Path]:
    """What a table requires inside of its columns: all that is not nullable there."""
    for field in fields:
        path = (*above, field.name)
        if above and not field.nullable:
            yield path
        yield from required_inside(_parts(field.type), path)


def check_required(target: TargetTable, staged: StagedFile, file: pq.ParquetFile) -> None:
    """No NULL where the table allows none.

    Counts in the footer tell, unless they count lists without elements as well; then the column is read.

    Args:
        staged: for messages.
        file: what it holds.

    Raises:
        TableError: there is one; names the column.
    """
    columns = [(name,) for name in target.required if name not in target.not_in_files]
    leaves = list(leaf_paths(file.schema_arrow))
    for path in (*columns, *target.required_inside):
        below = [number for number, leaf in enumerate(leaves) if leaf[: len(path)] == path]
        for group in range(file.num_row_groups):
            counted = [file.metadata.row_group(group).column(number).statistics for number in below]
            if all(each is not None and each.null_count == 0 for each in counted):
                continue
            if any(_at(chunk, path[1:]).null_count for chunk in _read(file, group, path[0]).chunks):
                raise TableError(
                    f"table {target.table}: column {'.'.join(path)!r} is required, and {staged.name} has rows in which "
                    "it is NULL; nothing was published. Leave such rows out in the transform, or make it optional"
                )


def _read(file: pq.ParquetFile, group: int, column: str) -> pa.ChunkedArray:
    return file.read_row_group(group, columns=[column]).column(column)


def _at(values: Any, path: Path) -> pa.Array:
    """What is inside of those that are not NULL."""
    for name in path:
        values = values.drop_null()
        if pa.types.is_struct(values.type):
            values = values.field(name)
        elif pa.types.is_map(values.type):
            start, stop = values.offsets[0].as_py(), values.offsets[-1].as_py()
            values = (values.keys if name == "key" else values.items)[start:stop]
        else:
            values = values.flatten()
    return values


def _parts(kind: pa.DataType) -> list[pa.Field]:
    """A key is never NULL, whatever a schema says."""
    if pa.types.is_struct(kind):
        return list(kind.fields)
    if pa.types.is_map(kind):
        return [kind.key_field.with_name("key").with_nullable(True), kind.item_field.with_name("value")]
    return [kind.value_field.with_name("element")] if pa.types.is_list(kind) or pa.types.is_large_list(kind) else []
