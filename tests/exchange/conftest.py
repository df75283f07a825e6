from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from upath import UPath

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.locations import ExchangePath


@pytest.fixture(params=["path", "file", "memory", pytest.param("s3", marks=pytest.mark.slow)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ExchangePath]:
    """An empty exchange root: a `pathlib.Path`, a `file://` UPath, an object store in memory, and one behind S3."""
    if request.param == "path":
        yield tmp_path / "exchange"
    elif request.param == "file":
        yield UPath((tmp_path / "exchange").as_uri())
    elif request.param == "s3":
        yield request.getfixturevalue("s3_root")
    else:
        memory = UPath(f"memory://exchange-{uuid.uuid4().hex}")
        yield memory
        if memory.fs.exists(memory.path):
            memory.fs.rm(memory.path, recursive=True)


@pytest.fixture
def job(root: ExchangePath) -> JobFolder:
    return JobFolder(root, "daily_revenue", "scheduled__2026-01-01T00:00:00+00:00", "revenue")


@pytest.fixture
def target(root: ExchangePath) -> ExchangePath:
    return root / "mart" / "revenue" / "ds=2026-01-01"
