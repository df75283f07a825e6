from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.hooks import adaptive_spark
from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook


def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the connections that Airflow was asked for."""
    asked: list[str] = []

    async def get(conn_id: str) -> Connection:
        asked.append(conn_id)
        return Connection(conn_id=conn_id, conn_type="spark_connect", host=f"{conn_id}.example", port=15002)

    monkeypatch.setattr(AdaptiveSparkHook, "aget_connection", staticmethod(get))
    return asked


def test_a_triggerer_asks_airflow_for_a_server_once_for_all_subtasks_of_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = asked_for(monkeypatch)

    async def hosts() -> list[Any]:
        names = ("one", "one", "two", "one")
        return [(await AdaptiveSparkHook(name).aget_endpoint()).host for name in names]

    assert asyncio.run(hosts()) == ["one.example", "one.example", "two.example", "one.example"]
    assert asked == ["one", "two"]


def test_the_answer_is_not_kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_for(monkeypatch)
    monkeypatch.setattr(adaptive_spark, "_ENDPOINT_SECONDS", -1.0)

    async def ask_twice() -> None:
        for _ in range(2):
            await AdaptiveSparkHook("one").aget_endpoint()

    asyncio.run(ask_twice())
    assert asked == ["one", "one"]


def endpoint_with(monkeypatch: pytest.MonkeyPatch, extra: str | None) -> Any:
    connection = Connection(conn_id="one", conn_type="spark_connect", host="one.example", extra=extra)
    monkeypatch.setattr(AdaptiveSparkHook, "get_connection", lambda *_: connection)
    return AdaptiveSparkHook("one").get_endpoint()


@pytest.mark.parametrize(
    ("extra", "allowed"),
    [(None, False), ('{"allow_untried_spark": false}', False), ('{"allow_untried_spark": true}', True)],
)
def test_the_connection_says_whether_a_release_that_nobody_has_tried_may_serve(
    monkeypatch: pytest.MonkeyPatch, extra: str | None, allowed: bool
) -> None:
    assert endpoint_with(monkeypatch, extra).allow_untried_spark is allowed


def test_it_is_said_with_true_or_false(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidValueError) as caught:
        endpoint_with(monkeypatch, '{"allow_untried_spark": "no"}')
    assert str(caught.value) == "connection 'one': its extra allow_untried_spark is 'no'; expected true or false"
