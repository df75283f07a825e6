"""One snapshot for each run.

The name of the run stands in its snapshot. Where that has expired, the names of its files tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import DataFile, ManifestContent

from airflow_abs.core.wording import format_count
from airflow_abs.exchange.publish.publisher import Publisher
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
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import Record


class SnapshotHead:
    """A table's current snapshot and those that it came from."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._files: list[DataFile] | None = None
        self.current = table.current_snapshot()
        self.ancestors = list(_lineage(table, self.current))

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

    def reaches(self, snapshot_id: int | None) -> bool:
        """Whether all is known that was committed since another snapshot, or since the table was made: none of it
        has expired."""
        if not self.ancestors:
            return True
        if snapshot_id is None:  # formats of before version 2 number no commits
            return (first := self.ancestors[-1].sequence_number) == 1 or (not first and self.is_whole)
        before = {each.snapshot_id for each in _lineage(self.table, self.table.snapshot_by_id(snapshot_id))}
        return any(each.snapshot_id in before for each in self.ancestors)

    def newest_of(self, publisher: Publisher) -> Snapshot | None:
        return next((each for each in self.ancestors if publisher.owns(_property(each, RUN_PROPERTY) or "")), None)

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

    def _entries(self, snapshot: Snapshot) -> Iterator[ManifestEntry]:
        for manifest in snapshot.manifests(self.table.io):
            if manifest.content == ManifestContent.DATA:
                yield from manifest.fetch_manifest_entry(self.table.io, discard_deleted=True)


@dataclass(slots=True, kw_only=True)
class SnapshotPublication(RunPublication[SnapshotHead, DataFile, DataFile]):
    """One run's publication to one table.

    Args:
        load: the table as it is now.
        make_files: from the table and a prefix of names to the files, at its location; called once, and only if there
            is something to do.
    """

    load: Callable[[], Table]
    make_files: Callable[[Table, str], Sequence[DataFile]] = field(repr=False)

    def head(self) -> SnapshotHead:
        table = self.load()
        uuid, spec_id = str(table.metadata.table_uuid), table.metadata.default_spec_id
        if uuid != self.target.uuid:
            self.refuse_changed("was recreated")
        if spec_id != self.target.details["spec_id"]:
            self.refuse_changed("is partitioned in another way")
        return SnapshotHead(table)

    def generation(self, head: SnapshotHead) -> int:
        """Also of snapshots that were rolled back."""
        mine = [each for each in head.table.snapshots() if self.publisher.owns(_property(each, RUN_PROPERTY) or "")]
        return max((int(_property(each, GENERATION_PROPERTY) or 0) for each in mine), default=0)

    def find_done(self, head: SnapshotHead) -> Published | None:
        mine = head.newest_of(self.publisher)
        if mine is not None:
            if _property(mine, DIGEST_PROPERTY) != self.digest:
                return None
            return Published(changed=False, details={"snapshot": mine.snapshot_id})
        if not head.is_whole and self.count and self.is_among(map(_name, head.files())):
            return Published(changed=False, details={"snapshot": None})
        if not head.reaches(self.target.details.get("snapshot")):
            self.refuse_forgotten("snapshots have expired")
        return None

    def make(self, head: SnapshotHead, prefix: str) -> Sequence[DataFile]:
        return self.make_files(head.table, prefix)

    def to_drop(self, head: SnapshotHead, files: Sequence[DataFile]) -> Sequence[DataFile]:
        mine = head.newest_of(self.publisher)
        if self.target.mode == "append" and mine is None and head.is_whole:
            return []
        live = head.files()
        if self.target.mode == "overwrite":
            return live
        partitions = self.overwritten(files)
        if mine is not None:
            self._check_all_there(mine, head, live, partitions)
        if partitions:
            self._check_spec(live)
        former = {_property(each, RUN_PROPERTY) or "" for each in head.ancestors}
        former = {identity for identity in former if self.publisher.owns(identity)}
        return [file for file in live if self.is_ours(_name(file), former) or file.partition in partitions]

    def _check_all_there(
        self, mine: Snapshot, head: SnapshotHead, live: list[DataFile], partitions: set[Record]
    ) -> None:
        """Rows of files that were rewritten can no longer be told from those of others."""
        there = {file.file_path for file in live}
        gone = [
            file for file in head.added_by(mine) if file.file_path not in there and file.partition not in partitions
        ]
        if gone:
            raise TableError(
                f"table {self.target.table}: this run published {format_count(len(gone), 'file')} that others have "
                f"since rewritten or deleted (such as {gone[0].file_path}), so its earlier rows cannot be replaced by "
                f"those of today; nothing was published. Delete its rows, or roll back to before snapshot "
                f"{mine.snapshot_id}, and run commit again under a new run"
            )

    def _check_spec(self, live: list[DataFile]) -> None:
        if old := [file for file in live if file.spec_id != self.target.details["spec_id"]]:
            raise TableError(
                f"table {self.target.table}: holds {format_count(len(old), 'file')} with an earlier partitioning (such "
                f"as {old[0].file_path}), and it is not known whether they belong to the partitions to overwrite; "
                "rewrite the table's files (rewrite_data_files), or use mode 'append'"
            )

    def details(self, head: SnapshotHead) -> dict[str, Any]:
        return {"snapshot": head.id}

    def replaced(self, head: SnapshotHead, drop: Sequence[DataFile]) -> tuple[str, ...]:
        return self.other_runs(map(_name, drop), lambda: (_property(each, RUN_PROPERTY) for each in head.ancestors))

    def commit(self, head: SnapshotHead, files: Sequence[DataFile], drop: Sequence[DataFile]) -> dict[str, Any]:
        head.table.metadata.properties["commit.retry.num-retries"] = "0"  # in memory: the library's rebase a commit
        properties = {
            RUN_PROPERTY: self.identity,
            DIGEST_PROPERTY: self.digest,
            GENERATION_PROPERTY: str(self.publisher.generation),
        }
        try:
            with head.table.transaction() as transaction:
                update = transaction.update_snapshot(snapshot_properties=properties)
                with update.overwrite() if drop else update.fast_append() as snapshot:
                    for file in drop:
                        snapshot.delete_data_file(file)
                    for file in files:
                        snapshot.append_data_file(file)
                    snapshot_id = snapshot.snapshot_id
        except (CommitFailedException, ValidationException) as error:
            raise OvertakenError(first_line(error)) from error
        return {"snapshot": int(snapshot_id)}

    def check_conflicts(self, head: SnapshotHead, seen: SnapshotHead, files: Sequence[DataFile], refusal: str) -> None:
        if self.target.mode != "append":
            for snapshot in head.since(seen.id):
                self.refuse_unseen(f"snapshot {snapshot.snapshot_id}", head.added_by(snapshot), files)


def _lineage(table: Table, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """A snapshot and those that it came from."""
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None


def _property(snapshot: Snapshot, name: str) -> str | None:
    return snapshot.summary.get(name) if snapshot.summary is not None else None


def _name(file: DataFile) -> str:
    return PurePosixPath(file.file_path).name
