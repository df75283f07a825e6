"""The log of a target on an object store: who is publishing and what is published, in numbered files that never change.

    <target>/_airflow_abs_commits/00000007

The file with the highest number is the truth. A new one is made only by an exclusive create under the next number, so
of all who saw the same state one goes on, however long the others were paused in between. Old files are deleted once a
higher one is there. Whoever slept until the number that it wants is deleted, too, creates it, looks again and learns
that it is not the highest: nothing of that counts, and the next publisher deletes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_abs.exchange.errors import CommitConflictError
from airflow_abs.exchange.publish.record import RECORD_NAME, CommitRecord
from airflow_abs.exchange.records.reading import Count, as_record
from airflow_abs.exchange.storage.deletion import delete_files
from airflow_abs.exchange.storage.locations import Location
from airflow_abs.exchange.storage.whole_files import create_exclusively, decode_json, encode_json

LOG_NAME = "_airflow_abs_commits"
_NUMBER = re.compile(r"\d{8}")
_READ_TRIES = 100
_WRITERS_KEPT = 32


@dataclass(frozen=True, slots=True)
class Claim:
    """Who is publishing, until when at least (epoch seconds), and under which names it puts files."""

    identity: str
    until: float
    puts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Garbage:
    """A file that has to go. `version` is the state in which it was seen if somebody else wrote it: only that goes;
    "" for names of ours, which nobody uses twice. After `keep_until` (epoch seconds) nobody looks for it any more."""

    name: str
    version: str
    keep_until: float


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One state of a target. `writers` are the tokens of who wrote it and the ones before, newest first."""

    number: int = 0
    commit: CommitRecord = field(default_factory=CommitRecord)
    claim: Claim | None = None
    garbage: tuple[Garbage, ...] = ()
    writers: tuple[str, ...] = ()

    def writer_of(self, number: int) -> str | None:
        """Whose the state of that number is; None if nobody remembers."""
        past = self.number - number
        return self.writers[past] if 0 <= past < len(self.writers) else None

    @staticmethod
    def from_json(payload: Mapping[str, Any], *, where: str) -> LogRecord:
        """Build and check a record; a DamagedFileError names the first field that is wrong."""
        stored = as_record(payload, _Stored, where=where)
        return LogRecord(
            number=stored.number,
            commit=CommitRecord.from_json(payload, where=where),
            claim=stored.claim,
            garbage=stored.garbage,
            writers=stored.writers,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            **self.commit.to_json(),
            "claim": asdict(self.claim) if self.claim else None,
            "garbage": [asdict(each) for each in self.garbage],
            "writers": list(self.writers[:_WRITERS_KEPT]),
        }


@dataclass(frozen=True, slots=True)
class _Stored:
    """A state as it is stored, besides what is published."""

    number: Count
    claim: Claim | None
    garbage: tuple[Garbage, ...]
    writers: tuple[str, ...]


class CommitLog:
    """The log of one target; `token` names the writer, and is another one for each publication."""

    def __init__(self, target: Location, token: str = "") -> None:
        self._target = target
        self._folder = target / LOG_NAME
        self._token = token

    def read(self) -> LogRecord:
        """The state that counts now; number 0 if there is no log.

        Raises:
            CommitConflictError: it changes faster than it can be read.
            DamagedFileError, IncompatibleFileError: it cannot be trusted.
        """
        for _ in range(_READ_TRIES):
            newest = self._newest()
            if newest == 0:
                return LogRecord(commit=self._before_the_log())
            content = _content(self._place(newest))
            if content is not None:
                where = str(self._place(newest))
                return LogRecord.from_json(decode_json(content, where=where), where=where)
        raise CommitConflictError(
            f"sink {self._target}: its log changed {_READ_TRIES} times while it was read; expected one publisher at a "
            "time: run this again when the others have ended"
        )

    def append(self, record: LogRecord) -> bool:
        """Make `record` the state that counts; False if there is another one of its number, or a higher one."""
        place, data = self._place(record.number), encode_json(record.to_json())
        # the store's answer may have been lost, and the client told that the file is there: then it is our own
        is_mine = create_exclusively(place, data) or _content(place) == data
        return is_mine and self._newest() == record.number

    def contains(self, record: LogRecord) -> bool:
        """Whether our `record` has counted, although a higher one is there by now."""
        return self.read().writer_of(record.number) == self._token

    def prune(self, below: int) -> None:
        """Delete what is older than the state of that number, which has counted."""
        old = [number for number in self._numbers() if number < below]
        delete_files(self._folder, [self._place(number).path for number in old])

    def _newest(self) -> int:
        return max(self._numbers(), default=0)

    def _numbers(self) -> list[int]:
        self._folder.forget_listings()
        names = [self._folder.at(str(path)).name for path in self._folder.fs.find(self._folder.path)]
        return [int(name) for name in names if _NUMBER.fullmatch(name)]

    def _place(self, number: int) -> Location:
        return self._folder / f"{number:08d}"

    def _before_the_log(self) -> CommitRecord:
        """What a version of this package without a log has published."""
        content = _content(self._target / RECORD_NAME)
        if content is None:
            return CommitRecord()
        where = str(self._target / RECORD_NAME)
        return CommitRecord.from_json(decode_json(content, where=where), where=where)


def _content(place: Location) -> bytes | None:
    try:
        return place.read_whole()
    except FileNotFoundError:
        return None
