"""Which committed files are not what their manifest says: gone, of another size, or with an altered footer.

Spark silently reads a file that was cut to nothing as no rows, and Parquet's page checksums do not cover the
footer, by which a reader skips pages. Both would lose rows silently; so sizes and footers are compared with the
manifest. What lies in the pages themselves is checked by Spark's reader.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import ResultFile
from airflow_abs.exchange.storage.client_errors import raise_if_throttled, reason_of, storage_errors
from airflow_abs.exchange.storage.listings import Listed, find_file, key_of, list_below, list_folder
from airflow_abs.exchange.storage.locations import Location, locate

GONE = "is gone"
_THREADS = 16
_FEW_FILES = 4  # are asked for one by one, without a listing
_FEW_FOLDERS = 4  # of one region; more are listed with everything in the region, which is up to 1,000 files a request


def find_lost_files(folder: JobFolder, files: Sequence[ResultFile], *, footers: bool = True) -> dict[str, str]:
    """What is wrong, by the file's path as its manifest names it; empty if nothing is lost.

    One `stat` per local file, elsewhere one request per file if they are few; else a listing of each folder, or of a
    whole region if there are many. With `footers` also one small read per file that has a footer checksum, unless the
    store says that its content is what it was.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    if not files:
        return {}
    try:
        found = _find(folder, files)
        wrong = {file.path: problem for file in files if (problem := _wrong_size(file, found.get(file.path)))}
        if footers:
            doubted = [file for file in files if file.path not in wrong and not _is_known(file, found[file.path])]
            wrong |= _wrong_tails(folder, doubted)
    except storage_errors() as error:
        raise_if_throttled(folder.path, error)
        raise ExchangeUnreachableError(
            f"{folder.path}: cannot be checked ({reason_of(error)}); check the storage and its rights"
        ) from error
    return wrong


def tail_checksum(data: bytes) -> str:
    """Of everything in a Parquet file behind its pages: page indexes, footer, magic number."""
    return f"{zlib.crc32(data):08x}"


def _wrong_size(file: ResultFile, found: Listed | None) -> str | None:
    if found is None:
        return GONE
    return None if found.bytes == file.bytes else f"has {found.bytes} bytes, was written with {file.bytes}"


def _is_known(file: ResultFile, found: Listed) -> bool:
    """Whether its footer need not be read. With another ETag it may still be whole: some stores change it with the
    storage class, and a copy elsewhere has its own."""
    return file.tail_crc is None or (file.etag is not None and file.etag == found.etag)


def _find(folder: JobFolder, files: Sequence[ResultFile]) -> dict[str, Listed]:
    paths = {file.path: locate(folder.file_path(file.path)) for file in files}
    if next(iter(paths.values())).is_local:
        return {name: Listed(size) for name, path in paths.items() if (size := _stat(path)) is not None}
    if len(paths) <= _FEW_FILES:
        with ThreadPoolExecutor(len(paths), thread_name_prefix="find-inputs") as pool:
            infos = zip(paths, pool.map(find_file, paths.values()), strict=True)
            return {name: found for name, found in infos if found is not None}
    regions: dict[str, dict[str, Location]] = {}
    for name, path in paths.items():
        regions.setdefault(name.partition("/")[0], {})[path.parent.path] = path.parent
    listings = [
        listing
        for region, parents in regions.items()
        for listing in (
            [partial(list_folder, parent) for parent in parents.values()]
            if len(parents) <= _FEW_FOLDERS
            else [partial(list_below, locate(folder.file_path(region)))]
        )
    ]
    listed: dict[str, Listed] = {}
    with ThreadPoolExecutor(min(_THREADS, len(listings)), thread_name_prefix="list-inputs") as pool:
        for found in pool.map(lambda listing: listing(), listings):
            listed |= found
    return {name: listed[key_of(path)] for name, path in paths.items() if key_of(path) in listed}


def _stat(path: Location) -> int | None:
    try:
        return os.stat(path.path).st_size  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None


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
