from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from upath import UPath

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.locations import ExchangePath
from tests.s3_server import S3Server


@pytest.fixture(scope="session")
def s3_of_session() -> Iterator[S3Server]:
    server = S3Server()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def s3(s3_of_session: S3Server) -> S3Server:
    """An S3 server that has counted nothing yet."""
    s3_of_session.forget()
    return s3_of_session


@pytest.fixture
def s3_root(s3: S3Server) -> UPath:
    """An empty bucket of its own on that server."""
    bucket = f"b-{uuid.uuid4().hex}"
    s3.make_bucket(bucket)
    return UPath(f"s3://{bucket}/exchange", key="k", secret="s", endpoint_url=s3.url)


@pytest.fixture(params=["path", "file", "memory", "s3"])
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
