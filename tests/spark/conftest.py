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
def airflows_logging() -> None:
    """Airflow replaces all log handlers when it is first imported, caplog's too: not in the middle of a test."""
    import airflow  # noqa: F401
