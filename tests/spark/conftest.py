"""A DataFrame session for tests that compile, on the suite's shared server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint


@pytest.fixture(scope="module")
def session(connect_server: ConnectEndpoint) -> Iterator[Any]:
    from airflow_abs.spark.connect.session import open_session

    with open_session(connect_server) as opened:
        yield opened


@pytest.fixture(scope="session", autouse=True)
def imported_airflow(airflows_logging: None) -> None:
    """Most tests here read what is logged."""
