"""One version for each run: what a run wrote is in the table once, or not at all.

The run's name stands in the table's own record of applications (`txn`), with a number that says which of its rows, and
in the names of its files. So whoever tries again looks first, and finds out what became of the try before. The library
takes the same name a second time without a word, and tries again by itself: both is ours to see to.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import CommitProperties, RemoveAction, Transaction

from airflow_abs.exchange.errors import CommitConflictError
from airflow_abs.tables.delta.columns import read_columns
from airflow_abs.tables.delta.features import check_removable, check_writable
from airflow_abs.tables.delta.partition_values import logged_text, text_in_log
from airflow_abs.tables.delta.version import VersionFile, files_of
from airflow_abs.tables.errors import TableError, first_line

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from airflow_abs.exchange.publish.target_table import TargetTable
    from airflow_abs.tables.delta.data_files import NewFile
    from airflow_abs.tables.delta.storage import TableFolder

RUN_PROPERTY = "airflow-abs.run"

_COUNT = "#files"
_TRIES = 50
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 3.0
_LOOKED_BACK = 1000
_EXPIRY = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True, slots=True)
class Committed:
    """`version` is None if there was nothing to write down; `replaced` are other runs whose files went."""

    version: int | None
    changed: bool
    replaced: tuple[str, ...] = ()


@dataclass(slots=True)
class VersionPublication:
    """One run's publication to one table.

    Args:
        target: as planned.
        identity: names the run and the sink, the same in every try.
        digest: tells two publications of one run apart.
        load: the table as it is now.
        folder: of the table.
        make_files: from a prefix of names to the files, below the table's path; called once, and only if there is
            something to do.
        count: of the files that it will make.
        on_step: told every step that is done; what it raises stops the publication there, as a kill would.
        wait: sleeps for seconds.
    """

    target: TargetTable
    identity: str
    digest: str
    load: Callable[[], DeltaTable]
    folder: TableFolder
    make_files: Callable[[str], Sequence[NewFile]]
    count: int
    on_step: Callable[[str], None] = lambda step: None
    wait: Callable[[float], None] = time.sleep

    def publish(self) -> Committed:
        """Commit, or find that it is committed.

        Raises:
            CommitConflictError: others committed what this one would overwrite, or never let it through.
            TableError: the table is another one by now, or what this run published before cannot be taken back.
        """
        files: Sequence[NewFile] | None = None
        seen: _Head | None = None
        refusal = ""
        for number in range(_TRIES):
            table = self.load()
            self._check_table(table)
            head = _Head(table)
            if (done := self._find_done(head)) is not None:
                return done
            if seen is not None:
                self._check_conflicts(head, seen, files or (), refusal)
            seen = head
            files = self._make() if files is None else files
            drop = self._to_drop(head, files)
            self.on_step("ready")
            if not files and not drop and head.table.transaction_version(self.identity) is None:
                return Committed(None, changed=False)
            replaced = self._runs_of(head, drop)
            try:
                self._commit(table, files, drop)
            except CommitFailedError as error:  # perhaps overtaken by ourselves: the next look tells
                refusal = first_line(error)
                self.on_step("overtaken")
                self.wait(random.uniform(0.5, 1) * min(_FIRST_WAIT * 2**number, _LONGEST_WAIT))  # noqa: S311
                continue
            self.on_step("committed")
            return Committed(table.version() + 1, changed=True, replaced=replaced)
        raise CommitConflictError(
            f"table {self.target.table}: others committed {_TRIES} times while this run tried to; nothing was "
            "published. Run commit again when fewer of them write"
        )

    @property
    def _prefix(self) -> str:
        """Of the names of all files of this run."""
        return f"airflow-abs-{_short(self.identity)}-"

    @property
    def _number(self) -> int:
        """Of these rows of the run, in the table's record of applications."""
        return int(self.digest[:15], 16)

    def _make(self) -> Sequence[NewFile]:
        made = self.make_files(f"{self._prefix}{self.digest[:12]}") if self.count else ()
        self.on_step("files copied")
        return made

    def _check_table(self, table: DeltaTable) -> None:
        """It is the one that was planned for, and asks no more of a writer than it did."""
        metadata = table.metadata()
        planned, found = json.loads(self.target.schema)["fields"], read_columns(self.target.table, table).fields
        if str(metadata.id) != self.target.uuid:
            what = "was made anew"
        elif tuple(metadata.partition_columns) != self.target.not_in_files:
            what = "is partitioned in another way"
        elif any(each not in found for each in planned):
            what = "has other columns"
        else:
            return check_writable(self.target.table, table, self.target.mode)
        raise TableError(
            f"table {self.target.table}: {what} since this run was planned, and the files were written for what it "
            "was; nothing was published. Clear the task plan and everything after it"
        )

    def _find_done(self, head: _Head) -> Committed | None:
        published = head.table.transaction_version(self.identity)
        if published is not None:
            return Committed(head.table.version(), changed=False) if published == self._number else None
        if not self.count or _EXPIRY not in head.table.metadata().configuration:
            return None
        found = [name for file in head.files if (name := _name(file)).startswith(self._prefix)]
        same = len(found) == self.count and all(name.startswith(self._prefix + self.digest[:12]) for name in found)
        return Committed(None, changed=False) if same else None

    def _to_drop(self, head: _Head, files: Sequence[NewFile]) -> list[VersionFile]:
        """What has to go: of others by the mode, and always what this run published before."""
        if self.target.mode == "overwrite":
            return head.files
        overwrites = self.target.mode == "overwrite_partitions"
        partitions = {file.partition for file in files} if overwrites else set()
        mine = {file for file in head.files if _name(file).startswith(self._prefix)}
        self._check_all_there(head, mine, partitions)
        if mine:
            check_removable(self.target.table, head.table)
        return [file for file in head.files if file in mine or file.partition in partitions]

    def _check_all_there(
        self, head: _Head, mine: Collection[VersionFile], partitions: set[tuple[str | None, ...]]
    ) -> None:
        """Rows of files that were rewritten can no longer be told from those of others."""
        published = head.table.transaction_version(self.identity + _COUNT) or 0
        if published == len(mine):
            return
        entry = next((each for each in head.history if each.get(RUN_PROPERTY) == self.identity), None)
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

    def _check_conflicts(self, head: _Head, seen: _Head, files: Sequence[NewFile], refusal: str) -> None:
        """What was committed while this publication was under way, where it would be overwritten unseen."""
        if head.table.version() == seen.table.version():
            raise TableError(
                f"table {self.target.table}: deltalake does not commit to it, though nobody came first: {refusal}; "
                "nothing was published. Publish to a table without what it names"
            )
        if self.target.mode == "append":
            return
        before = {file.path for file in seen.files}
        added = [file for file in head.files if file.path not in before]
        if self.target.mode == "overwrite_partitions":
            partitions = {file.partition for file in files}
            added = [file for file in added if file.partition in partitions]
        if added:
            raise CommitConflictError(
                f"table {self.target.table}: version {head.table.version()} was committed while this run was about to "
                f"overwrite, with {len(added)} files that would be lost unseen; nothing was published. Run commit "
                "again if they are to be overwritten, and let one run at a time write what it overwrites"
            )

    def _runs_of(self, head: _Head, drop: Sequence[VersionFile]) -> tuple[str, ...]:
        """Other runs of ours that some files belong to, as far as the log reaches."""
        names = {name.split("-")[2] for file in drop if (name := _name(file)).startswith("airflow-abs-")}
        if names <= {_short(self.identity)}:
            return ()
        runs = dict.fromkeys(run for each in head.history if (run := each.get(RUN_PROPERTY)))
        return tuple(run for run in runs if run != self.identity and _short(run) in names)

    def _commit(self, table: DeltaTable, files: Sequence[NewFile], drop: Sequence[VersionFile]) -> None:
        """One version.

        Raises:
            CommitFailedError: another one came first.
            Exception: nobody knows whether it happened.
        """
        now = int(time.time() * 1000)
        removed = [RemoveAction(file.path, True, now, file.bytes, self._logged(file.partition)) for file in drop]
        runs = [Transaction(self.identity, self._number), Transaction(self.identity + _COUNT, len(files))]
        table.create_write_transaction(
            [*(file.action for file in files), *removed],
            "append",  # of the library's modes the one that adds no actions of its own
            table.schema(),
            partition_by=list(self.target.not_in_files),
            commit_properties=CommitProperties(
                custom_metadata={RUN_PROPERTY: self.identity}, max_commit_retries=0, app_transactions=runs
            ),
        )

    def _logged(self, partition: Sequence[str | None]) -> dict[str, str | None]:
        kinds = (each.kind for each in self.target.partitions)
        texts = (logged_text(kind, text) for kind, text in zip(kinds, partition, strict=True))
        return dict(zip(self.target.not_in_files, texts, strict=True))


@dataclass(slots=True)
class _Head:
    """A table's newest version, and those that it came from."""

    table: DeltaTable
    _files: list[VersionFile] | None = None
    _history: list[dict[str, Any]] | None = field(default=None)

    @property
    def files(self) -> list[VersionFile]:
        """All data files; listed once."""
        if self._files is None:
            adds = pa.table(self.table.get_add_actions(flatten=False))
            self._files = files_of(adds, self.table.metadata().partition_columns)
        return self._files

    @property
    def history(self) -> list[dict[str, Any]]:
        """Of the latest entries of the log what their writers said, newest first; asked for once."""
        if self._history is None:
            self._history = self.table.history(_LOOKED_BACK)
        return self._history


def _short(run: str) -> str:
    return hashlib.sha256(run.encode()).hexdigest()[:16]


def _name(file: VersionFile) -> str:
    return PurePosixPath(file.path).name
