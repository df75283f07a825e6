"""Gates of managed services, before a real server: headers that they want, tokens and sessions that end meanwhile."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import Connection

from airflow_abs.hooks.remote_server import remote_endpoint
from airflow_abs.spark.access import tokens
from airflow_abs.spark.access.tokens import TokenCommand
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint, probe_blocking
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import (
    Operation,
    derive_id,
    get_config,
    release_operation,
    release_session,
    set_config,
)
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.errors import (
    ConnectAccessDeniedError,
    ConnectServerUnreachableError,
    TokenUnavailableError,
    TransientSparkError,
)
from airflow_abs.testing.examples import compare_example, generate_data
from testbed.environments import server_release
from tests.spark.access.gate import DATABRICKS_CLUSTER, DATABRICKS_SERVERLESS, PROFILES, Gate, open_gate
from tests.spark.connect_plans import query, sleep

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def passage(connect_server: ConnectEndpoint) -> Iterator[Gate]:
    with open_gate(connect_server) as gate:
        yield gate


@pytest.fixture(params=PROFILES, ids=lambda profile: profile.name)
def gate(passage: Gate, request: pytest.FixtureRequest) -> Gate:
    """Of each service; nothing asked yet, and no token good."""
    passage.profile, passage.is_idle = request.param, False
    passage.tokens, passage.asked, passage.refused, passage.agents = {}, [], [], set()
    return passage


@pytest.fixture
def managed(gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConnectEndpoint:
    """What a connection for the service gives; its tokens are what a file says when they are needed."""
    monkeypatch.setenv("AIRFLOW__ADAPTIVE_SPARK__ALLOW_TOKEN_COMMANDS", "True")
    issue(gate, tmp_path, "first")
    extra = {**gate.profile.extra, "token_command": ["cat", str(tmp_path / "token")], "user_agent": "acme-etl/7"}
    return remote_endpoint(
        Connection(
            conn_id="managed", conn_type="spark_connect", host="127.0.0.1", port=gate.port, extra=json.dumps(extra)
        )
    )


def issue(gate: Gate, folder: Path, token: str, seconds: float = 600.0) -> None:
    """This is the token now; no other one is good."""
    gate.tokens = {token: time.monotonic() + seconds}
    (folder / "token").write_text(token)


@pytest.mark.sample
def test_the_probe_sends_token_header_and_user_agent(managed: ConnectEndpoint, gate: Gate) -> None:
    assert probe_blocking(managed) == server_release()
    assert (gate.refused, gate.agents) == ([], {"acme-etl/7"})


@pytest.mark.parametrize("gate", [DATABRICKS_CLUSTER, DATABRICKS_SERVERLESS], indirect=True)
def test_a_connection_of_databricks_own_provider_gets_through(gate: Gate, tmp_path: Path) -> None:
    issue(gate, tmp_path, "personal")
    cluster = dict(gate.profile.headers).get("x-databricks-cluster-id")
    extra = {"cluster_id": cluster} if cluster else {"serverless_compute_id": "auto"}
    lake = Connection(
        conn_id="lake", conn_type="databricks", host="127.0.0.1", port=gate.port, password="personal",
        extra=json.dumps(extra),
    )  # fmt: skip
    with open_session(remote_endpoint(lake)) as session:
        assert session.range(1000).selectExpr("sum(id)").collect()[0][0] == 499500
    assert (gate.refused, gate.agents) == ([], {"airflow_abs"})


@pytest.mark.sample
def test_without_any_of_its_headers_nobody_gets_in(managed: ConnectEndpoint, gate: Gate) -> None:
    lacking = ({"headers": ()}, {"token_source": None}, {"token_header": None}, {"session_header": None})
    for without in [replace(managed, **change) for change in lacking]:  # type: ignore[arg-type]
        if without != managed:
            with pytest.raises(ConnectAccessDeniedError, match="the token has ended, or the header is missing"):
                probe_blocking(without)
    assert gate.asked == []
    assert len(gate.refused) >= 2


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
    endpoint = ConnectEndpoint("127.0.0.1", gate.port, token_source=TokenCommand(("cat", str(tmp_path / "none"))))

    async def ask() -> None:
        async with open_connection(endpoint) as connection:
            await get_config(connection, derive_id("none"), ["spark.app.name"])

    started = time.monotonic()
    for attempt in (lambda: probe_blocking(endpoint), lambda: asyncio.run(ask())):
        with pytest.raises(TokenUnavailableError, match="token_command 'cat' gave no token for the Spark server: exit"):
            attempt()
    assert time.monotonic() - started < 12  # a lost connection would be tried again for 15 s
    assert (gate.asked, gate.refused, gate.agents) == ([], [], set())


def test_a_session_that_the_service_replaced_runs_nothing_without_its_settings(
    managed: ConnectEndpoint, tmp_path: Path
) -> None:
    session, zone = derive_id("replaced", str(tmp_path)), {"spark.sql.session.timeZone": "Asia/Tokyo"}

    async def run(connection: Any, server_session: str) -> str:
        plan = query("SELECT current_timezone() AS zone")
        operation = Operation(session, str(uuid.uuid4()), plan, server_session=server_session)
        outcome = await execute_operation(connection, operation)
        (rows,) = [pa.ipc.open_stream(batch).read_all() for batch in outcome.arrow_batches]
        return str(rows["zone"][0])

    async def replace_it() -> list[str]:
        async with open_connection(managed) as connection:
            first = await set_config(connection, session, zone)
            await release_session(connection, session)  # and the next call makes another one of that id
            with pytest.raises(TransientSparkError) as caught:
                await run(connection, first)
            assert caught.value.error_class == "INVALID_HANDLE.SESSION_CHANGED"
            found = [await run(connection, await set_config(connection, session, zone))]
            await release_session(connection, session)
        return found

    assert asyncio.run(replace_it()) == ["Asia/Tokyo"]


def test_a_service_that_has_ended_the_server_is_named_with_what_it_says(managed: ConnectEndpoint, gate: Gate) -> None:
    gate.is_idle = True
    with pytest.raises(ConnectServerUnreachableError, match="the session has been terminated") as caught:
        probe_blocking(managed)
    assert caught.value.restartable


@pytest.mark.slow
def test_a_whole_job_gets_through(managed: ConnectEndpoint, gate: Gate, tmp_path: Path) -> None:
    generate_data(tmp_path / "data")
    assert compare_example("daily_revenue", tmp_path / "data", managed, 3) is None
    assert gate.refused == []
    assert {"AnalyzePlan", "Config", "ExecutePlan", "ReleaseSession"} <= set(gate.asked)
