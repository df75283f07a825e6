"""What names one attempt at a subtask: its folders, its Spark session, its operations; and stopping those."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.operations import derive_id, interrupt_tag


@dataclass(frozen=True, slots=True)
class SubtaskAttempt:
    """One attempt at one subtask. `decision` is the digest of the decision that mapped it.

    Everything that goes to Spark under its name is derived, so that whoever sends it again attaches.
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
