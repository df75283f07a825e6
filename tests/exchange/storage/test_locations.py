from __future__ import annotations

from pathlib import Path, PosixPath
from typing import Any

import pytest
from upath import UPath

from airflow_abs.exchange.storage.locations import ExchangePath, locate


def test_all_kinds_of_paths_are_taken_apart() -> None:
    paths: list[ExchangePath] = [
        Path("/a/b"),
        UPath("/a/b"),
        UPath("file:///a/b/"),
        UPath("memory://a/b"),
        UPath("file:///"),
    ]
    assert [str(locate(path)) for path in paths] == ["/a/b", "/a/b", "/a/b", "memory://a/b", "/"]


class OldUPath(PosixPath):
    """Stands for a UPath of universal-pathlib 0.2, which Airflow 3.1 has: a `Path`, whatever its protocol."""

    @property
    def fs(self) -> Any:
        return UPath("memory://").fs

    @property
    def path(self) -> str:
        return "/a/b"


def test_a_upath_that_is_also_a_path_is_where_its_file_system_is() -> None:
    assert str(locate(OldUPath("memory:/a/b"))) == "memory://a/b"


def test_a_location_can_be_walked_like_a_path() -> None:
    location = locate(Path("/a/b"))
    assert (location.name, str(location.parent), str(location / "c"), location.local) == (
        "b",
        "/a",
        "/a/b/c",
        Path("/a/b"),
    )
    assert (location / "c" / "d").relative_to(location) == "c/d"
    assert locate(location) is location


def test_an_object_store_has_no_local_path() -> None:
    with pytest.raises(ValueError, match="memory://a/b is not on a local file system"):
        _ = locate(UPath("memory://a/b")).local


def test_a_path_elsewhere_is_not_below() -> None:
    with pytest.raises(ValueError, match="is not in the subpath of"):
        locate(Path("/a/b")).relative_to(locate(Path("/c")))
