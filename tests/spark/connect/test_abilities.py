"""What a server can do, by its release, and what a server that lacks an ability is told."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_abs.spark.connect import abilities
from airflow_abs.spark.connect.abilities import ABILITIES, Abilities
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.protocol import client_version
from airflow_abs.spark.errors import VersionMismatchError
from testbed.environments import server_release

ENDPOINT = ConnectEndpoint("spark.example")


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
        ("4.1.4", {ability for ability in ABILITIES if ability.since == (4, 2)}),
        ("4.0.5", set(ABILITIES)),
        ("unknown", set(ABILITIES)),
    ],
)
def test_a_release_lacks_what_came_after_it(release: str, lacking: set[Any]) -> None:
    assert Abilities.of_release(release) == Abilities(release, frozenset(lacking))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other releases than those of the day, so that the rule shows."""
    monkeypatch.setattr(abilities, "TRIED", {(4, 1): (4,), (4, 2): (0, 1), (4, 3): (0,)})
    abilities._warn_once.cache_clear()


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize(
    ("server", "client"),
    [
        ("4.2.0", "4.2.0"),
        ("4.2.0-SNAPSHOT", "4.2.0"),
        ("4.2.0+x.1", "4.2.1"),
        ("4.3.0", "4.2.0"),
        ("4.1.4", "4.2.0"),
        ("4.1.4", "4.1.1"),
        ("4.3.0", "4.1.1"),
        ("4.3.0", "4.3.2"),
    ],
)
def test_what_was_tried_is_accepted_without_a_word(server: str, client: str, caplog: pytest.LogCaptureFixture) -> None:
    Abilities.of_release(server).check(client)
    assert warnings_of(caplog) == []


@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize("release", ["4.2.2", "4.1.0"])
def test_another_patch_of_a_tried_release_line_is_accepted_with_one_warning(
    release: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        Abilities.of_release(release).check("4.2.0")
    assert warnings_of(caplog) == [
        f"Spark Connect server runs Spark {release}, which was not tested with this release of airflow_abs; "
        "`airflow-abs server check` tests it"
    ]


@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize("server", ["4.4.0"])
def test_a_release_that_nobody_has_tried_is_refused_unless_the_connection_allows_it(
    server: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(VersionMismatchError) as caught:
        Abilities.of_release(server).check("4.2.0")
    assert str(caught.value) == (
        f"Spark Connect server runs Spark {server}, which was not tested with this release of airflow_abs; run the "
        "server on Spark 4.1.4, 4.2.0, 4.2.1 or 4.3.0, or run `airflow-abs server check`, and if it finds nothing "
        'wrong put "allow_untried_spark": true into the extra of the connection'
    )
    Abilities.of_release(server).check("4.2.0", allow_untried=True)
    assert len(warnings_of(caplog)) == 1


@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize(("server", "client"), [("4.1.4", "4.3.0"), ("4.2.0", "4.3.0")])
def test_an_older_release_was_tried_with_one_client_only(server: str, client: str) -> None:
    with pytest.raises(VersionMismatchError, match=r"older than pyspark 4\.3\.0 .*; run the server on Spark 4\.3\.0$"):
        Abilities.of_release(server).check(client, allow_untried=True)


def test_a_client_that_is_too_old_is_refused_whatever_the_server() -> None:
    with pytest.raises(VersionMismatchError) as caught:
        Abilities.of_release("4.2.0").check("4.0.4", allow_untried=True)
    assert str(caught.value) == (
        "this Airflow has pyspark 4.0.4; expected 4.1 or newer: pip install 'pyspark-client>=4.1', or, beside "
        "the whole of pyspark, both packages in the same version"
    )


@pytest.mark.parametrize("server", ["3.5.7", "5.0.0", "unknown"])
def test_another_major_release_is_refused(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abilities, "TRIED", {(4, 2): (0,)})
    with pytest.raises(VersionMismatchError) as caught:
        Abilities.of_release(server).check("4.2.0", allow_untried=True)
    assert str(caught.value) == (
        f"Spark Connect server runs Spark {server}, this Airflow has pyspark 4.2.0: a server of another major release "
        "silently skips parts of plans; run the server on Spark 4.2.0"
    )


def test_an_older_release_line_that_nobody_has_tried_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abilities, "TRIED", {(4, 2): (0,)})
    with pytest.raises(VersionMismatchError) as caught:
        Abilities.of_release("4.0.5").check("4.2.0", allow_untried=True)
    assert str(caught.value) == (
        "Spark Connect server runs Spark 4.0.5, which is older than pyspark 4.2.0 and was not tested with it: it would "
        "silently skip newer parts of plans; run the server on Spark 4.2.0"
    )


def test_a_connection_asks_for_the_release_once() -> None:
    server = FakeServer("4.1.4")
    connection = Connection(ENDPOINT, server)

    async def ask_twice() -> list[Abilities]:
        return [await connection.abilities(), await connection.abilities()]

    assert asyncio.run(ask_twice()) == [Abilities.of_release("4.1.4")] * 2
    assert server.asked == ["AnalyzePlan spark_version", "ReleaseSession"]


@pytest.mark.spark
def test_a_real_server_tells_its_release(connect_server: ConnectEndpoint) -> None:
    async def ask() -> Abilities:
        async with open_connection(connect_server) as connection:
            return await connection.abilities()

    assert asyncio.run(ask()) == Abilities.of_release(server_release())
