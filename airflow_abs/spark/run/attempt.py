"""What names one attempt at a subtask: its folders, its Spark session, its operations; and ending those, of one attempt
or of all of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from airflow_abs.exchange.errors import MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.records.plan import read_plan
from airflow_abs.exchange.records.tries import read_try
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.operations import derive_id, interrupt_tag, release_session


@dataclass(frozen=True, slots=True)
class SubtaskAttempt:
    """One attempt at one subtask. `decision` is the digest of the decision that mapped it.

    Everything that goes to Spark under its name is derived, so that a process that sends it again attaches.
    """

    region: str
    index: int
    attempt: int
    decision: str

    def __str__(self) -> str:
        return f"{self.region}[{self.index}]"

    def session_id(self, folder: JobFolder) -> str:
        """One Spark session for all first attempts of a decision; a later attempt, which may need other settings and
        must not meet a closed session, has its own."""
        own = () if self.attempt == 1 else (self.index,)
        return derive_id(folder.dag_id, folder.run_id, folder.job, self.region, self.decision, self.attempt, *own)

    def tag(self, folder: JobFolder) -> str:
        """What all operations of this attempt carry."""
        return derive_id(self.session_id(folder), self.index)

    def operation_id(self, folder: JobFolder, step: int | str, piece: int | None = None) -> str:
        return derive_id(self.session_id(folder), self.index, step, *(() if piece is None else (piece,)))


async def interrupt_attempt(connection: Connection, folder: JobFolder, attempt: SubtaskAttempt) -> None:
    """Stop the attempt's Spark operations, if any run."""
    await interrupt_tag(connection, attempt.session_id(folder), attempt.tag(folder))


async def release_sessions(endpoint: ConnectEndpoint, folder: JobFolder) -> int:
    """Close the session of every attempt that the run's ledger knows; one that is closed already is fine.

    It also ends operations that no process awaits any more: a task that is killed after its worker let go of it and
    before the triggerer took it over leaves one behind.

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
