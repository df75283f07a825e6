"""What Spark left in the exchange for a table: copied to the table, measured, and taken apart by partition values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote

from airflow_abs.exchange.errors import DamagedFileError, MissingFileError
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.tables.errors import TableError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from airflow_abs.exchange.publish.record import StagedFile
    from airflow_abs.exchange.publish.target_table import TargetTable

COPIES_AT_ONCE = 8

_COPIED_AT_ONCE = 1 << 20
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


@contextmanager
def open_staged(staged: StagedFile) -> Iterator[BinaryIO]:
    """A stream from the beginning of one file in the exchange.

    Raises:
        MissingFileError, DamagedFileError: it is gone, or has another size than its manifest says.
    """
    source = locate(staged.source)
    try:
        stream = source.fs.open(source.path, "rb")
    except FileNotFoundError as error:
        raise MissingFileError(
            f"{source}: no such file; its manifest lists it: clear the subtask that wrote it", path=str(source)
        ) from error
    with stream:
        if (found := stream.seek(0, os.SEEK_END)) != staged.bytes:
            raise DamagedFileError(
                f"{source}: {found} bytes, its manifest says {staged.bytes}; clear the subtask that wrote it",
                path=str(source),
            )
        stream.seek(0)
        yield stream


def copy_bytes(source: BinaryIO, output: SupportsWrite[bytes], count: int) -> None:
    """So many bytes from where a stream is.

    Raises:
        EOFError: it has less.
    """
    while count:
        read = source.read(min(count, _COPIED_AT_ONCE))
        if not read:
            raise EOFError(f"{count} bytes are missing")
        output.write(read)
        count -= len(read)


def partition_texts(name: str) -> dict[str, str | None]:
    """What Spark wrote into the folders of a file's name, by column; None is NULL."""
    folders = (part.partition("=") for part in PurePosixPath(name).parts[:-1] if "=" in part)
    return {column: None if text == _NULL_FOLDER else unquote(text) for column, _, text in folders}


def check_partition(target: TargetTable, staged: StagedFile, texts: Iterable[str | None], readers: str) -> None:
    """A file's partition values are such as the table can have.

    Args:
        texts: of the values, in the order of `not_in_files`.
        readers: those who take an empty text for NULL.

    Raises:
        TableError: NULL in a required column, or an empty text.
    """
    for column, text in zip(target.not_in_files, texts, strict=True):
        if text is None and column in target.required:
            what = "NULL, which its column does not allow"
        elif text == "":
            what = f"the empty string, which {readers} takes for NULL"
        else:
            continue
        raise TableError(
            f"table {target.table}: {staged.name} has rows whose partition column {column!r} is {what}; "
            "nothing was published. Leave such rows out in the transform, or give them another value"
        )
