"""The log of a target on an object store: who is publishing and what is published, in numbered files that never change.

    <target>/_airflow_abs_commits/00000007

How one state follows another: `exchange/storage/numbered_log.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_abs.exchange.publish.record import LOG_NAME, RECORD_NAME, CommitRecord
from airflow_abs.exchange.records.reading import Count, Seconds, as_record
from airflow_abs.exchange.storage.locations import Location
from airflow_abs.exchange.storage.numbered_log import NumberedLog
from airflow_abs.exchange.storage.whole_files import decode_json, encode_json

_WRITERS_KEPT = 32


@dataclass(frozen=True, slots=True)
class Claim:
    """Who is publishing, until when at least (epoch seconds), and under which names it puts files."""

    identity: str
    until: Seconds
    puts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Garbage:
    """A file to delete. `version` is the state in which it was seen if others wrote it: only that state is deleted; ""
    for names of ours, which are unique. After `keep_until` (epoch seconds) the file is forgotten."""

    name: str
    version: str
    keep_until: Seconds


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One state of a target. `writers` are the tokens of who wrote it and the ones before, newest first."""

    number: Count = 0
    commit: CommitRecord = field(default_factory=CommitRecord)
    claim: Claim | None = None
    garbage: tuple[Garbage, ...] = ()
    writers: tuple[str, ...] = ()

    @property
    def unpublished(self) -> frozenset[str]:
        """Names under which files of ours may lie there that are not, or no longer, published."""
        puts = self.claim.puts if self.claim is not None else ()
        return frozenset((*puts, *(each.name for each in self.garbage)))

    def writer_of(self, number: int) -> str | None:
        """The publisher of the state of that number; None if that is not recorded."""
        past = self.number - number
        return self.writers[past] if 0 <= past < len(self.writers) else None

    @staticmethod
    def from_json(payload: Mapping[str, Any], *, where: str) -> LogRecord:
        """Build and check a record; a DamagedFileError names the first field that is wrong."""
        return as_record(payload, LogRecord, where=where, required=("number", "commit", "writers"))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "writers": self.writers[:_WRITERS_KEPT]}


class CommitLog:
    """The log of one target; `token` names the writer, and is another one for each publication."""

    def __init__(self, target: Location, token: str = "") -> None:
        self._target = target
        self._log = NumberedLog(target / LOG_NAME, f"sink {target}")
        self._token = token

    def read(self) -> LogRecord:
        """The state that counts now; number 0 if there is no log.

        Raises:
            TargetBusyError: it changes faster than it can be read.
            DamagedFileError, IncompatibleFileError: it cannot be trusted.
        """
        found = self._log.read()
        if found is None:
            return LogRecord(commit=self._before_the_log())
        number, content = found
        where = str(self._log.place(number))
        return LogRecord.from_json(decode_json(content, where=where), where=where)

    def append(self, record: LogRecord) -> bool:
        """Make `record` the state that counts; False if there is another one of its number, or a higher one."""
        return self._log.append(record.number, encode_json(record.to_json()))

    def contains(self, record: LogRecord) -> bool:
        """Whether our `record` has counted, although a higher one is there by now."""
        return self.read().writer_of(record.number) == self._token

    def prune(self, below: int) -> None:
        """Delete what is older than the state of that number, which has counted."""
        self._log.prune(below)

    def _before_the_log(self) -> CommitRecord:
        """What a version of this package without a log has published."""
        place = self._target / RECORD_NAME
        try:
            content = place.read_whole()
        except FileNotFoundError:
            return CommitRecord()
        return CommitRecord.from_json(decode_json(content, where=str(place)), where=str(place))
