"""How each of Airflow's tries of a subtask ended: one small file per try, beside the subtask's manifest.

A try is Airflow's; an *attempt* names folders and Spark ids. They have the same number, until a try continues with what
an earlier one left running (its worker was killed), or starts over inside itself because input was lost.
The records decide both, and how often to restart, and into how many pieces to split after running out of memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from airflow_abs.exchange.errors import DamagedFileError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.reading import Count, Positive, Seconds, as_record
from airflow_abs.exchange.storage.client_errors import raise_unlisted, storage_errors
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import read_json, write_json

TryState = Literal["running", "committed", "failed"]
_RESTARTS_PER_TRY = 1000
_TRY, _ATTEMPT = re.compile(r"try-(\d+)\.json"), re.compile(r"attempt-(\d+)/")


@dataclass(frozen=True, slots=True)
class TryRecord:
    """One try. `error` is the type of what ended it, or ""; `changed` is when this was written, in epoch seconds.

    `inputs` says which attempts of its producers it reads: under other inputs its Spark operations are others.
    """

    number: Positive
    decision: str
    attempt: Count
    inputs: str
    state: TryState
    error: str
    changed: Seconds

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(payload: Mapping[str, Any], *, where: str = "try") -> TryRecord:
        """Build and check a record; a DamagedFileError names the first field that is wrong."""
        return as_record(payload, TryRecord, where=where)


def next_attempt(attempt: int) -> int:
    """The number of the attempt that repeats this one within the same try: 2 -> 2001 -> 2002."""
    return attempt + 1 if attempt > _RESTARTS_PER_TRY else attempt * _RESTARTS_PER_TRY + 1


def last_attempt(folder: JobFolder, region: str, index: int) -> int:
    """The last attempt of the newest try of a subtask whose manifest cannot be read; 1 if nothing is known of any.

    Raises:
        ExchangeUnreachableError: the subtask's folder cannot be listed.
    """
    place = locate(folder.subtask_path(region, index))
    place.forget_listings()
    try:
        names = [place.at(str(name)).relative_to(place) for name in place.fs.find(place.path)]
    except storage_errors() as error:
        raise_unlisted(place, error)
    tries = {int(found[1]) for name in names if (found := _TRY.fullmatch(name))}
    attempts = {int(found[1]) for name in names if (found := _ATTEMPT.match(name))}
    newest = max(tries | {try_of(attempt) for attempt in attempts}, default=1)
    record = read_try(folder, region, index, newest)
    known = attempts | ({record.attempt} if record else set())
    return max((attempt for attempt in known if try_of(attempt) == newest), default=newest)


def try_of(attempt: int) -> int:
    """Airflow's try in which an attempt began: 2 -> 2, 2001 -> 2."""
    return attempt // _RESTARTS_PER_TRY if attempt > _RESTARTS_PER_TRY else attempt


def in_order(attempt: int) -> int:
    """A number that grows from one attempt of a subtask to the next: 1, 1001, 1002, 2, 2001."""
    return attempt if attempt > _RESTARTS_PER_TRY else attempt * _RESTARTS_PER_TRY


def begin_try(folder: JobFolder, region: str, index: int, number: int, *, decision: str, now: float) -> TryRecord:
    """The record of a try: as another process has left it, else a new one, which is not written yet.

    If the previous try ended without a record (its worker was killed), the Spark operations that it started may still
    run: the new try continues with its attempt. After any end that was noticed it gets an attempt of its own.
    """
    mine = read_try(folder, region, index, number)
    if mine is not None and mine.decision == decision:
        return mine
    before = [record for record in read_tries(folder, region, index, below=number) if record.decision == decision]
    if before and before[-1].state == "running":
        return replace(before[-1], number=number, changed=now)
    return TryRecord(number, decision, number, "", "running", "", now)


def end_try(folder: JobFolder, region: str, index: int, record: TryRecord, error: str, now: float) -> None:
    """Close a try: committed if there is no error."""
    ended = replace(record, state="failed" if error else "committed", error=error, changed=now)
    write_try(folder, region, index, ended)


def write_try(folder: JobFolder, region: str, index: int, record: TryRecord) -> None:
    write_json(folder.try_path(region, index, record.number), record.to_json())


def read_try(folder: JobFolder, region: str, index: int, number: int) -> TryRecord | None:
    """The record of a try; None if there is none, or none that can be read: then the try counts as never begun."""
    path = folder.try_path(region, index, number)
    try:
        return TryRecord.from_json(read_json(path), where=str(path))
    except (MissingFileError, DamagedFileError):
        return None


def read_tries(folder: JobFolder, region: str, index: int, *, below: int) -> list[TryRecord]:
    """The records of tries 1 to `below` - 1, in order, less those that are missing."""
    found = (read_try(folder, region, index, number) for number in range(1, below))
    return [record for record in found if record is not None]
