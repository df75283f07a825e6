"""One snapshot for each run: what a run wrote is in the table once, or not at all.

The name of the run stands in its snapshot, and in the names of its files. So whoever tries again looks first, at the
table's history and (where that has expired) at its files, and finds out what became of the try before, also if the
catalog's answer was lost. Retries are our own: the library's rebase a commit whose answer was lost, and add it twice.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import DataFile, ManifestContent

from airflow_abs.exchange.errors import CommitConflictError
from airflow_abs.tables.errors import TableError

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import Record

    from airflow_abs.exchange.publish.target_table import TargetTable

RUN_PROPERTY = "airflow-abs.run"
DIGEST_PROPERTY = "airflow-abs.digest"

_TRIES = 50
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 3.0

MakeFiles = Callable[["Table", str], Sequence[DataFile]]
"""From the table and a prefix of names to the files, at its location."""


@dataclass(frozen=True, slots=True)
class Committed:
    """`snapshot` is None if there was nothing to write down; `replaced` are other runs whose files went."""

    snapshot: int | None
    changed: bool
    replaced: tuple[str, ...] = ()


@dataclass(slots=True)
class SnapshotPublication:
    """One run's publication to one table.

    Args:
        target: as planned.
        identity: names the run and the sink, the same in every try.
        digest: tells two publications of one run apart.
        load: the table as it is now.
        make_files: see `MakeFiles`; called once, and only if there is something to do.
        count: of the files that it will make.
        on_step: told every step that is done; what it raises stops the publication there, as a kill would.
        wait: sleeps for seconds.
    """

    target: TargetTable
    identity: str
    digest: str
    load: Callable[[], Table]
    make_files: MakeFiles
    count: int
    on_step: Callable[[str], None] = lambda step: None
    wait: Callable[[float], None] = time.sleep

    def publish(self) -> Committed:
        """Commit, or find that it is committed.

        Raises:
            CommitConflictError: others committed what this one would overwrite, or never let it through.
            TableError: the table is another one by now, or what this run published before cannot be taken back.
        """
        files: Sequence[DataFile] | None = None
        seen: int | None = None
        for number in range(_TRIES):
            table = self.load()
            self._check_table(table)
            head = _Head(table)
            if (done := self._find_done(head)) is not None:
                return done
            if number and self.target.mode != "append":
                self._check_conflicts(head, seen, files or ())
            seen = head.id
            files = self._make(table) if files is None else files
            drop = self._to_drop(head, files)
            self.on_step("ready")
            if not files and not drop:
                return Committed(head.id, changed=False)
            try:
                snapshot = _commit(table, files, drop, {RUN_PROPERTY: self.identity, DIGEST_PROPERTY: self.digest})
            except (CommitFailedException, ValidationException):  # certainly not committed
                self.on_step("overtaken")
                self.wait(random.uniform(0.5, 1) * min(_FIRST_WAIT * 2**number, _LONGEST_WAIT))  # noqa: S311
                continue
            self.on_step("committed")
            return Committed(snapshot, changed=True, replaced=head.runs_of(drop, besides=self.identity))
        raise CommitConflictError(
            f"table {self.target.table}: others committed {_TRIES} times while this run tried to; nothing was "
            "published. Run commit again when fewer of them write"
        )

    @property
    def _prefix(self) -> str:
        """Of the names of all files of this run."""
        return f"airflow-abs-{hashlib.sha256(self.identity.encode()).hexdigest()[:16]}-"

    def _make(self, table: Table) -> Sequence[DataFile]:
        made = self.make_files(table, f"{self._prefix}{self.digest[:12]}") if self.count else ()
        self.on_step("files copied")
        return made

    def _check_table(self, table: Table) -> None:
        found = (str(table.metadata.table_uuid), table.metadata.default_spec_id)
        if found != (self.target.uuid, self.target.details["spec_id"]):
            what = "was made anew" if found[0] != self.target.uuid else "is partitioned in another way"
            raise TableError(
                f"table {self.target.table}: {what} since this run was planned, and the files were written for what it "
                "was; nothing was published. Clear the task plan and everything after it"
            )

    def _find_done(self, head: _Head) -> Committed | None:
        mine = head.newest_of(self.identity)
        if mine is not None:
            return Committed(mine.snapshot_id, changed=False) if _digest(mine) == self.digest else None
        if head.is_whole or not self.count:
            return None
        found = [name for file in head.files() if (name := _name(file)).startswith(self._prefix)]
        same = len(found) == self.count and all(name.startswith(self._prefix + self.digest[:12]) for name in found)
        return Committed(None, changed=False) if same else None

    def _to_drop(self, head: _Head, files: Sequence[DataFile]) -> list[DataFile]:
        """What has to go: of others by the mode, and always what this run published before."""
        mine = head.newest_of(self.identity)
        if self.target.mode == "append" and mine is None and head.is_whole:
            return []
        live = head.files()
        overwrites = self.target.mode == "overwrite_partitions"
        partitions = {file.partition for file in files} if overwrites else set()
        if self.target.mode == "overwrite":
            return live
        if mine is not None:
            self._check_all_there(mine, head, live, partitions)
        if partitions:
            self._check_spec(live)
        return [file for file in live if _name(file).startswith(self._prefix) or file.partition in partitions]

    def _check_all_there(self, mine: Snapshot, head: _Head, live: list[DataFile], partitions: set[Record]) -> None:
        """Rows of files that were rewritten can no longer be told from those of others."""
        there = {file.file_path for file in live}
        gone = [
            file for file in head.added_by(mine) if file.file_path not in there and file.partition not in partitions
        ]
        if gone:
            raise TableError(
                f"table {self.target.table}: this run published {len(gone)} files that others have since rewritten or "
                f"deleted (such as {gone[0].file_path}), so its earlier rows cannot be replaced by those of today; "
                f"nothing was published. Delete its rows, or roll back to before snapshot {mine.snapshot_id}, and run "
                "commit again under a new run"
            )

    def _check_spec(self, live: list[DataFile]) -> None:
        if old := [file for file in live if file.spec_id != self.target.details["spec_id"]]:
            raise TableError(
                f"table {self.target.table}: holds {len(old)} files that are partitioned in an earlier way (such as "
                f"{old[0].file_path}), of which nobody knows whether they are in the partitions to overwrite; rewrite "
                "the table's files (rewrite_data_files), or use mode 'append'"
            )

    def _check_conflicts(self, head: _Head, seen: int | None, files: Sequence[DataFile]) -> None:
        """What was committed while this publication was under way, where it would be overwritten unseen."""
        partitions = {file.partition for file in files}
        for snapshot in head.since(seen):
            added = head.added_by(snapshot)
            if self.target.mode == "overwrite_partitions":
                added = [file for file in added if file.partition in partitions]
            if added:
                raise CommitConflictError(
                    f"table {self.target.table}: snapshot {snapshot.snapshot_id} was committed while this run was "
                    f"about to overwrite, with {len(added)} files that would be lost unseen; nothing was published. "
                    "Run commit again if they are to be overwritten, and let one run at a time write what it overwrites"
                )


class _Head:
    """A table's current snapshot and those that it came from."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._files: list[DataFile] | None = None
        self.current = table.current_snapshot()
        self.ancestors = list(_ancestors(table))

    @property
    def id(self) -> int | None:
        return self.current.snapshot_id if self.current is not None else None

    @property
    def is_whole(self) -> bool:
        """Whether it is known of every file which snapshot added it: none of those has expired. A parent says nothing,
        expiration may take it away; but a first snapshot has no files that it did not add."""
        if not self.ancestors:
            return True
        total, added = (_property(self.ancestors[-1], name) for name in ("total-data-files", "added-data-files"))
        return total is not None and total == (added or "0")

    def newest_of(self, identity: str) -> Snapshot | None:
        return next((each for each in self.ancestors if _property(each, RUN_PROPERTY) == identity), None)

    def since(self, snapshot_id: int | None) -> list[Snapshot]:
        found = []
        for snapshot in self.ancestors:
            if snapshot.snapshot_id == snapshot_id:
                break
            found.append(snapshot)
        return found

    def files(self) -> list[DataFile]:
        """All data files of the current snapshot; listed once."""
        if self._files is None:
            self._files = [] if self.current is None else [entry.data_file for entry in self._entries(self.current)]
        return self._files

    def added_by(self, snapshot: Snapshot) -> list[DataFile]:
        return [entry.data_file for entry in self._entries(snapshot) if entry.snapshot_id == snapshot.snapshot_id]

    def runs_of(self, files: Sequence[DataFile], *, besides: str) -> tuple[str, ...]:
        """The runs of ours that some files belong to."""
        names = {_name(file).split("-")[2] for file in files if _name(file).startswith("airflow-abs-")}
        runs = dict.fromkeys(run for each in self.ancestors if (run := _property(each, RUN_PROPERTY)))
        return tuple(run for run in runs if run != besides and hashlib.sha256(run.encode()).hexdigest()[:16] in names)

    def _entries(self, snapshot: Snapshot) -> Iterator[ManifestEntry]:
        for manifest in snapshot.manifests(self._table.io):
            if manifest.content == ManifestContent.DATA:
                yield from manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)


def _ancestors(table: Table) -> Iterator[Snapshot]:
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None


def _commit(table: Table, files: Sequence[DataFile], drop: Sequence[DataFile], properties: dict[str, str]) -> int:
    """One snapshot; the id of it.

    Raises:
        CommitFailedException, ValidationException: it certainly did not happen.
        Exception: nobody knows whether it did.
    """
    table.metadata.properties["commit.retry.num-retries"] = "0"
    with table.transaction() as transaction:
        update = transaction.update_snapshot(snapshot_properties=properties)
        with update.overwrite() if drop else update.fast_append() as snapshot:
            for file in drop:
                snapshot.delete_data_file(file)
            for file in files:
                snapshot.append_data_file(file)
            snapshot_id = snapshot.snapshot_id
    return int(snapshot_id)


def _property(snapshot: Snapshot, name: str) -> str | None:
    return snapshot.summary.get(name) if snapshot.summary is not None else None


def _digest(snapshot: Snapshot) -> str | None:
    return _property(snapshot, DIGEST_PROPERTY)


def _name(file: DataFile) -> str:
    return PurePosixPath(file.file_path).name
