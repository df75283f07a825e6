"""Compile a declared stream on the Connect server, and compare it with its checkpoint: for a task or a command."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_abs.exchange.sources.files import Files
from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_abs.hooks.storage import open_path
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.session_capacity import await_executors
from airflow_abs.spark.stream.compile import StreamProgram, compile_stream
from airflow_abs.spark.stream.fit import Candidate, check_fit

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint


@dataclass(frozen=True, slots=True)
class DeclaredStream:
    """A stream whose template fields are rendered.

    Args:
        program: what it does.
        checkpoint: path of its folder.
        conn_id: Airflow connection of its Spark server.
        conf: settings of its Spark session.
        resource_timeout: seconds that a cluster without executors is waited for.
    """

    program: StreamProgram
    checkpoint: str
    conn_id: str
    conf: Mapping[str, str]
    resource_timeout: float


def compile_declared(stream: DeclaredStream) -> bytes:
    """The command that starts it, see `compile_stream`, if it can resume from its checkpoint; what runs is left alone.

    Raises:
        CheckpointMisfitError: it cannot resume.
        JobGraphError, AnalysisException: it does not compile, see `compile_stream`.
        SparkOperationError: Spark does not start it, has no executor, or does not answer.
        ExchangeUnreachableError: the checkpoint cannot be read or written.
    """
    checkpoint = open_path(stream.checkpoint)
    program = stream.program
    endpoint = AdaptiveSparkHook(stream.conn_id).get_endpoint()
    with open_session(endpoint) as session:
        await_executors(session, program.who, stream.resource_timeout, endpoint.executors)
        plan = compile_stream(session, program, open_path)
    sink = open_path(program.sink.path) if isinstance(program.sink, Files) else None
    asyncio.run(_check(endpoint, Candidate(program.who, plan, stream.conf, checkpoint, sink)))
    return plan


async def _check(endpoint: ConnectEndpoint, candidate: Candidate) -> None:
    async with open_connection(endpoint) as connection:
        await check_fit(connection, candidate)
