"""Whether two paths are one place, or one lies inside the other, however they are spelled.

`file:/x` and `/x`, `s3a` and `s3`, a connection before an `@`, `..`, `//` and a slash at the end make no difference; on
the local file system links are followed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from airflow_abs.exchange.sources.glob_pattern import compile_name, expand_braces, is_glob
from airflow_abs.exchange.storage.locations import LOCAL_SCHEMES, S3_SCHEMES
from airflow_abs.exchange.storage.uris import AZURE_SCHEMES, with_authority, without_connection

_SAME_SCHEME = {
    **dict.fromkeys(LOCAL_SCHEMES, "file"),
    **dict.fromkeys(S3_SCHEMES, "s3"),
    **dict.fromkeys(AZURE_SCHEMES, "abfss"),
    "gcs": "gs",
}
_HDFS_PORT = ":8020"
_TEMPLATE = re.compile(r"\{[{%#]")
_HAS_NAMES = re.compile(r"(?![A-Za-z0-9+.-]+:/*$)/*[^/]")


@dataclass(frozen=True, slots=True)
class Folder:
    """A path, split into its file system and its names, which may be patterns.

    `is_whole` is False for what is only the beginning of a path, up to its first template.
    """

    system: str
    parts: tuple[str, ...]
    is_whole: bool = True

    def is_same(self, other: Folder) -> bool:
        return other.is_whole and len(self.parts) == len(other.parts) and self.contains(other)

    def holds_files(self, folder: Folder, name: str) -> bool:
        """Whether a file of this name in a folder is, or may be, what this path means."""
        return self.contains(Folder(folder.system, (*folder.parts, name), folder.is_whole))

    def contains(self, other: Folder) -> bool:
        """Whether the other is this folder or lies in it; of patterns, whether it may be so."""
        if not self.is_whole or not _may_be_one(self.system, other.system) or len(self.parts) > len(other.parts):
            return False
        return all(map(_may_match, self.parts, other.parts))


def folders_of(path: object, *, is_source: bool = False, follow_links: bool = False) -> list[Folder]:
    """Take a path apart: one folder, several for a glob with alternatives (``{a,b}``), none for what is unknown
    before the run (an XCom, or a template up to the first name).

    Args:
        path: local or a URI; of one with a template the folders before that.
        is_source: whether it may be a glob.
        follow_links: whether links of the local file system are followed, which looks at it.
    """
    if not isinstance(path, str):
        return []
    templated = _TEMPLATE.search(path)
    if templated is not None:
        fixed = path[: templated.start()].rpartition("/")[0]
        # of `s3://{{ bucket }}` not even the file system is known; `/{{ day }}` may be anywhere
        return [_take_apart(fixed, is_whole=False, follow_links=follow_links)] if _HAS_NAMES.match(fixed) else []
    texts = expand_braces(path) if is_source and is_glob(path) else [path]
    return [_take_apart(text, is_whole=True, follow_links=follow_links and not is_glob(text)) for text in texts]


def _take_apart(path: str, *, is_whole: bool, follow_links: bool) -> Folder:
    scheme, separator, rest = without_connection(with_authority(path)).partition("://")
    if not separator:
        scheme, rest = "file", scheme
    system = _SAME_SCHEME.get(scheme.lower(), scheme.lower())
    if system == "file":
        local = os.path.abspath(rest)  # noqa: PTH100 - no link is followed here
        return Folder("file://", _names(os.path.realpath(local) if follow_links else local), is_whole)
    authority, _, name = rest.partition("/")
    authority = authority.removesuffix(_HDFS_PORT) if system == "hdfs" else authority
    return Folder(f"{system}://{authority}", _names(os.path.normpath(f"/{name}")), is_whole)


def _names(path: str) -> tuple[str, ...]:
    return tuple(part for part in PurePosixPath(path).parts if part.strip("/"))


def _may_be_one(one: str, other: str) -> bool:
    """At Azure the account of a container may be in the connection."""
    if not one.startswith("abfss://"):
        return one == other
    (container, _, account), (other_container, _, other_account) = one.partition("@"), other.partition("@")
    return container == other_container and (account == other_account or "" in (account, other_account))


def _may_match(one: str, other: str) -> bool:
    if one == other:
        return True
    return any(is_glob(p) and compile_name(p).fullmatch(name) for name, p in ((one, other), (other, one)))
