"""Whether the files of a source are those that were listed: asked once they are read, so that no change is overlooked.

Spark reads what lies there when it reads: a file that was emptied since gives no rows, one that was replaced gives
others, both silently. Each file is asked for by itself, one request to an object store, where a listing of its
folder would grow with what others read of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from airflow_abs.exchange.sources.listing import SourceFile, locate_listed
from airflow_abs.exchange.storage.client_errors import raise_unlisted, storage_errors
from airflow_abs.exchange.storage.listings import version_of
from airflow_abs.exchange.storage.locations import Location, OpenPath

_THREADS = 16
_Found = tuple[int, str]


def find_changed(path: str, files: Sequence[SourceFile], open_path: OpenPath) -> str | None:
    """What is wrong with the first of them that is another one: ``s3a://lake/a.parquet has 0 bytes, had 2000``.

    Sizes are compared, and where both are known the versions (ETag, or the time of the last change).

    Args:
        path: of the source, as it was listed.
        files: as they were listed.
        open_path: as in `list_splits`.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    if not files:
        return None
    try:
        places = dict(zip(files, locate_listed(open_path(path), files), strict=True))
        with ThreadPoolExecutor(min(_THREADS, len(files)), thread_name_prefix="check-sources") as pool:
            found = dict(zip(files, pool.map(_ask, places.values()), strict=True))
        suspects = [file for file in files if _difference(file, found[file]) is not None]
        # as they were listed: some stores tell more, or otherwise, of one file than in a listing
        folders: dict[str, Mapping[str, _Found]] = {}
        for file in suspects:
            folder = places[file].parent
            listed = folders.get(folder.path) or folders.setdefault(folder.path, _list(folder))
            if (difference := _difference(file, listed.get(places[file].path.lstrip("/")))) is not None:
                return f"{file.path} {difference}"
    except storage_errors() as error:
        raise_unlisted(f"source {path}", error)
    return None


def _difference(file: SourceFile, found: _Found | None) -> str | None:
    if found is None:
        return "is gone"
    size, version = found
    if size != file.bytes:
        return f"has {size} bytes, had {file.bytes}"
    if version and file.version and version.strip('"') != file.version.strip('"'):
        return f"was rewritten with the same size (its version is {version}, was {file.version})"
    return None


def _ask(place: Location) -> _Found | None:
    try:
        info = place.fs.info(place.path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return int(info.get("size") or 0), version_of(info)


def _list(folder: Location) -> Mapping[str, _Found]:
    folder.forget_listings()
    try:
        listed = folder.fs.ls(folder.path, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {info["name"].lstrip("/"): (int(info.get("size") or 0), version_of(info)) for info in listed}
