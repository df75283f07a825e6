"""A managed server's gate, before a real one: a header that it wants, and tokens that end while operations run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.spark.access import tokens
from airflow_abs.spark.access.tokens import TokenCommand
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint, probe_blocking
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import Operation, derive_id, get_config, release_operation, release_session
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.errors import ConnectAccessDeniedError, TokenUnavailableError
from tests.spark.access.gate import HEADER, Gate, open_gate
from tests.spark.connect_plans import sleep

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def passage(connect_server: ConnectEndpoint) -> Iterator[Gate]:
    with open_gate(connect_server) as gate:
        yield gate


@pytest.fixture
def gate(passage: Gate) -> Gate:
    """Nothing asked yet, and no token good."""
    passage.tokens, passage.asked, passage.refused, passage.agents = {}, [], [], set()
    return passage


@pytest.fixture
def managed(gate: Gate, tmp_path: Path) -> ConnectEndpoint:
    """Its tokens are what a file says when they are needed."""
    source = TokenCommand(("cat", str(tmp_path / "token")))
    issue(gate, tmp_path, "first")
    return ConnectEndpoint("127.0.0.1", gate.port, headers=(HEADER,), token_source=source, user_agent="acme-etl/7")


def issue(gate: Gate, folder: Path, token: str, seconds: float = 600.0) -> None:
    """This is the token now; no other one is good."""
    gate.tokens = {token: time.monotonic() + seconds}
    (folder / "token").write_text(token)


@pytest.mark.sample
def test_the_probe_sends_token_header_and_user_agent(managed: ConnectEndpoint, gate: Gate) -> None:
    assert probe_blocking(managed) == "4.2.0"
    assert (gate.refused, gate.agents) == ([], {"acme-etl/7"})


@pytest.mark.sample
@pytest.mark.parametrize("change", [{"headers": ()}, {"token_source": None}], ids=["no header", "no token"])
def test_without_header_or_token_nobody_gets_in(change: dict[str, None], managed: ConnectEndpoint, gate: Gate) -> None:
    with pytest.raises(ConnectAccessDeniedError, match="the token has ended, or the header is missing"):
        probe_blocking(replace(managed, **change))  # type: ignore[arg-type]
    assert gate.asked == []


def test_pysparks_own_client_sends_them_too(managed: ConnectEndpoint, gate: Gate) -> None:
    with open_session(managed) as session:
        assert session.range(1000).selectExpr("sum(id)").collect()[0][0] == 499500
        assert session.client._builder.userAgent.startswith("acme-etl/7 spark/4.2.0 ")
    assert {"ExecutePlan", "AnalyzePlan", "ReleaseSession"} <= set(gate.asked)
    assert (gate.refused, gate.agents) == ([], {"acme-etl/7"})


@pytest.mark.sample
def test_a_token_that_the_gate_takes_no_longer_is_had_anew_at_once(
    managed: ConnectEndpoint, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_FRESH_SECONDS", 0.0)

    async def ask() -> list[str | None]:
        found = []
        async with open_connection(managed) as connection:
            for token in ("first", "second", "third"):
                issue(gate, tmp_path, token)
                session = derive_id("gate", str(tmp_path))
                found.append((await get_config(connection, session, ["spark.app.name"]))["spark.app.name"])
            await release_session(connection, session)
        return found

    assert asyncio.run(ask()) == ["airflow-abs embedded Spark"] * 3
    assert gate.refused == ["Config", "Config"]


def test_an_operation_outlives_its_token(
    managed: ConnectEndpoint, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_FRESH_SECONDS", 0.0)
    session = derive_id("gate operation", str(tmp_path))
    operation = Operation(session, derive_id(session, "operation"), sleep(6.0))

    async def await_it() -> int:
        async with open_connection(managed) as connection:
            running = asyncio.create_task(execute_operation(connection, operation))
            while "ExecutePlan" not in gate.asked:
                await asyncio.sleep(0.05)
            issue(gate, tmp_path, "second")  # streams end after 2 s here: the next one needs it
            outcome = await running
            await release_operation(connection, operation)
            await release_session(connection, session)
        return outcome.reattached

    assert asyncio.run(asyncio.wait_for(await_it(), 120)) >= 1
    assert gate.refused == ["ReattachExecute"]
    assert gate.asked.count("ExecutePlan") == 1


def test_a_token_that_is_new_and_refused_is_no_reason_to_go_on(managed: ConnectEndpoint, gate: Gate) -> None:
    gate.tokens = {}
    with pytest.raises(ConnectAccessDeniedError) as caught:
        probe_blocking(managed)
    assert str(caught.value) == (
        f"Spark Connect server at 127.0.0.1:{gate.port} refuses user 'airflow' (the token has ended, or the header is "
        "missing); correct the source of tokens in the connection"
    )
    assert gate.refused == ["AnalyzePlan", "AnalyzePlan"]


def test_a_source_that_gives_no_token_is_named_at_once_and_nothing_is_sent(gate: Gate, tmp_path: Path) -> None:
    source = TokenCommand(("cat", str(tmp_path / "none")))
    endpoint = ConnectEndpoint("127.0.0.1", gate.port, headers=(HEADER,), token_source=source)

    async def ask() -> None:
        async with open_connection(endpoint) as connection:
            await get_config(connection, derive_id("none"), ["spark.app.name"])

    started = time.monotonic()
    for attempt in (lambda: probe_blocking(endpoint), lambda: asyncio.run(ask())):
        with pytest.raises(TokenUnavailableError, match="token_command 'cat' gave no token for the Spark server: exit"):
            attempt()
    assert time.monotonic() - started < 12  # a lost connection would be tried again for 15 s
    assert (gate.asked, gate.refused, gate.agents) == ([], [], set())
