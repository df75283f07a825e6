"""Tables in memory with the commit semantics of Iceberg and of Delta, as far as publications ask for them.

A table is loaded as it is at that moment; a commit goes on top of that or is refused. What has been in it is kept:
whoever restores an earlier version gets its files back. Delta's record of applications survives that, and snapshots may
expire. That the libraries behave so is tested in tests/tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestContent

Step = Callable[[], None]
"""Before each call to the catalog or the storage."""


@dataclass(frozen=True, slots=True)
class Version:
    """What a table was after a commit: `number` tells commits apart, `told` is what the commit said of itself."""

    number: int
    parent: int | None
    files: tuple[str, ...]
    added: tuple[str, ...] = ()
    told: Mapping[str, str] = field(default_factory=dict)
    applications: Mapping[str, int] = field(default_factory=dict)
    restored: int | None = None


@dataclass
class History:
    """All versions of one table. `on_commit` is told each one with the one before it."""

    on_commit: Callable[[Version, Version], None] = lambda before, now: None
    versions: list[Version] = field(default_factory=lambda: [Version(0, None, ())])
    current: int = 0
    expired: set[int] = field(default_factory=set)

    @property
    def head(self) -> Version:
        return self.versions[self.current]

    def commit(
        self,
        base: int,
        added: Sequence[str],
        removed: Sequence[str] = (),
        told: Mapping[str, str] | None = None,
        applications: Mapping[str, int] | None = None,
    ) -> int | None:
        """The number of the new version; None if the table is another one by now."""
        before = self.head
        if base != before.number:
            return None
        assert set(removed) <= set(before.files), "removes what is not there"
        files = tuple(file for file in before.files if file not in set(removed)) + tuple(added)
        known = {**before.applications, **(applications or {})}
        return self._add(Version(len(self.versions), base, files, tuple(added), told or {}, known))

    def restore(self, number: int) -> None:
        """As a commit of its own; who rolls back besides forgets the versions between."""
        files, known = self.versions[number].files, self.head.applications
        self._add(Version(len(self.versions), number, files, applications=known, restored=number))

    def expire(self) -> None:
        """All but the current one, which is an earlier one after a restore."""
        self.expired = {version.number for version in self.versions} - {self.current, self.shown(self.current)}

    def shown(self, number: int) -> int:
        """Of a version that was restored, the one that it went back to."""
        while (restored := self.versions[number].restored) is not None:
            number = restored
        return number

    def lineage(self) -> Iterator[Version]:
        """From the current one back, however much has expired."""
        number: int | None = self.current
        while number is not None:
            yield self.versions[number]
            number = self.versions[number].parent

    def _add(self, version: Version) -> int:
        before = self.head
        self.versions.append(version)
        self.current = version.number
        self.on_commit(before, version)
        return version.number


class IcebergTable:
    """As pyiceberg's, loaded; version 0 is a table without snapshots, and a restored one shows the snapshot itself."""

    def __init__(self, history: History, step: Step) -> None:
        self._history, self._step = history, step
        self._at = history.head
        self._versions = list(history.versions)
        self._expired = set(history.expired)
        self.metadata = SimpleNamespace(table_uuid="u", default_spec_id=0, properties={})
        self.io = None

    def current_snapshot(self) -> Any:
        return self.snapshot_by_id(self._snapshot(self._at.number))

    def snapshot_by_id(self, number: int | None) -> Any:
        if not number or number in self._expired or self._versions[number].restored is not None:
            return None
        version = self._versions[number]
        parent = self._snapshot(version.parent)
        return SimpleNamespace(
            snapshot_id=number,
            sequence_number=number,
            parent_snapshot_id=parent if parent and parent not in self._expired else None,
            summary={
                "total-data-files": str(len(version.files)),
                "added-data-files": str(len(version.added)),
                **version.told,
            },
            manifests=lambda io: [self._manifest(version)],
        )

    def snapshots(self) -> list[Any]:
        found = (self.snapshot_by_id(version.number) for version in self._versions)
        return [snapshot for snapshot in found if snapshot is not None]

    def _snapshot(self, number: int | None) -> int | None:
        return self._history.shown(number) or None if number else None

    def _manifest(self, version: Version) -> Any:
        by = {file: each.number for each in self._versions for file in each.added}
        entries = [
            SimpleNamespace(data_file=DataFile(file), snapshot_id=by[file])
            for file in self._versions[version.number].files
        ]
        return SimpleNamespace(content=ManifestContent.DATA, fetch_manifest_entry=lambda io, discard_deleted: entries)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        update = _Update(self._history, self._at.number, self._step)
        yield SimpleNamespace(update_snapshot=update.begin)
        update.commit()


@dataclass(frozen=True, slots=True)
class DataFile:
    file_path: str
    partition: tuple[str, ...] = ()
    spec_id: int = 0


@dataclass
class _Update:
    history: History
    base: int
    step: Step
    told: Mapping[str, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def begin(self, snapshot_properties: Mapping[str, str]) -> Any:
        self.told = snapshot_properties
        return SimpleNamespace(overwrite=self._changing, fast_append=self._changing)

    @contextmanager
    def _changing(self) -> Iterator[Any]:
        yield SimpleNamespace(
            snapshot_id=len(self.history.versions),
            append_data_file=lambda file: self.added.append(file.file_path),
            delete_data_file=lambda file: self.removed.append(file.file_path),
        )

    def commit(self) -> None:
        self.step()
        if self.history.commit(self.base, self.added, self.removed, self.told) is None:
            raise CommitFailedException("branch main has changed")


SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


class DeltaTable:
    """As deltalake's, loaded."""

    def __init__(self, history: History, step: Step) -> None:
        self._history, self._step = history, step
        self._at = history.head
        self._versions = list(history.versions)

    def version(self) -> int:
        return self._at.number

    def metadata(self) -> Any:
        return SimpleNamespace(id="u", partition_columns=[], configuration={})

    def protocol(self) -> Any:
        return SimpleNamespace(min_reader_version=1, min_writer_version=2, reader_features=None, writer_features=None)

    def schema(self) -> Any:
        fields = pa.schema([("id", pa.int64())])
        return SimpleNamespace(to_json=lambda: json.dumps(SCHEMA), to_arrow=lambda: fields)

    def transaction_version(self, application: str) -> int | None:
        return self._at.applications.get(application)

    def history(self, limit: int) -> list[dict[str, Any]]:
        return [_entry(version) for version in reversed(self._versions[-limit:])]

    def get_add_actions(self, flatten: bool) -> pa.Table:
        return pa.table({"path": pa.array(self._at.files, pa.string()), "size_bytes": [1] * len(self._at.files)})

    def create_write_transaction(self, actions: Sequence[Any], mode: str, schema: Any, **options: Any) -> None:
        told = options["commit_properties"]
        added = [action.path for action in actions if isinstance(action, AddAction)]
        removed = [action.path for action in actions if not isinstance(action, AddAction)]
        applications = {each.app_id: each.version for each in told.app_transactions}
        self._step()
        number = self._history.commit(self._at.number, added, removed, told.custom_metadata, applications)
        if number is None:
            raise CommitFailedError("a concurrent transaction has committed")


def _entry(version: Version) -> dict[str, Any]:
    if version.restored is None:
        return {"version": version.number, "operation": "WRITE", **version.told}
    parameters = {"version": str(version.restored)}
    return {"version": version.number, "operation": "RESTORE", "operationParameters": parameters}


def read_log(history: History, name: str) -> bytes:
    """An entry of Delta's log, of which only what it added is asked."""
    version = history.versions[int(name.rpartition("/")[2].partition(".")[0])]
    adds = [{"add": {"path": file, "size": 1, "partitionValues": {}}} for file in version.added]
    return "\n".join(map(json.dumps, adds)).encode()
