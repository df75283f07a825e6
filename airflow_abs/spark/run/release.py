"""End a run's Spark sessions, and with them whatever still runs there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

from airflow_abs.exchange.errors import MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.records.plan import read_plan
from airflow_abs.exchange.records.tries import read_try
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.operations import release_session
from airflow_abs.spark.run.attempt import SubtaskAttempt


async def release_sessions(endpoint: ConnectEndpoint, folder: JobFolder) -> int:
    """Close the session of every attempt that the run's ledger knows; one that is closed already is fine.

    It also ends operations that nobody awaits any more: a task that is killed after its worker let go of it and before
    the triggerer took it over leaves one behind.

    Returns:
        How many sessions there were.

    Raises:
        ExchangeError: the ledger cannot be read. SparkOperationError: the server does not answer.
    """
    sessions = await asyncio.to_thread(lambda: sorted({each.session_id(folder) for each in list_attempts(folder)}))
    async with open_connection(endpoint) as connection:
        for session_id in sessions:
            await release_session(connection, session_id)
    return len(sessions)


def list_attempts(folder: JobFolder) -> Iterator[SubtaskAttempt]:
    """Every attempt that began, of all regions that were decided."""
    plan = read_plan(folder)
    for region in plan.regions:
        try:
            subtasks = read_decision(folder, region.name).decision.parallelism
        except MissingFileError:  # the run did not come so far
            continue
        for index in range(subtasks):
            for number in count(1):
                record = read_try(folder, region.name, index, number)
                if record is None:
                    break
                yield SubtaskAttempt(region.name, index, record.attempt, record.decision)
