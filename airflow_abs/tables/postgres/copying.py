"""COPY, with Arrow on our side of it. CSV tells NULL from an empty text, and both sides read and write it fast."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO

import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from airflow_abs.tables.errors import TableError
from airflow_abs.tables.postgres.columns import Column, arrow_schema, from_bytes, quote, to_bytes

if TYPE_CHECKING:
    from airflow_abs.tables.postgres.connection import Connection

_TEXT_FORMS = {"datestyle": "ISO", "timezone": "UTC", "extra_float_digits": "1", "bytea_output": "hex"}
"""Whatever the server's own are: times can be read, and every float comes as it is. They are set in the transaction
that copies, as a pooler may change the server's process between two."""

_PIPED_AT_ONCE = 1 << 20
_PARSED_AT_ONCE = 4 << 20


def copy_out(connection: Connection, table: str, select: str, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """The rows of a SELECT of these columns, in batches of some MB.

    Args:
        table: for messages.

    Raises:
        TableError: a value that Spark's type cannot hold, such as the date 'infinity'; not all rows came.
        psycopg2.Error: what the server refuses; the connection cannot be used any more after either.
    """
    statement = f"COPY (\n{select}\n) TO STDOUT (FORMAT csv, HEADER true)"
    read_end, write_end = os.pipe()
    with ThreadPoolExecutor(1) as pool, os.fdopen(read_end, "rb") as piped:  # closed first, which ends the copying
        copying = pool.submit(_pipe_out, connection, statement, write_end)
        rows = 0
        try:
            for batch in _parse(piped, columns):
                rows += batch.num_rows
                yield batch
        except pa.ArrowInvalid as error:
            piped.close()
            _raise_first(copying)
            raise TableError(
                f"table {table}: {error}; Spark has no such value. Leave such rows out by where=, or name the column "
                "in as_text="
            ) from None
        if (copied := copying.result()) != rows:
            raise TableError(f"table {table}: PostgreSQL sent {copied} rows, and {rows} were read; clear the task plan")


def _pipe_out(connection: Connection, statement: str, write_end: int) -> int:
    with os.fdopen(write_end, "wb", buffering=_PIPED_AT_ONCE) as pipe, connection.cursor() as cursor:
        for name, value in _TEXT_FORMS.items():
            cursor.execute(f"SET LOCAL {name} = '{value}'")
        cursor.copy_expert(statement, pipe)
        return int(cursor.rowcount)


def _raise_first(copying: Future[int]) -> None:
    """If nothing could be parsed because the server sent nothing, its error is the one to tell."""
    error = copying.exception()
    if isinstance(error, psycopg2.Error):
        raise error


def _parse(piped: BinaryIO, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Raises pa.ArrowInvalid: a value cannot be parsed."""
    types = {each.name: pa.string() if pa.types.is_binary(each.arrow) else each.arrow for each in columns}
    reader = csv.open_csv(
        piped,
        read_options=csv.ReadOptions(column_names=list(types), skip_rows=1, block_size=_PARSED_AT_ONCE),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=types,
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    schema = arrow_schema(columns)
    with reader:
        for batch in reader:
            if batch.num_rows:
                found = zip(batch.columns, columns, strict=True)
                arrays = [to_bytes(array) if pa.types.is_binary(each.arrow) else array for array, each in found]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def copy_in(connection: Connection, relation: str, columns: Sequence[Column], rows: pa.RecordBatch) -> int:
    """Add rows to a relation whose columns have these names; how many the server took.

    Raises:
        psycopg2.Error: it refuses.
    """
    arrays = [_as_csv_value(rows.column(each.name), each) for each in columns]
    table = pa.RecordBatch.from_arrays(arrays, names=[each.name for each in columns])
    text = io.BytesIO()
    csv.write_csv(table, text, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
    text.seek(0)
    names = ", ".join(quote(each.name) for each in columns)
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY {relation} ({names}) FROM STDIN (FORMAT csv)", text)
        return int(cursor.rowcount)


def _as_csv_value(values: pa.Array, column: Column) -> pa.Array:
    return from_bytes(values) if pa.types.is_binary(column.arrow) else pc.cast(values, column.arrow)
