"""A database of each test's own on the suite's shared Spark server, whose catalog is Spark's own, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tables.catalog.warehouse import Warehouse, open_warehouse

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint


@pytest.fixture(scope="module")
def session(connect_server: ConnectEndpoint) -> Iterator[Any]:
    from airflow_abs.spark.connect.session import open_session

    with open_session(connect_server) as opened:
        yield opened


@pytest.fixture
def warehouse(session: Any, tmp_path: Path) -> Iterator[Warehouse]:
    with open_warehouse(session, tmp_path / "warehouse") as opened:
        yield opened
