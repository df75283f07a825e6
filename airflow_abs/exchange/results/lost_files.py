"""Which committed files are not what their manifest says: gone, of another size, or with an altered footer.

Spark reads a file that was cut to nothing as no rows, without a word, and Parquet's page checksums do not cover the
footer, by which a reader skips pages. Both would lose rows silently; so sizes and footers are compared with the
manifest. What lies in the pages themselves is checked by Spark's reader.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import ResultFile
from airflow_abs.exchange.storage.client_errors import raise_if_throttled, reason_of, storage_errors
from airflow_abs.exchange.storage.locations import Location, locate

GONE = "is gone"
_THREADS = 16


def find_lost_files(folder: JobFolder, files: Sequence[ResultFile], *, footers: bool = True) -> dict[str, str]:
    """What is wrong, by the file's path as its manifest names it; empty if nothing is lost.

    One `stat` per local file, one listing per folder elsewhere; with `footers` also one small read per file that has
    a footer checksum.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    if not files:
        return {}
    try:
        sizes = _sizes(folder, files)
        wrong = {file.path: problem for file in files if (problem := _wrong_size(file, sizes.get(file.path)))}
        if footers:
            whole = [file for file in files if file.path not in wrong and file.tail_crc is not None]
            wrong |= _wrong_tails(folder, whole)
    except storage_errors() as error:
        raise_if_throttled(folder.path, error)
        raise ExchangeUnreachableError(
            f"{folder.path}: cannot be checked ({reason_of(error)}); check the storage and its rights"
        ) from error
    return wrong


def tail_checksum(data: bytes) -> str:
    """Of everything in a Parquet file behind its pages: page indexes, footer, magic number."""
    return f"{zlib.crc32(data):08x}"


def _wrong_size(file: ResultFile, found: int | None) -> str | None:
    if found is None:
        return GONE
    return None if found == file.bytes else f"has {found} bytes, was written with {file.bytes}"


def _sizes(folder: JobFolder, files: Sequence[ResultFile]) -> dict[str, int]:
    paths = {file.path: locate(folder.file_path(file.path)) for file in files}
    if next(iter(paths.values())).is_local:
        return {name: size for name, path in paths.items() if (size := _stat(path)) is not None}
    parents = {str(path.parent): path.parent for path in paths.values()}
    listed: dict[str, int] = {}
    with ThreadPoolExecutor(min(_THREADS, len(parents)), thread_name_prefix="list-inputs") as pool:
        for found in pool.map(_list, parents.values()):
            listed |= found
    return {name: listed[path.path.lstrip("/")] for name, path in paths.items() if path.path.lstrip("/") in listed}


def _stat(path: Location) -> int | None:
    try:
        return os.stat(path.path).st_size  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None


def _list(folder: Location) -> dict[str, int]:
    folder.forget_listings()
    try:
        entries = folder.fs.ls(folder.path, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {str(PurePosixPath(entry["name"])).lstrip("/"): int(entry.get("size") or 0) for entry in entries}


def _wrong_tails(folder: JobFolder, files: Iterable[ResultFile]) -> dict[str, str]:
    wanted = list(files)
    if not wanted:
        return {}
    with ThreadPoolExecutor(min(_THREADS, len(wanted)), thread_name_prefix="check-footers") as pool:
        whole = list(pool.map(lambda file: _tail_is_whole(folder, file), wanted))
    return {file.path: "has an altered footer" for file, good in zip(wanted, whole, strict=True) if not good}


def _tail_is_whole(folder: JobFolder, file: ResultFile) -> bool:
    location = locate(folder.file_path(file.path))
    try:
        data = bytes(location.fs.cat_file(location.path, start=file.bytes - file.tail_bytes, end=file.bytes))
    except FileNotFoundError:
        return False
    return tail_checksum(data) == file.tail_crc
