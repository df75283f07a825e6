"""The files of a source on the day, the same ones that Spark finds: listed once, with sizes.

Spark's rules (tried on 4.2): names that start with `.`, or with `_` and hold no `=`, or end in `._COPYING_` are passed
over, and so are empty files. Subfolders count if they are partitions (`k=v` somewhere on the way), others only with
`recursive=True` (Spark's `recursiveFileLookup`). `{}[]*?\\` make a glob. One difference: a glob such as `*` does not
match hidden folders here, unless its own part starts with `_` or `.`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from airflow_abs.exchange.errors import SourceNotFoundError
from airflow_abs.exchange.paths import is_hidden, uri_for_spark
from airflow_abs.exchange.sources.glob_pattern import compile_name, expand_braces, is_glob, unescape_name
from airflow_abs.exchange.storage.client_errors import raise_unlisted, storage_errors
from airflow_abs.exchange.storage.listings import version_of
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source: `path` as Spark's reader takes it, size in bytes (0 only if a table's kind does not know it).

    `version` is the storage's tag of its content, or the time of its last change; "" where it was not asked for.
    `constants` are texts of the values of columns that are in no file of its table, see `PinnedTable`.
    """

    path: str
    bytes: int
    version: str = field(default="", compare=False)
    constants: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    location: Location
    bytes: int
    is_folder: bool
    version: str


def list_source_files(
    path: ExchangePath, *, name_pattern: str | None = None, recursive: bool = False, may_be_missing: bool = False
) -> list[SourceFile]:
    """The data files of a file, a folder or a glob, sorted by path; `[]` for a folder without data.

    Spark reads the paths as they are given only with the reader option `__globPaths__` set to `false` (names may
    hold glob characters). One listing request for each folder; object stores list a whole prefix at once.

    Args:
        name_pattern: only files whose name matches (Spark's `pathGlobFilter`), such as "*.parquet".
        recursive: also subfolders that are no partitions.
        may_be_missing: what does not exist has no files.

    Raises:
        SourceNotFoundError: the path does not exist, the glob matches nothing, or a pattern is malformed.
        ExchangeUnreachableError: the storage refuses to list.
    """
    base = locate(path)
    base.forget_listings()
    try:
        patterns = [compile_name(alternative) for alternative in expand_braces(name_pattern)] if name_pattern else []
        files = {
            file.location.path: file
            for root in _roots(base, may_be_missing)
            for file in _files_of(root, recursive=recursive)
        }
    except ValueError as error:
        raise SourceNotFoundError(f"source {path}: {error}; escape it with a backslash or close it") from error
    except storage_errors() as error:
        raise_unlisted(f"source {path}", error)
    uri = _uri_in_source(path, base)
    return [
        SourceFile(uri(path), file.bytes, file.version)
        for path, file in sorted(files.items())
        if not patterns or any(pattern.fullmatch(PurePosixPath(path).name) for pattern in patterns)
    ]


def _roots(base: Location, may_be_missing: bool) -> list[_Entry]:
    """What the path stands for: itself, or what the glob matches."""
    if not is_glob(base.path):
        entry = _entry(base)
        if entry is not None:
            return [entry]
        return [] if may_be_missing else _not_found(base)
    found = {
        entry.location.path: entry
        for alternative in expand_braces(base.path)
        for entry in _glob(base.at("/" if base.path.startswith("/") else ""), PurePosixPath(alternative).parts)
    }
    if not found and not may_be_missing:
        _not_found(base)
    return [found[path] for path in sorted(found)]


def _glob(folder: Location, parts: tuple[str, ...]) -> Iterator[_Entry]:
    parts = parts[1:] if parts[:1] == ("/",) else parts
    plain = 0
    while plain < len(parts) and not is_glob(parts[plain]):
        plain += 1
    for part in parts[:plain]:
        folder = folder / part if folder.path else folder.at(part)
    if plain == len(parts):
        entry = _entry(folder)
        if entry is not None:
            yield entry
        return
    pattern = compile_name(parts[plain])
    shows_hidden = unescape_name(parts[plain]).startswith(("_", "."))
    for entry in _children(folder):
        name = entry.location.name
        if pattern.fullmatch(name) and (shows_hidden or not is_hidden(name)):
            if plain == len(parts) - 1:
                yield entry
            elif entry.is_folder:
                yield from _glob(entry.location, parts[plain + 1 :])


def _files_of(root: _Entry, *, recursive: bool) -> list[_Entry]:
    """The data files of one root. Spark reads all levels as soon as one folder is a partition, else only the first."""
    if not root.is_folder:
        return [root] if root.bytes and not is_hidden(root.location.name) else []
    found = [(file, file.location.relative_to(root.location).split("/")) for file in _walk(root.location)]
    all_levels = recursive or any("=" in folder for _, parts in found for folder in parts[:-1])
    return [file for file, parts in found if file.bytes and (all_levels or len(parts) == 1)]


def _walk(folder: Location) -> Iterator[_Entry]:
    if folder.is_local:
        for entry in _children(folder):
            if is_hidden(entry.location.name):
                continue
            if entry.is_folder:
                yield from _walk(entry.location)
            else:
                yield entry
        return
    for name, info in folder.fs.find(folder.path, detail=True).items():
        entry = _from_info(folder.at(name), info)
        if not any(is_hidden(part) for part in entry.location.relative_to(folder).split("/")):
            yield entry


def _children(folder: Location) -> list[_Entry]:
    try:
        listed = folder.fs.ls(folder.path, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    entries = [_from_info(folder.at(info["name"].rstrip("/")), info) for info in listed]
    return [entry for entry in entries if entry.location.path != folder.path.rstrip("/")]


def _entry(location: Location) -> _Entry | None:
    try:
        return _from_info(location, location.fs.info(location.path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _from_info(location: Location, info: dict[str, Any]) -> _Entry:
    is_folder = info["type"] == "directory" or (bool(info.get("islink")) and location.local.is_dir())
    return _Entry(location, int(info.get("size") or 0), is_folder, version_of(info))


def _not_found(base: Location) -> list[_Entry]:
    nearest = _fixed_part(base)
    while nearest.path not in ("/", "", ".") and _entry(nearest) is None:
        nearest = nearest.parent
    names = sorted(entry.location.name for entry in _children(nearest))
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    raise SourceNotFoundError(
        f"source {base}: matches nothing; expected a file, a folder or a glob. {nearest} holds "
        f"{shown or 'nothing'}: check the path and the date in it, or declare Files(..., missing='empty', "
        "schema='...') if there may be none"
    )


def _fixed_part(base: Location) -> Location:
    """The longest parent that is no glob."""
    while is_glob(base.path):
        base = base.parent
    return base.at("" if base.path in ("/", ".") else base.path)


def _uri_in_source(path: ExchangePath, base: Location) -> Callable[[str], str]:
    """Turns fsspec's name of a file below the source into what Spark takes: the source's own URI, gone on."""
    fixed = _fixed_part(base).path
    start = uri_for_spark(path).rstrip("/").removesuffix(base.path[len(fixed) :])
    return lambda file: start + file[len(fixed) :]
