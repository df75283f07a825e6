"""Folders as their storage lists them: size by path, and on object stores a tag of the content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from airflow_abs.exchange.storage.locations import Location, modified_seconds


@dataclass(frozen=True, slots=True)
class Listed:
    """A file. `etag` is what an object store says of its content: other content has another one; None elsewhere."""

    bytes: int
    etag: str | None = None


def find_file(path: Location) -> Listed | None:
    """One file, by a request that stores bill at a twelfth of a listing; None if it is not there."""
    path.forget_listings()
    try:
        found = path.fs.info(path.path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Listed(int(found["size"]), etag_of(found)) if found["type"] == "file" else None


def list_folder(folder: Location) -> dict[str, Listed]:
    """The files in a folder, by their path without a slash in front; nothing if there is no such folder."""
    folder.forget_listings()
    try:
        return _by_path(folder.fs.ls(folder.path, detail=True))
    except (FileNotFoundError, NotADirectoryError):
        return {}


def list_below(folder: Location) -> dict[str, Listed]:
    """The files in a folder and in all below it; object stores list up to 1,000 in one request."""
    folder.forget_listings()
    return _by_path(folder.fs.find(folder.path, detail=True).values())


def key_of(location: Location) -> str:
    """The path of a file as these listings have it."""
    return location.path.lstrip("/")


def find_infos(folder: Location) -> dict[str, dict[str, Any]]:
    """The files in a folder and in all below it, by relative path, as their file system describes them."""
    folder.forget_listings()
    found = folder.fs.find(folder.path, detail=True)
    return {folder.at(path).relative_to(folder): info for path, info in found.items() if not stands_for_folder(path)}


def stands_for_folder(path: str) -> bool:
    """Whether a listed path is no file: Hadoop and the stores' consoles make an empty object with a slash at its end
    for a folder without files, and leave it when there are some."""
    return path.endswith("/")


def etag_of(info: Mapping[str, Any]) -> str | None:
    """What an object store says of an object's content, from an fsspec detail entry."""
    found = info.get("ETag") or info.get("etag")
    return str(found) if found else None


def version_of(info: Mapping[str, Any]) -> str:
    """The tag of an object's content, or the time of a file's last change; "" where the storage tells neither."""
    return etag_of(info) or str(modified_seconds(info) or "")


def _by_path(entries: Iterable[Mapping[str, Any]]) -> dict[str, Listed]:
    return {
        str(PurePosixPath(entry["name"])).lstrip("/"): Listed(int(entry.get("size") or 0), etag_of(entry))
        for entry in entries
    }
