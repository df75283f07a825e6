"""The files of a source on the day, the same ones that Spark finds: listed once, with sizes.

Spark's rules (tried on 4.2): names that start with `.`, or with `_` and hold no `=`, or end in `._COPYING_` are passed
over, and so are empty files. Subfolders count if they are partitions (`k=v` somewhere on the way), others only with
`recursive=True` (Spark's `recursiveFileLookup`). `{}[]*?\\` make a glob. One difference: a glob such as `*` does not
match hidden folders here, unless its own part starts with `_` or `.`. In a folder that a stream writes, only the
files named by its log count (`sink_log`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from airflow_abs.core.wording import format_count
from airflow_abs.exchange.errors import SourceNotFoundError
from airflow_abs.exchange.paths import is_hidden, uri_for_spark
from airflow_abs.exchange.publish.published_files import list_published
from airflow_abs.exchange.sources.glob_pattern import compile_name, expand_braces, is_glob, unescape_name
from airflow_abs.exchange.sources.sink_log import read_sink_log
from airflow_abs.exchange.storage.client_errors import raise_unlisted, storage_errors
from airflow_abs.exchange.storage.foreign_logs import SINK_LOG, names_in, refuse_table
from airflow_abs.exchange.storage.listings import version_of
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source: `path` as Spark's reader takes it, size in bytes (0 only if a table's kind does not know it).

    `version` is the storage's tag of its content, or the time of its last change; "" where it is not needed.
    `constants` are the values, as text, of columns that are in no file of its table, see `PinnedTable`.
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
    path: ExchangePath,
    *,
    name_pattern: str | None = None,
    recursive: bool = False,
    may_be_missing: bool = False,
    may_have_lost: bool = False,
) -> list[SourceFile]:
    """The data files of a file, a folder or a glob, sorted by path; `[]` for a folder without data.

    Spark reads the paths as they are given only with the reader option `__globPaths__` set to `false` (names may
    hold glob characters). One listing request for each folder; object stores list a whole prefix at once.

    Args:
        name_pattern: only files whose name matches (Spark's `pathGlobFilter`), such as "*.parquet".
        recursive: also subfolders that are no partitions.
        may_be_missing: what does not exist has no files.
        may_have_lost: files named by a stream's log may be gone.

    Raises:
        SourceNotFoundError: the path does not exist, the glob matches nothing, a pattern is malformed, or a file
            that a stream wrote is gone.
        DamagedFileError: see `read_sink_log`.
        ExchangeError: the folder is a table's.
        ExchangeUnreachableError: the storage refuses to list.
    """
    base = locate(path)
    base.forget_listings()
    try:
        patterns = [compile_name(alternative) for alternative in expand_braces(name_pattern)] if name_pattern else []
        files = {
            file.location.path: file
            for root in _roots(base, may_be_missing)
            for file in _files_of(root, recursive=recursive, may_have_lost=may_have_lost)
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


def _files_of(root: _Entry, *, recursive: bool, may_have_lost: bool) -> list[_Entry]:
    """The data files of one root. Spark reads all levels as soon as one folder is a partition, else only the first."""
    if not root.is_folder:
        return [root] if root.bytes and not is_hidden(root.location.name) else []
    names, found = list_published(root.location, partial(_list_below, root.location))
    refuse_table(f"source {root.location}", root.location, names)
    if SINK_LOG in names:
        logged = read_sink_log(root.location)
        root.location.forget_listings()
        _, found = _list_below(root.location)  # again, after the log: the files that it names exist by then
        if not may_have_lost and (lost := sorted(logged - found.keys())):
            raise SourceNotFoundError(
                f"source {root.location}: {format_count(len(lost), 'file')} of {len(logged)} that a stream wrote there "
                f"{'is' if len(lost) == 1 else 'are'} gone (such as {lost[0]}), according to its log {SINK_LOG}; put "
                f"them back, or read what is left with a glob, such as Files('{root.location}/*.parquet')"
            )
        found = {name: file for name, file in found.items() if name in logged}
    all_levels = recursive or any("=" in folder for name in found for folder in name.split("/")[:-1])
    return [file for name, file in found.items() if file.bytes and (all_levels or "/" not in name)]


def _list_below(folder: Location) -> tuple[set[str], dict[str, _Entry]]:
    """The names directly in a folder, and all files below it that are not hidden, by relative path."""
    if folder.is_local:
        return names_in(folder), {entry.location.relative_to(folder): entry for entry in _walk(folder)}
    infos = {
        folder.at(path).relative_to(folder): info for path, info in folder.fs.find(folder.path, detail=True).items()
    }
    shown = {
        name: _from_info(folder / name, info)
        for name, info in infos.items()
        if not any(map(is_hidden, name.split("/")))
    }
    return {name.partition("/")[0] for name in infos}, shown


def _walk(folder: Location) -> Iterator[_Entry]:
    for entry in _children(folder):
        if is_hidden(entry.location.name):
            continue
        if entry.is_folder:
            yield from _walk(entry.location)
        else:
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
    fixed, start = _starts(path, base)
    return lambda file: start + file[len(fixed) :]


def locate_listed(path: ExchangePath, files: Iterable[SourceFile]) -> list[Location]:
    """Where the files are that `list_source_files` has listed of a path."""
    base = locate(path)
    fixed, start = _starts(path, base)
    return [base.at(fixed + file.path[len(start) :]) for file in files]


def _starts(path: ExchangePath, base: Location) -> tuple[str, str]:
    """What its files' names begin with, for fsspec and for Spark."""
    fixed = _fixed_part(base).path
    return fixed, uri_for_spark(path).rstrip("/").removesuffix(base.path[len(fixed) :])
