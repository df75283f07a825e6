"""What a stream's task gives the supervision of its query."""

from __future__ import annotations

import json
from typing import NoReturn

import pytest
from airflow.sdk import BaseHook

from airflow_abs.execution.streams.stream import _options_of
from airflow_abs.spark.errors import TokenUnavailableError


def test_a_topic_without_a_connection_has_no_options() -> None:
    assert _options_of("") == {}


def test_a_mistake_in_a_connection_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", json.dumps({"conn_type": "kafka"}))
    with pytest.raises(TokenUnavailableError, match="connection 'kafka': it names no brokers; expected"):
        _options_of("kafka")


def test_what_a_secrets_backend_says_of_its_failure_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(conn_id: str) -> NoReturn:
        raise PermissionError("token s3cr3t was refused")

    monkeypatch.setattr(BaseHook, "get_connection", fail)
    with pytest.raises(TokenUnavailableError) as caught:
        _options_of("kafka")
    assert str(caught.value) == (
        "connection 'kafka' of the stream's topics: it cannot be read (PermissionError); check the connection "
        "and its secrets backend"
    )
