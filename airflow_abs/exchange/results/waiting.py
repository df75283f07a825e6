"""`waiting.json`: what an operation of a region wants and the cluster does not have, as a subtask saw it last.

It is a help for people, and nothing depends on it. Whoever waits writes it again at every look, so it needs no end.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from airflow_abs.exchange.errors import DamagedFileError, IncompatibleFileError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.reading import Seconds, as_record
from airflow_abs.exchange.storage.whole_files import read_json, write_json

_TOLD_SECONDS = 90.0
"""A note that is older is of a wait that is over; see `seconds_between_looks`."""


@dataclass(frozen=True, slots=True)
class _Stored:
    decision: str
    what: str
    at: Seconds


def write_waiting(folder: JobFolder, region: str, decision: str, what: str, now: float) -> None:
    """`decision` is the digest of the one that mapped the subtask; `now` in epoch seconds."""
    write_json(folder.waiting_path(region), asdict(_Stored(decision, what, now)))


def read_waiting(folder: JobFolder, region: str, decision: str, now: float) -> str | None:
    """What a subtask under this decision waits for.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    path = folder.waiting_path(region)
    try:
        stored = as_record(read_json(path), _Stored, where=str(path))
    except (MissingFileError, DamagedFileError, IncompatibleFileError):
        return None
    return stored.what if stored.decision == decision and now - stored.at < _TOLD_SECONDS else None
