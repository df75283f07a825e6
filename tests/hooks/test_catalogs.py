from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

import pytest
from airflow.sdk import BaseHook, Connection

from airflow_abs.hooks.catalogs import catalog_properties


def test_the_extra_of_a_connection_is_the_catalogs_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"type": "sql", "uri": "sqlite:////lake/catalog.db", "s3.path-style-access": True}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "host": "elsewhere", "extra": extra}))
    assert catalog_properties("lake") == {
        "type": "sql",
        "uri": "sqlite:////lake/catalog.db",
        "s3.path-style-access": "True",
    }


def test_host_login_and_password_stand_for_uri_and_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {
        "conn_type": "iceberg",
        "host": "https://catalog.example.org",
        "login": "somebody",
        "password": "their-password",
        "extra": {"type": "rest"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    assert catalog_properties("lake") == {
        "type": "rest",
        "uri": "https://catalog.example.org",
        "credential": "somebody:their-password",
    }


def test_a_connection_to_postgresql_gives_what_libpq_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {
        "conn_type": "postgres",
        "host": "db.example.org",
        "port": 5433,
        "schema": "warehouse",
        "login": "somebody",
        "password": "a:b",
        "extra": {"sslmode": "require"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", json.dumps(connection))
    assert catalog_properties("warehouse") == {
        "host": "db.example.org",
        "port": "5433",
        "dbname": "warehouse",
        "user": "somebody",
        "password": "a:b",
        "sslmode": "require",
    }


def test_airflow_is_asked_for_one_connection_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In `airflow dags test` a second question at the same time is answered with "isn't defined"."""
    asked, both = Lock(), Event()

    def get_connection(conn_id: str) -> Connection:
        if not asked.acquire(blocking=False):
            both.set()
            raise AssertionError(f"{conn_id} is asked for while another one is")
        both.wait(0.2)  # long enough for the other thread to come, if it may
        asked.release()
        return Connection(conn_id=conn_id, conn_type="iceberg", extra='{"type": "sql"}')

    monkeypatch.setattr(BaseHook, "get_connection", get_connection)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(catalog_properties, ("lake", "mart"))) == [{"type": "sql"}] * 2
