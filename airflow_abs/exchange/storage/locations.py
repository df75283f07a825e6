"""Where a path lives: one way to reach bytes behind `pathlib.Path`, `UPath` and Airflow's `ObjectStoragePath`.

fsspec is imported by the first call, not by importing this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

LOCAL_SCHEMES = ("file", "local")
S3_SCHEMES = ("s3", "s3a", "s3n")
"""All of them mean S3; on Airflow's side the provider of Amazon knows all three."""


class ExchangePath(Protocol):
    """What the exchange needs of a path; `pathlib.Path`, `UPath` and `ObjectStoragePath` all have it."""

    @property
    def name(self) -> str: ...

    @property
    def parent(self) -> Self: ...

    def __truediv__(self, key: str, /) -> Self: ...


OpenPath = Callable[[str], ExchangePath]
"""Opens a path, or a URI that may name an Airflow connection; nothing is read."""


class _FsspecPath(Protocol):
    @property
    def fs(self) -> AbstractFileSystem: ...

    @property
    def path(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Location:
    """A path taken apart: the fsspec file system and the path string inside it (no scheme, no trailing slash)."""

    fs: AbstractFileSystem
    path: str

    @property
    def scheme(self) -> str:
        protocol = self.fs.protocol
        return str(protocol) if isinstance(protocol, str) else str(protocol[0])

    @property
    def is_local(self) -> bool:
        return self.scheme in LOCAL_SCHEMES

    @property
    def local(self) -> Path:
        """The same place as a `pathlib.Path`; only for local locations."""
        if not self.is_local:
            raise ValueError(f"{self} is not on a local file system")
        return Path(self.path)

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def parent(self) -> Location:
        return Location(self.fs, str(PurePosixPath(self.path).parent))

    def __truediv__(self, key: str) -> Location:
        return Location(self.fs, f"{self.path.rstrip('/')}/{key}")

    def at(self, path: str) -> Location:
        """Another path on the same file system."""
        return Location(self.fs, path)

    def relative_to(self, folder: Location) -> str:
        """This path below `folder`, with `/` between its parts; a ValueError if it is not below."""
        return str(PurePosixPath(self.path).relative_to(PurePosixPath(folder.path)))

    def read_whole(self) -> bytes:
        """The content of a file that is not big, in one request: S3's client would first ask for the size."""
        whole = {"max_concurrency": 1} if self.scheme in S3_SCHEMES else {}
        return bytes(self.fs.cat_file(self.path, **whole))

    def forget_listings(self) -> None:
        """Drop fsspec's cached listings: Spark and other processes write here too."""
        self.fs.invalidate_cache()

    def __str__(self) -> str:
        return self.path if self.is_local else f"{self.scheme}://{self.path.lstrip('/')}"


def locate(path: ExchangePath) -> Location:
    """Take a path apart. A `Location` comes back as it is; nothing is read."""
    if isinstance(path, Location):
        return path
    if isinstance(path, Path) and not hasattr(path, "fs"):  # a UPath of universal-pathlib below 0.3 is a Path, too
        return Location(_local_files(), os.path.abspath(path))  # noqa: PTH100  (no symlink is resolved here)
    return _locate_fsspec(path)  # type: ignore[arg-type]  # every other path we accept is a UPath


@cache
def _local_files() -> AbstractFileSystem:
    from fsspec.implementations.local import LocalFileSystem

    return LocalFileSystem()


def _locate_fsspec(path: _FsspecPath) -> Location:
    fs, text = path.fs, path.path
    _keep_no_listings(fs)
    return Location(fs, text.rstrip("/") or "/")


def _keep_no_listings(fs: AbstractFileSystem) -> None:
    """Let a file system ask its storage every time: a listing that it kept hides what others have written since, also
    from a plain read."""
    kept: Any = getattr(fs, "dircache", None)
    if getattr(kept, "use_listings_cache", False):
        kept.use_listings_cache = False
        fs.invalidate_cache()


def modified_seconds(info: Mapping[str, Any]) -> float | None:
    """Unix time of the last change from an fsspec detail entry, or None if this file system does not say."""
    from datetime import datetime

    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        match info.get(key):
            case int() | float() as seconds:
                return float(seconds)
            case datetime() as moment:
                return moment.timestamp()
            case str() as text:
                return datetime.fromisoformat(text).timestamp()
    return None
