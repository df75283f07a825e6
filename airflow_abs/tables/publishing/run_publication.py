"""One commit for each run: what a run wrote is in the table once, or not at all.

The name of the run stands in the table's own history, and in the names of its files. So the next try looks
first, and finds out how the try before ended, also if the answer to its commit was lost. Tries are our own: those
of the formats' libraries commit the same rows twice. What a format has to say: its head, its commit, and what was
committed meanwhile.
"""

from __future__ import annotations

import hashlib
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from airflow_abs.core.wording import format_count
from airflow_abs.exchange.errors import CommitConflictError, TargetBusyError
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.sink import Published

RUN_PROPERTY = "airflow-abs.run"
"""Under this name a commit says whose it is."""
DIGEST_PROPERTY = "airflow-abs.digest"
"""And under this one, which rows of the run it published."""
GENERATION_PROPERTY = "airflow-abs.plan"
"""And the number of the plan: a later plan of the run has a higher one."""

_OURS = "airflow-abs"
_TRIES = 50
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 3.0


class Partitioned(Protocol):
    """A file of a table, or one that becomes one."""

    @property
    def partition(self) -> Any:
        """Its partition values, which can be compared with those of other files of the table."""


Head = TypeVar("Head")
New = TypeVar("New", bound=Partitioned)
Old = TypeVar("Old", bound=Partitioned)


class OvertakenError(Exception):
    """Another commit came first; the format's library says how, and certainly did not commit."""


@dataclass(slots=True)
class RunPublication(ABC, Generic[Head, New, Old]):
    """One run's publication to one table.

    Args:
        target: as planned.
        publisher: whose it is, the same in every try.
        digest: tells two publications of one run apart.
        count: of the files that it will make.
        on_step: told every step that is done; what it raises stops the publication there, as a kill would.
        wait: sleeps for seconds.
    """

    target: TargetTable
    publisher: Publisher
    digest: str
    count: int
    on_step: Callable[[str], None] = lambda step: None
    wait: Callable[[float], None] = time.sleep

    def publish(self) -> Published:
        """Commit, or find that it is committed.

        Raises:
            SupersededError: a later plan of the run has published.
            CommitConflictError: others committed what this one would overwrite.
            TargetBusyError: others were faster every time.
            TableError: the table is another one by now, or what this run published before cannot be taken back.
        """
        files: Sequence[New] | None = None
        seen: Head | None = None
        refusal = ""
        for number in range(_TRIES):
            head = self.head()
            self.publisher.check_order(f"table {self.target.table}", self.generation(head))
            if (done := self.find_done(head)) is not None:
                return done
            if seen is not None:
                self.check_conflicts(head, seen, files or (), refusal)
            seen = head
            files = self._make(head) if files is None else files
            drop = self.to_drop(head, files)
            self.on_step("ready")
            if not files and not drop and not self.is_known(head):
                return Published(changed=False, details=self.details(head))
            replaced = self.replaced(head, drop)
            try:
                details = self.commit(head, files, drop)
            except OvertakenError as error:  # perhaps by ourselves: the next look tells
                refusal = str(error)
                self.on_step("overtaken")
                self.wait(random.uniform(0.5, 1) * min(_FIRST_WAIT * 2**number, _LONGEST_WAIT))  # noqa: S311
                continue
            self.on_step("committed")
            return Published(changed=True, replaced=replaced, details=details)
        raise TargetBusyError(
            f"table {self.target.table}: others committed {_TRIES} times while this run tried to; nothing was "
            "published. Run commit again when fewer of them write"
        )

    @abstractmethod
    def head(self) -> Head:
        """The table as it is now, which must be the one that was planned for (`refuse_changed`)."""

    @abstractmethod
    def generation(self, head: Head) -> int:
        """The highest that the table tells of this run."""

    @abstractmethod
    def find_done(self, head: Head) -> Published | None:
        """The outcome of an earlier try of the same digest, if that one ended."""

    @abstractmethod
    def make(self, head: Head, prefix: str) -> Sequence[New]:
        """The run's files at the table's place, under names with this prefix."""

    @abstractmethod
    def to_drop(self, head: Head, files: Sequence[New]) -> Sequence[Old]:
        """What has to go: of others by the mode, and always what this run published before."""

    def is_known(self, head: Head) -> bool:
        """Whether it has to be written down even of no files that this is what the run published last."""
        return False

    @abstractmethod
    def details(self, head: Head) -> dict[str, Any]:
        """`Published.details` where nothing is committed."""

    @abstractmethod
    def replaced(self, head: Head, drop: Sequence[Old]) -> tuple[str, ...]:
        """Other runs that these files belong to, see `other_runs`."""

    @abstractmethod
    def commit(self, head: Head, files: Sequence[New], drop: Sequence[Old]) -> dict[str, Any]:
        """One commit on top of what was seen; its `Published.details`.

        Raises:
            OvertakenError: it certainly did not happen.
            Exception: it is not known whether it did.
        """

    @abstractmethod
    def check_conflicts(self, head: Head, seen: Head, files: Sequence[New], refusal: str) -> None:
        """What came between what was seen and the head, where it would be overwritten unseen (`refuse_unseen`).

        Args:
            refusal: what the library said to the last commit.
        """

    @property
    def identity(self) -> str:
        """Under which the run is noted in the table."""
        return self.publisher.identity

    @property
    def prefix(self) -> str:
        """Of the names of all files that this run makes."""
        return prefix_of(self.identity)

    def is_ours(self, name: str, more: Iterable[str] = ()) -> bool:
        """Whether a file is of an earlier publication of this run.

        Args:
            more: further identities that are not known beforehand.
        """
        return name.startswith(tuple(map(prefix_of, (*self.publisher.identities, *more))))

    def is_among(self, names: Iterable[str]) -> bool:
        """Whether the files of a table are those that an earlier try of the same digest has made, no more and no less;
        all that can be known where the table's history forgets."""
        mine = [name for name in names if self.is_ours(name)]
        return len(mine) == self.count and all(name.startswith(self.prefix + self.digest[:12]) for name in mine)

    def other_runs(self, names: Iterable[str], runs: Callable[[], Iterable[str | None]]) -> tuple[str, ...]:
        """Those of other runs of ours that files of these names belong to.

        Args:
            runs: all that the table's history tells of; asked only if one of the files is another run's.
        """
        shorts = {name.split("-")[2] for name in names if name.startswith(f"{_OURS}-") and not self.is_ours(name)}
        known = (run for run in runs() if run and not self.publisher.owns(run)) if shorts else ()
        return tuple(dict.fromkeys(run for run in known if short_name(run) in shorts))

    def overwritten(self, files: Sequence[New]) -> set[Any]:
        """The partitions that these files take the place of."""
        return {file.partition for file in files} if self.target.mode == "overwrite_partitions" else set()

    def refuse_changed(self, what: str) -> NoReturn:
        """`what` is such as ``was recreated``."""
        raise TableError(
            f"table {self.target.table}: {what} since this run was planned, and the files were written for what it "
            "was; nothing was published. Clear the task plan and everything after it"
        )

    def refuse_forgotten(self, what: str) -> NoReturn:
        """`what` is such as ``snapshots have expired``."""
        raise TableError(
            f"table {self.target.table}: {what} since this run was planned, so whether it has published, and others "
            "since, is not known; nothing was published. If its rows are still to be published, clear the task plan "
            "and everything after it"
        )

    def refuse_unseen(self, version: str, added: Sequence[Old], files: Sequence[New]) -> None:
        """Refuse if a commit of others, such as ``version 7``, added what these files would overwrite."""
        if self.target.mode == "append":
            return
        if self.target.mode == "overwrite_partitions":
            partitions = self.overwritten(files)
            added = [file for file in added if file.partition in partitions]
        if added:
            raise CommitConflictError(
                f"table {self.target.table}: {version} was committed while this run was about to overwrite, with "
                f"{format_count(len(added), 'file')} that would be lost unseen; nothing was published. Run commit "
                "again to overwrite them, and let only one run at a time overwrite it"
            )

    def _make(self, head: Head) -> Sequence[New]:
        made = self.make(head, f"{self.prefix}{self.digest[:12]}") if self.count else ()
        self.on_step("files copied")
        return made


def short_name(identity: str) -> str:
    """Of a run, where its identity is too long or should stay private."""
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def prefix_of(identity: str) -> str:
    """Of the names of all files that a run makes."""
    return f"{_OURS}-{short_name(identity)}-"
