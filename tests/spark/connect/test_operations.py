"""Operations on a real server: sent again, listened to by several, cut off, interrupted, released."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.spark.connect.abilities import OPERATION_STATUS, RELEASED_STAY_KNOWN, Ability
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.execute import OperationOutcome, Progress, execute_operation
from airflow_abs.spark.connect.operations import (
    Operation,
    derive_id,
    get_config,
    interrupt_operation,
    interrupt_tag,
    is_alive,
    release_operation,
    release_session,
    set_config,
)
from airflow_abs.spark.errors import (
    ConnectAccessDeniedError,
    ConnectServerUnreachableError,
    OperationCancelledError,
    OperationTakenOverError,
    OperationTimeoutError,
    TransientSparkError,
)
from tests.spark.connect_plans import query, sleep, write_parquet

pytestmark = pytest.mark.spark


@pytest.fixture
def session_id(connect_server: ConnectEndpoint) -> Any:
    """A session of the test's own, ended afterwards with all that runs in it."""
    session = derive_id("test", uuid.uuid4())
    yield session
    with_connection(connect_server, lambda connection: release_session(connection, session))


def with_connection(endpoint: ConnectEndpoint, body: Callable[[Connection], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        async with open_connection(endpoint) as connection:
            return await body(connection)

    return asyncio.run(run())


def new_operation(session_id: str, plan: bytes, *tags: str) -> Operation:
    return Operation(session_id, derive_id(session_id, uuid.uuid4()), plan, tags)


def rows(outcome: OperationOutcome) -> list[dict[str, Any]]:
    tables = [pa.ipc.open_stream(batch).read_all() for batch in outcome.arrow_batches]
    return [row for table in tables for row in table.to_pylist()]


async def until(condition: Callable[[], Awaitable[bool] | bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.05)


def test_the_same_parts_give_the_same_id_everywhere() -> None:
    assert derive_id("run", 1, "a") == derive_id("run", "1", "a") == "7862d226-2de1-5689-bf8d-9f5017407c59"
    assert derive_id("ab", "c") != derive_id("a", "bc")
    assert derive_id("a") != derive_id("a", "")
    assert uuid.UUID(derive_id()).version == 5


@pytest.mark.sample
def test_rows_of_a_relation_come_back(connect_server: ConnectEndpoint, session_id: str) -> None:
    operation = new_operation(session_id, query("SELECT id, id * 2 AS twice FROM range(3)"))
    outcome = with_connection(connect_server, lambda connection: execute_operation(connection, operation))
    assert rows(outcome) == [{"id": 0, "twice": 0}, {"id": 1, "twice": 2}, {"id": 2, "twice": 4}]
    assert 0 < outcome.seconds < 300


def test_an_operation_longer_than_a_stream_is_reattached_to(connect_server: ConnectEndpoint, session_id: str) -> None:
    seen: list[Progress] = []
    operation = new_operation(session_id, sleep(4.5))  # the test server ends streams after 2 s
    outcome = with_connection(
        connect_server, lambda connection: execute_operation(connection, operation, on_progress=seen.append)
    )
    assert outcome.reattached >= 2
    assert outcome.seconds >= 4.5
    assert len(rows(outcome)) == 1
    assert max(progress.tasks_running for progress in seen) == 1
    assert max(progress.tasks_total for progress in seen) == 1


@pytest.mark.sample
def test_sending_a_finished_write_again_replays_its_end(
    connect_server: ConnectEndpoint, session_id: str, tmp_path: Path
) -> None:
    # The write fails if its folder exists: doing it twice would show. Each send is a new event loop and channel.
    operation = new_operation(session_id, write_parquet("SELECT id FROM range(10)", tmp_path / "out"))
    for _ in range(3):
        with_connection(connect_server, lambda connection: execute_operation(connection, operation))
    assert pq.read_table(tmp_path / "out").num_rows == 10


def test_a_second_listener_takes_over_and_the_first_is_told(connect_server: ConnectEndpoint, session_id: str) -> None:
    async def body(connection: Connection) -> tuple[BaseException | None, OperationOutcome]:
        operation = new_operation(session_id, sleep(3))
        progressing = asyncio.Event()
        first = asyncio.create_task(
            execute_operation(connection, operation, on_progress=lambda _progress: progressing.set())
        )
        await asyncio.wait_for(progressing.wait(), 20)
        outcome = await execute_operation(connection, operation)
        await asyncio.wait([first], timeout=5)
        return first.exception(), outcome

    error, outcome = with_connection(connect_server, body)
    assert type(error) is OperationTakenOverError
    assert len(rows(outcome)) == 1


def test_cancelling_the_listener_leaves_the_operation_running(
    connect_server: ConnectEndpoint, session_id: str, tmp_path: Path
) -> None:
    slow = "SELECT reflect('java.lang.Thread', 'sleep', 1500L + id) FROM range(0, 1, 1, 1)"
    operation = new_operation(session_id, write_parquet(slow, tmp_path / "out"))

    async def leave(connection: Connection) -> None:
        progressing = asyncio.Event()
        listener = asyncio.create_task(
            execute_operation(connection, operation, on_progress=lambda _progress: progressing.set())
        )
        await asyncio.wait_for(progressing.wait(), 20)
        listener.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listener

    async def wait(_connection: Connection) -> None:
        await until((tmp_path / "out" / "_SUCCESS").exists)

    with_connection(connect_server, leave)
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    with_connection(connect_server, wait)
    with_connection(connect_server, lambda connection: execute_operation(connection, operation))


@pytest.mark.sample
@pytest.mark.parametrize("by", ["operation", "tag"])
def test_an_interrupted_operation_ends_as_cancelled(by: str, connect_server: ConnectEndpoint, session_id: str) -> None:
    async def body(connection: Connection) -> tuple[tuple[str, ...], Operation]:
        operation = new_operation(session_id, sleep(60), "mine")
        other = new_operation(session_id, query("SELECT 1"), "other")
        progressing = asyncio.Event()
        listener = asyncio.create_task(
            execute_operation(connection, operation, on_progress=lambda _progress: progressing.set())
        )
        await asyncio.wait_for(progressing.wait(), 20)
        await execute_operation(connection, other)
        # As from another process: it knows the ids only.
        if by == "tag":
            ended = await interrupt_tag(connection, session_id, "mine")
        else:
            ended = await interrupt_operation(connection, session_id, operation.operation_id)
        with pytest.raises(OperationCancelledError, match="Operation has been canceled"):
            await asyncio.wait_for(listener, 10)
        return ended, operation

    ended, operation = with_connection(connect_server, body)
    assert ended == (operation.operation_id,)


@pytest.mark.sample
def test_what_takes_too_long_is_interrupted_and_says_so(connect_server: ConnectEndpoint, session_id: str) -> None:
    async def body(connection: Connection) -> str:
        operation = new_operation(session_id, sleep(60))
        with pytest.raises(OperationTimeoutError) as caught:
            await execute_operation(connection, operation, timeout=1.0)
        with pytest.raises(OperationCancelledError):  # it does not run on
            await asyncio.wait_for(execute_operation(connection, operation), 10)
        return str(caught.value).replace(operation.operation_id, "ID")

    assert with_connection(connect_server, body) == (
        "Spark operation ID ran longer than the 1 s it was allowed and was interrupted; raise the limit, or lower "
        "the target bytes per subtask"
    )


@pytest.mark.sample
def test_a_released_operation_is_refused_and_releasing_twice_is_fine(
    connect_server: ConnectEndpoint, session_id: str
) -> None:
    async def body(connection: Connection) -> None:
        operation = new_operation(session_id, query("SELECT 1"))
        await execute_operation(connection, operation)
        await release_operation(connection, operation)
        await release_operation(connection, operation)
        if not (await connection.abilities()).has(RELEASED_STAY_KNOWN):
            await execute_operation(connection, operation)  # again
            return
        with pytest.raises(TransientSparkError) as caught:
            await execute_operation(connection, operation)
        assert caught.value.error_class == "INVALID_HANDLE.OPERATION_ABANDONED"

    with_connection(connect_server, body)


@pytest.mark.sample
def test_another_plan_under_a_known_id_is_refused(connect_server: ConnectEndpoint, session_id: str) -> None:
    async def body(connection: Connection) -> None:
        operation = new_operation(session_id, query("SELECT 1"))
        await execute_operation(connection, operation)
        with pytest.raises(TransientSparkError) as caught:
            await execute_operation(connection, Operation(session_id, operation.operation_id, query("SELECT 2")))
        assert caught.value.error_class == "INVALID_HANDLE.OPERATION_ALREADY_EXISTS"

    with_connection(connect_server, body)


@pytest.mark.sample
def test_releasing_a_session_ends_what_runs_in_it_and_its_id_can_be_used_again(
    connect_server: ConnectEndpoint, session_id: str
) -> None:
    async def body(connection: Connection) -> None:
        progressing = asyncio.Event()
        operation = new_operation(session_id, sleep(60))
        listener = asyncio.create_task(
            execute_operation(connection, operation, on_progress=lambda _progress: progressing.set())
        )
        await asyncio.wait_for(progressing.wait(), 20)
        await release_session(connection, session_id)
        with pytest.raises(OperationCancelledError, match=r"canceled|ended together with its session"):
            await asyncio.wait_for(listener, 10)
        await execute_operation(connection, new_operation(session_id, query("SELECT 1")))

    with_connection(connect_server, body)


@pytest.mark.sample
@pytest.mark.parametrize("lacking", [frozenset(), frozenset({OPERATION_STATUS})])
def test_an_operation_lives_until_its_session_is_released(
    connect_server: ConnectEndpoint, session_id: str, lacking: frozenset[Ability]
) -> None:
    async def body(asked: Connection) -> list[bool]:
        server = await asked.abilities()
        connection = Connection(asked.endpoint, asked.stub, replace(server, lacking=server.lacking | lacking))
        done = new_operation(session_id, query("SELECT 1"))
        lives = [await is_alive(connection, done)]  # in a session that is not there
        await execute_operation(connection, done)
        lives.append(await is_alive(connection, done))
        await release_session(connection, session_id)
        await set_config(connection, session_id, {})
        return [*lives, await is_alive(connection, done)]

    assert with_connection(connect_server, body) == [False, True, False]


@pytest.mark.sample
def test_settings_belong_to_a_session_and_may_be_set_again(connect_server: ConnectEndpoint, session_id: str) -> None:
    async def body(connection: Connection) -> list[dict[str, str | None]]:
        keys = ["spark.sql.shuffle.partitions", "spark.nobody.knows"]
        before = await get_config(connection, session_id, keys)
        for _ in range(2):
            await set_config(connection, session_id, {"spark.sql.shuffle.partitions": "7"})
        return [before, await get_config(connection, session_id, keys)]

    assert with_connection(connect_server, body) == [
        {"spark.sql.shuffle.partitions": "4", "spark.nobody.knows": None},
        {"spark.sql.shuffle.partitions": "7", "spark.nobody.knows": None},
    ]


def test_what_the_server_does_not_know_can_be_interrupted_and_released(connect_server: ConnectEndpoint) -> None:
    async def body(connection: Connection) -> tuple[str, ...]:
        nowhere = derive_id("nowhere", uuid.uuid4())
        await release_session(connection, nowhere)
        await release_operation(connection, Operation(nowhere, derive_id("x"), b""))
        return await interrupt_operation(connection, nowhere, derive_id("x"))

    assert with_connection(connect_server, body) == ()


def test_all_users_of_an_event_loop_share_one_channel(connect_server: ConnectEndpoint) -> None:
    async def body(outer: Connection) -> None:
        async with open_connection(connect_server) as inner:
            assert inner is outer
        assert (await get_config(outer, derive_id("shared"), ["spark.master"])) == {"spark.master": "local[2]"}

    with_connection(connect_server, body)


@pytest.mark.sample
def test_many_operations_are_awaited_at_once(connect_server: ConnectEndpoint, session_id: str) -> None:
    async def body(connection: Connection) -> list[OperationOutcome]:
        operations = [new_operation(session_id, query(f"SELECT {number} AS n")) for number in range(20)]
        return await asyncio.gather(*(execute_operation(connection, operation) for operation in operations))

    assert [rows(outcome)[0]["n"] for outcome in with_connection(connect_server, body)] == list(range(20))


def test_a_refused_token_is_named(connect_server: ConnectEndpoint) -> None:
    stranger = replace(connect_server, token="wrong")
    with pytest.raises(ConnectAccessDeniedError, match="refuses user 'airflow'"):
        with_connection(stranger, lambda connection: set_config(connection, derive_id(), {"spark.a": "b"}))
    with pytest.raises(ConnectAccessDeniedError, match="put the server's token into the connection"):
        with_connection(
            stranger, lambda connection: execute_operation(connection, new_operation(derive_id(), query("SELECT 1")))
        )


@pytest.mark.sample
def test_a_server_that_is_not_there_ends_in_a_named_error_within_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_abs.spark.connect.response_stream._LOSSES", 2)  # 0.2 s and 0.4 s
    endpoint = ConnectEndpoint("127.0.0.1", 1)
    started = time.monotonic()
    with pytest.raises(ConnectServerUnreachableError, match=r"no Spark Connect server reachable at 127\.0\.0\.1:1: "):
        with_connection(
            endpoint, lambda connection: execute_operation(connection, new_operation(derive_id(), query("SELECT 1")))
        )
    assert time.monotonic() - started < 30
