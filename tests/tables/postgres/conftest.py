"""A PostgreSQL server of the tests' own, with a database for each test, behind the connection `warehouse`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.postgres_server import running_postgres
from tests.tables.postgres.warehouse import PASSWORD, Warehouse


@pytest.fixture(scope="session")
def postgres() -> Iterator[int]:
    with running_postgres() as port:
        yield port


@pytest.fixture
def warehouse(postgres: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warehouse]:
    server = Warehouse(postgres, "postgres")
    name = "warehouse"
    server.execute(f"CREATE DATABASE {name}")
    connection = {
        "conn_type": "postgres",
        "host": "127.0.0.1",
        "port": postgres,
        "login": "airflow",
        "password": PASSWORD,
        "schema": name,
    }
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", json.dumps(connection))
    yield Warehouse(postgres, name)
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")
