"""A DataFrame session on the suite's shared server, and a cluster that has no executors at first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.empty_cluster import empty_cluster, server_on

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint
    from tests.standalone import Standalone


@pytest.fixture(scope="module")
def session(connect_server: ConnectEndpoint) -> Iterator[Any]:
    from airflow_abs.spark.connect.session import open_session

    with open_session(connect_server) as opened:
        yield opened


@pytest.fixture(scope="session", autouse=True)
def imported_airflow(airflows_logging: None) -> None:
    """Most tests here read what is logged."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master without a worker."""
    with empty_cluster(tmp_path_factory.mktemp("cluster")) as place:
        yield place


@pytest.fixture(scope="module")
def endpoint(cluster: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectEndpoint]:
    with server_on(cluster, tmp_path_factory.mktemp("server")) as endpoint:
        yield endpoint
