"""Notes that two processes leave each other on a real server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable

import pytest

from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.connect.slot_board import GONE_SECONDS, SlotBoard

pytestmark = [pytest.mark.spark, pytest.mark.sample]


def on(server: ConnectEndpoint, test: Callable[[Connection], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(120), open_connection(server) as connection:
            await test(connection)

    asyncio.run(run())


async def end_session(connection: Connection, session_id: str) -> None:
    """As the server does with a session that nobody has used for a while."""
    request = protos().ReleaseSessionRequest(session_id=session_id, user_context=connection.user_context())
    await connection.call("ReleaseSession", request)


def test_everybody_sees_what_the_others_ask_for_until_they_leave(connect_server: ConnectEndpoint) -> None:
    topic = str(uuid.uuid4())
    one, two, stranger = SlotBoard(topic), SlotBoard(topic), SlotBoard(str(uuid.uuid4()))

    async def test(connection: Connection) -> None:
        assert await one.post(connection, 3) == {one.me: 3}
        assert await two.post(connection, 150) == {one.me: 3, two.me: 150}
        assert await one.post(connection, 0) == {one.me: 0, two.me: 150}
        assert await stranger.post(connection, 1) == {stranger.me: 1}
        await two.leave(connection)
        assert await one.post(connection, 4) == {one.me: 4}

    on(connect_server, test)


def test_who_writes_no_more_is_gone_and_its_note_is_taken_away(connect_server: ConnectEndpoint) -> None:
    topic, now = str(uuid.uuid4()), [0.0]
    one, two, killed = (SlotBoard(topic, clock=lambda: now[0]) for _ in range(3))

    async def test(connection: Connection) -> None:
        await killed.post(connection, 5)
        for _ in range(3):
            now[0] += GONE_SECONDS / 2
            await two.post(connection, 1)
            assert await one.post(connection, 2) == {one.me: 2, two.me: 1, killed.me: 5}
        now[0] += GONE_SECONDS / 2
        await two.post(connection, 1)
        assert await one.post(connection, 2) == {one.me: 2, two.me: 1}
        assert await SlotBoard(topic, me="new").post(connection, 0) == {one.me: 2, two.me: 1, "new": 0}

    on(connect_server, test)


def test_they_meet_again_when_their_session_has_ended(connect_server: ConnectEndpoint) -> None:
    topic = str(uuid.uuid4())
    one, late = SlotBoard(topic), SlotBoard(topic)

    async def test(connection: Connection) -> None:
        for _ in range(2):
            await one.post(connection, 1)
            await end_session(connection, one.session_id)
        assert await one.post(connection, 2) == {one.me: 2}
        assert await late.post(connection, 3) == {one.me: 2, late.me: 3}
        assert late.session_id == one.session_id

    on(connect_server, test)
