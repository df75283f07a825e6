"""What a server can do, by its release, and what a server that lacks an ability is told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_abs.spark.connect.abilities import (
    ABILITIES,
    IN_SUBQUERY_VALUES,
    OPERATION_STATUS,
    Abilities,
)
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.operations import Operation, is_alive
from airflow_abs.spark.connect.protocol import client_version
from airflow_abs.spark.errors import VersionMismatchError

ENDPOINT = ConnectEndpoint("spark.example")
OPERATION = Operation("session", "operation", b"")


class FakeServer:
    """The stub of a server of some release; counts what it is asked."""

    def __init__(self, release: str) -> None:
        self.release = release
        self.asked: list[str] = []

    async def AnalyzePlan(self, request: Any, **_options: Any) -> Any:
        self.asked.append(f"AnalyzePlan {request.WhichOneof('analyze')}")
        return SimpleNamespace(spark_version=SimpleNamespace(version=self.release))

    async def ReleaseSession(self, _request: Any, **_options: Any) -> None:
        self.asked.append("ReleaseSession")


def test_a_server_of_the_clients_release_lacks_nothing() -> None:
    assert Abilities.of_release(client_version()).lacking == frozenset()


@pytest.mark.parametrize(
    ("release", "lacking"),
    [
        ("4.3.0", set()),
        ("4.2.0-amzn-1", set()),
        ("4.1.4", set(ABILITIES) - {IN_SUBQUERY_VALUES}),
        ("4.0.5", set(ABILITIES)),
        ("unknown", set(ABILITIES)),
    ],
)
def test_a_release_lacks_what_came_after_it(release: str, lacking: set[Any]) -> None:
    assert Abilities.of_release(release) == Abilities(release, frozenset(lacking))


@pytest.mark.parametrize(
    ("server", "client"), [("4.2.0", "4.2.0"), ("4.2.0-SNAPSHOT", "4.2.0"), ("4.2.0+x.1", "4.2.0")]
)
def test_the_same_release_fits(server: str, client: str) -> None:
    Abilities.of_release(server).check(client)


@pytest.mark.parametrize("server", ["4.2.1", "4.3.0"])
def test_another_release_is_refused(server: str) -> None:
    with pytest.raises(VersionMismatchError) as caught:
        Abilities.of_release(server).check("4.2.0")
    assert str(caught.value) == (
        f"Spark Connect server runs Spark {server}, this Airflow has pyspark 4.2.0; expected the same version; run the "
        "server on Spark 4.2.0"
    )


def test_the_refusal_of_an_older_release_lists_what_it_lacks() -> None:
    with pytest.raises(VersionMismatchError) as caught:
        Abilities.of_release("4.1.4").check("4.2.0")
    assert str(caught.value) == (
        "Spark Connect server runs Spark 4.1.4, this Airflow has pyspark 4.2.0: it has no GetStatus, so a listener "
        "does not learn that its session was ended; errors of its Python functions have no error class; it gives sizes "
        "in settings a unit, so this client cannot send it local rows; the proof does not know how it writes "
        "explained plans; expected the same version; run the server on Spark 4.2.0"
    )


def test_a_connection_asks_for_the_release_once() -> None:
    server = FakeServer("4.1.4")
    connection = Connection(ENDPOINT, server)

    async def ask_twice() -> list[Abilities]:
        return [await connection.abilities(), await connection.abilities()]

    assert asyncio.run(ask_twice()) == [Abilities.of_release("4.1.4")] * 2
    assert server.asked == ["AnalyzePlan spark_version", "ReleaseSession"]


def test_a_server_without_the_status_of_operations_is_not_asked_for_it() -> None:
    server = FakeServer("4.1.4")
    connection = Connection(ENDPOINT, server, Abilities("4.1.4", frozenset({OPERATION_STATUS})))
    with pytest.raises(VersionMismatchError) as caught:
        asyncio.run(is_alive(connection, OPERATION))
    assert str(caught.value) == (
        "Spark Connect server runs Spark 4.1.4: it has no GetStatus, so a listener does not learn that its session was "
        "ended; run the server on Spark 4.2"
    )
    assert server.asked == []


@pytest.mark.spark
def test_a_real_server_tells_its_release(connect_server: ConnectEndpoint) -> None:
    async def ask() -> Abilities:
        async with open_connection(connect_server) as connection:
            return await connection.abilities()

    assert asyncio.run(ask()) == Abilities(client_version())
