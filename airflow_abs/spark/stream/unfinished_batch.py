"""The one batch that a stopped query had begun: done by itself, so that nothing of the checkpoint is left midway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from airflow_abs.core.streaming.failures import QueryFailure
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.operations import set_config
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.stream.query import (
    Activity,
    StreamProgress,
    read_activity,
    read_failure,
    read_progress,
    start_query,
    stop_query,
)

_POLL_SECONDS = 0.2
_NEVER_AGAIN = "36500 days"
"""Spark does the first batch at once, and the next one at the next multiple of this since 1970."""


async def finish_batch(
    connection: Connection,
    session_id: str,
    conf: Mapping[str, str],
    plan: bytes,
    hold: Callable[[], Awaitable[None]],
) -> StreamProgress | QueryFailure | None:
    """Start the query, let it do its first batch, which is the one that was begun, and stop it.

    Args:
        session_id: of a session of its own, which the caller ends.
        plan: the command that starts the query.
        hold: called all the time.

    Returns:
        The batch, or why it failed; None if the query had nothing to do, or was stopped from outside.

    Raises:
        SparkOperationError: it cannot be started, or the server does not answer.
    """
    server_session = await set_config(connection, session_id, conf)
    once = protos().Plan.FromString(plan)
    once.command.write_stream_operation_start.processing_time_interval = _NEVER_AGAIN
    query = await start_query(connection, session_id, bytes(once.SerializeToString()), server_session=server_session)
    while await read_activity(connection, query) is not Activity.ENDED:
        done = await read_progress(connection, query)
        if done:
            await stop_query(connection, query)
            return done[0]
        await hold()
        await asyncio.sleep(_POLL_SECONDS)
    return await read_failure(connection, query)
