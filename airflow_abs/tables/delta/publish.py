"""One version for each run.

The run's name stands in the table's own record of applications (`txn`), with a number that says which of its rows. The
library silently accepts the same name a second time, and retries by itself: this module handles both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import CommitProperties, RemoveAction, Transaction

from airflow_abs.tables.delta.columns import read_columns
from airflow_abs.tables.delta.data_files import NewFile
from airflow_abs.tables.delta.features import check_removable, check_writable
from airflow_abs.tables.delta.partition_values import logged_text, text_in_log
from airflow_abs.tables.delta.version import VersionFile, files_of
from airflow_abs.tables.errors import TableError, first_line
from airflow_abs.tables.publishing.run_publication import (
    DIGEST_PROPERTY,
    GENERATION_PROPERTY,
    RUN_PROPERTY,
    OvertakenError,
    RunPublication,
)
from airflow_abs.tables.sink import Published

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from airflow_abs.tables.delta.storage import TableFolder

_COUNT = "#files"
_GENERATION = "#plan"
_LOOKED_BACK = 1000
_EXPIRY = "delta.setTransactionRetentionDuration"


@dataclass(slots=True)
class VersionHead:
    """A table's newest version, and those that it came from."""

    table: DeltaTable
    _files: list[VersionFile] | None = None
    _history: list[dict[str, Any]] | None = None

    @property
    def files(self) -> list[VersionFile]:
        """All data files; listed once."""
        if self._files is None:
            adds = pa.table(self.table.get_add_actions(flatten=False))
            self._files = files_of(adds, self.table.metadata().partition_columns)
        return self._files

    @property
    def lineage(self) -> Iterator[dict[str, Any]]:
        """Of the history what led to this version, newest first: not what a RESTORE took back. One that does not say to
        which version it went is passed on, and nothing after it is certain."""
        upto: int | None = None
        for entry in self.history:
            if upto is not None and entry["version"] > upto:
                continue
            upto = restored_version(entry) if is_restore(entry) else None
            if upto is None:
                yield entry

    def reaches(self, version: int) -> bool:
        """Whether the history tells of all that was committed since another version."""
        return {entry["version"] for entry in self.history} >= set(range(version + 1, self.table.version() + 1))

    @property
    def history(self) -> list[dict[str, Any]]:
        """Of the latest entries of the log what their writers said, newest first; asked for once."""
        if self._history is None:
            self._history = self.table.history(_LOOKED_BACK)
        return self._history


@dataclass(slots=True, kw_only=True)
class VersionPublication(RunPublication[VersionHead, NewFile, VersionFile]):
    """One run's publication to one table.

    Args:
        load: the table as it is now.
        folder: of the table.
        make_files: from a prefix of names to the files, below the table's path; called once, and only if there is
            something to do.
    """

    load: Callable[[], DeltaTable]
    folder: TableFolder
    make_files: Callable[[str], Sequence[NewFile]]

    def head(self) -> VersionHead:
        """And it asks no more of a writer than it did."""
        table = self.load()
        metadata = table.metadata()
        planned, found = json.loads(self.target.schema)["fields"], read_columns(self.target.table, table).fields
        if str(metadata.id) != self.target.uuid:
            self.refuse_changed("was recreated")
        if tuple(metadata.partition_columns) != self.target.not_in_files:
            self.refuse_changed("is partitioned in another way")
        if any(each not in found for each in planned):
            self.refuse_changed("has other columns")
        check_writable(self.target.table, table, self.target.mode)
        return VersionHead(table)

    def generation(self, head: VersionHead) -> int:
        return head.table.transaction_version(self.identity + _GENERATION) or 0

    def find_done(self, head: VersionHead) -> Published | None:
        published = head.table.transaction_version(self.identity)
        if published is not None:
            is_done = published == self._number and self._still_stands(head)
            return Published(changed=False, details=self.details(head)) if is_done else None
        if self.is_known(head):
            return None
        if _EXPIRY not in head.table.metadata().configuration:
            return None
        if self.count and self.is_among(map(_name, head.files)):
            return Published(changed=False, details={"version": None})
        if (entry := self._newest(head)) is not None and entry.get(DIGEST_PROPERTY) == self.digest:
            return Published(changed=False, details={"version": entry["version"]})
        if not head.reaches(self.target.details.get("version", -1)):
            self.refuse_forgotten("names of runs and entries of the log have expired")
        return None

    def _still_stands(self, head: VersionHead) -> bool:
        """Whether no RESTORE took these rows of the run back. The record of applications survives one, so that it says
        nothing of that: the files do, or the history, where others have replaced them since.

        Raises:
            TableError: that cannot be told.
        """
        count = head.table.transaction_version(self.identity + _COUNT)
        if count and self.is_among(map(_name, head.files)):
            return True
        if not any(map(is_restore, head.history)):
            return True
        entry = self._newest(head)
        if entry is not None:
            return bool(entry.get(DIGEST_PROPERTY, self.digest) == self.digest)
        return not any(self._is_ours(each) for each in head.history)  # else it is older than all that is remembered

    def _newest(self, head: VersionHead) -> dict[str, Any] | None:
        """What the history says of the last publication of this run that no RESTORE took back."""
        for entry in head.lineage:
            if is_restore(entry):
                raise TableError(
                    f"table {self.target.table}: was restored in version {entry['version']} to "
                    f"{entry.get('operationParameters')}, and whether this run's rows were there at that moment is not "
                    "known; nothing was published. Restore it to a version by its number, or publish under a new run"
                )
            if self._is_ours(entry):
                return entry
        return None

    def _is_ours(self, entry: Mapping[str, Any]) -> bool:
        return self.publisher.owns(entry.get(RUN_PROPERTY) or "")

    def make(self, head: VersionHead, prefix: str) -> Sequence[NewFile]:
        return self.make_files(prefix)

    def is_known(self, head: VersionHead) -> bool:
        return bool(self._known(head))

    def _known(self, head: VersionHead) -> list[str]:
        """Under which identities the table has had rows of this run."""
        return [each for each in self.publisher.identities if head.table.transaction_version(each) is not None]

    @property
    def _number(self) -> int:
        """Of these rows of the run, in the table's record of applications."""
        return int(self.digest[:15], 16)

    def to_drop(self, head: VersionHead, files: Sequence[NewFile]) -> Sequence[VersionFile]:
        if self.target.mode == "overwrite":
            return head.files
        partitions = self.overwritten(files)
        mine = {file for file in head.files if self.is_ours(_name(file))}
        self._check_all_there(head, mine, partitions)
        if mine:
            check_removable(self.target.table, head.table)
        return [file for file in head.files if file in mine or file.partition in partitions]

    def _check_all_there(
        self, head: VersionHead, mine: Collection[VersionFile], partitions: set[tuple[str | None, ...]]
    ) -> None:
        """Rows of files that were rewritten can no longer be told from those of others."""
        published = sum(head.table.transaction_version(each + _COUNT) or 0 for each in self.publisher.identities)
        if published == len(mine):
            return
        entry = self._newest(head)
        if entry is None and any(map(self._is_ours, head.history)):
            return  # a RESTORE took all of it back
        there = {file.path for file in head.files}
        gone = None
        if entry is not None:
            added = self._added_by(entry["version"])
            gone = [file for file in added if file.path not in there and file.partition not in partitions]
        if gone is None or gone:
            such = f" (such as {gone[0].path})" if gone else ""
            raise TableError(
                f"table {self.target.table}: this run published {published} files of which others have since rewritten "
                f"or deleted some{such}, so its earlier rows cannot be replaced by those of today; nothing was "
                "published. Delete its rows, or restore an earlier version, and run commit again under a new run"
            )

    def _added_by(self, version: int) -> list[VersionFile]:
        """The files that an entry of the log added."""
        lines = self.folder.read(f"_delta_log/{version:020d}.json").decode().splitlines()
        adds = [entry["add"] for line in lines if "add" in (entry := json.loads(line))]
        kinds = [partition.kind for partition in self.target.partitions]
        return [
            VersionFile(
                add["path"],
                add["size"],
                tuple(
                    text_in_log(kind, add["partitionValues"].get(column))
                    for kind, column in zip(kinds, self.target.not_in_files, strict=True)
                ),
            )
            for add in adds
        ]

    def details(self, head: VersionHead) -> dict[str, Any]:
        return {"version": head.table.version() if self.is_known(head) else None}

    def replaced(self, head: VersionHead, drop: Sequence[VersionFile]) -> tuple[str, ...]:
        """As far as the log reaches."""
        return self.other_runs(map(_name, drop), lambda: (each.get(RUN_PROPERTY) for each in head.history))

    def commit(self, head: VersionHead, files: Sequence[NewFile], drop: Sequence[VersionFile]) -> dict[str, Any]:
        now = int(time.time() * 1000)
        removed = [RemoveAction(file.path, True, now, file.bytes, self._logged(file.partition)) for file in drop]
        runs = [
            Transaction(self.identity, self._number),
            Transaction(self.identity + _COUNT, len(files)),
            Transaction(self.identity + _GENERATION, self.publisher.generation),
            *(Transaction(former + _COUNT, 0) for former in self._known(head) if former != self.identity),
        ]
        told = {
            RUN_PROPERTY: self.identity,
            DIGEST_PROPERTY: self.digest,
            GENERATION_PROPERTY: str(self.publisher.generation),
        }
        try:
            head.table.create_write_transaction(
                [*(file.action for file in files), *removed],
                "append",  # of the library's modes the one that adds no actions of its own
                head.table.schema(),
                partition_by=list(self.target.not_in_files),
                commit_properties=CommitProperties(custom_metadata=told, max_commit_retries=0, app_transactions=runs),
            )
        except CommitFailedError as error:
            raise OvertakenError(first_line(error)) from error
        return {"version": head.table.version() + 1}

    def _logged(self, partition: Sequence[str | None]) -> dict[str, str | None]:
        kinds = (each.kind for each in self.target.partitions)
        texts = (logged_text(kind, text) for kind, text in zip(kinds, partition, strict=True))
        return dict(zip(self.target.not_in_files, texts, strict=True))

    def check_conflicts(self, head: VersionHead, seen: VersionHead, files: Sequence[NewFile], refusal: str) -> None:
        version = head.table.version()
        if version == seen.table.version():
            raise TableError(
                f"table {self.target.table}: deltalake refuses to commit to it, although no other commit came first: "
                f"{refusal}; nothing was published. Publish to a table without what it names"
            )
        if self.target.mode != "append":
            before = {file.path for file in seen.files}
            self.refuse_unseen(f"version {version}", [file for file in head.files if file.path not in before], files)


def is_restore(entry: Mapping[str, Any]) -> bool:
    return entry.get("operation") == "RESTORE"


def restored_version(entry: Mapping[str, Any]) -> int | None:
    """To which version a RESTORE went; None if it went to a moment."""
    version = str((entry.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdigit() else None


def _name(file: VersionFile) -> str:
    return PurePosixPath(file.path).name
