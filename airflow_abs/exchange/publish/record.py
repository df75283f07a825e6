"""What was published to a target, by whom; and the pure decision of what a publication has to change.

The record lies in a local target as `_airflow_abs_commit` (hidden from Spark by its first letter, and from globs such
as `*.parquet` and `*.json` by having no extension), on an object store in its log (`commit_log.py`). One entry for each
run whose files are in the target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from airflow_abs.core.wording import format_count
from airflow_abs.exchange.errors import TargetExistsError
from airflow_abs.exchange.paths import JobFolder, is_hidden
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.records.manifest import Manifest
from airflow_abs.exchange.records.reading import Count, as_record
from airflow_abs.exchange.sources.files import WRITE_MODES, WriteMode
from airflow_abs.exchange.storage.locations import ExchangePath

RECORD_NAME = "_airflow_abs_commit"
LOG_NAME = "_airflow_abs_commits"
"""What lies in a target that is an object store's in its place, see `commit_log.py`."""
SUCCESS_NAME = "_SUCCESS"
OWN_NAMES = frozenset({RECORD_NAME, SUCCESS_NAME})

CommitMode = WriteMode
MODES = WRITE_MODES


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A committed file of a sink, still in the exchange. `name` is its path in the manifest, attempt included."""

    source: ExchangePath
    name: str
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file in the target; `name` is relative to it, `staged` is what it was called in the exchange."""

    name: str
    bytes: Count
    rows: Count
    staged: str = ""


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """What one run has in the target. `digest` tells two publications of one run apart: other files, another mode.
    `generation` is that of the plan, see `Publisher`."""

    identity: str
    digest: str
    files: tuple[PublishedFile, ...]
    generation: Count = 0


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """Who published what is in the target; files that are in no entry were not written by airflow_abs."""

    entries: tuple[CommitEntry, ...] = ()

    def of(self, publisher: Publisher) -> list[CommitEntry]:
        """What its run has there: one entry, unless some are from before its identity was what it is."""
        return [entry for entry in self.entries if publisher.owns(entry.identity)]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(payload: Mapping[str, Any], *, where: str) -> CommitRecord:
        """Build and check a record; a DamagedFileError names the first field that is wrong."""
        return as_record(payload, CommitRecord, where=where, required=("entries",))


@dataclass(frozen=True, slots=True)
class Foreign:
    """Data files in a target that no publication to it knows, and the folders below it that are targets themselves and
    hold some of them."""

    files: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{format_count(len(self.files), 'file')} that no publication to it knows (such as {self.files[0]!r})"
        if not self.targets:
            return text
        return f"{text}, published also to {format_count(len(self.targets), 'folder')} in it ({self.targets[0]!r})"


@dataclass(frozen=True, slots=True)
class PublicationPlan:
    """What has to change, all names relative to the target.

    `record` is the one afterwards; `put` are staged files with their new names, `drop` existing ones that must go.
    `keeps_others` says whether files that are neither put nor dropped stay. `replaces` are the identities of other runs
    whose files go, `foreign` what goes besides. Without `changes` all is done already.
    """

    entry: CommitEntry
    record: CommitRecord
    put: tuple[tuple[StagedFile, str], ...] = ()
    drop: frozenset[str] = frozenset()
    keeps_others: bool = True
    changes: bool = True
    replaces: tuple[str, ...] = ()
    foreign: Foreign = Foreign()


def staged_files(job: JobFolder, manifests: Iterable[Manifest], result: str) -> list[StagedFile]:
    """The files of one sink result of all its subtasks, in manifest order."""
    return [
        StagedFile(job.file_path(file.path), file.path, file.bytes, file.rows)
        for manifest in manifests
        if result in manifest.results
        for file in manifest.results[result].files
    ]


def is_data_file(name: str) -> bool:
    """Whether readers see a file of a target; `name` is relative to it. Spark's rule, for each folder on the way."""
    return not any(is_hidden(part) for part in PurePosixPath(name).parts)


def plan_publication(
    staged: Sequence[StagedFile],
    *,
    mode: CommitMode,
    publisher: Publisher,
    record: CommitRecord,
    existing: Iterable[str],
    target: str,
    published: Callable[[str], ExchangePath] | None = None,
    suffix: str = "",
) -> PublicationPlan:
    """Decide what publishing changes in a target that holds the files `existing` and `record`.

    What this run published before is taken from there (`published` gives the path of a file in the target): after a
    release the exchange does not have it any more, and only a cleared subtask's files are new. `suffix` goes into the
    new names: where nothing can be swapped, no two attempts may put the same ones.

    A run never has two sets of files in a target: publishing the same ones again changes nothing, publishing others
    (after a clear) replaces those that it published before, in every mode.

    Raises:
        SupersededError: a later plan of this run has published.
        TargetExistsError: mode `error`, and there are files that this run did not publish.
    """
    names = frozenset(existing)
    present = frozenset(filter(is_data_file, names))
    entry, put = _entry_for(staged, mode, publisher, suffix)
    before = record.of(publisher)
    publisher.check_order(f"sink {target}", max((each.generation for each in before), default=0))
    mine = frozenset(file.name for each in before for file in each.files)
    if [each.digest for each in before] == [entry.digest] and mine <= present:
        return PublicationPlan(before[0], record, changes=False)
    if mode == "error" and (foreign := sorted(present - mine)):
        raise TargetExistsError(
            f"sink {target}: holds {format_count(len(foreign), 'file')} that {publisher.identity} did not publish "
            f"(such as {foreign[0]!r}), and its mode is 'error'; remove them, or use mode 'overwrite' or 'append'"
        )
    keeps_others = mode != "overwrite"
    replaced = {partition_of(name) for _, name in put} if mode == "overwrite_partitions" else frozenset[str]()
    others = tuple(
        kept
        for other in record.entries
        if keeps_others and other not in before and (kept := _without(other, replaced)) is not None
    )
    if published is not None:
        mapped = (file for each in before for file in each.files if file.name in present and file.staged)
        there = {file.staged: file.name for file in mapped}
        put = tuple(
            (replace(file, source=published(there[file.name])) if file.name in there else file, name)
            for file, name in put
        )
    goes = (name for name in present if not keeps_others or name in mine or partition_of(name) in replaced)
    drop = frozenset(goes) - {name for _, name in put}
    replaces = tuple(other.identity for other in record.entries if other not in others and other not in before)
    gone = find_foreign(names, drop, record)
    return PublicationPlan(
        entry, CommitRecord((*others, entry)), put, drop, keeps_others, replaces=replaces, foreign=gone
    )


def find_foreign(names: Collection[str], replaced: Iterable[str], record: CommitRecord) -> Foreign:
    """What is replaced in a target in addition to earlier publications.

    Args:
        names: of all files in the target.
        replaced: of those that are to go.
        record: of the target.
    """
    ours = {file.name for entry in record.entries for file in entry.files}
    files = sorted(set(replaced) - ours)
    targets = sorted({folder for name in names if (folder := _target_of(name)) is not None})
    return Foreign(tuple(files), tuple(each for each in targets if any(name.startswith(f"{each}/") for name in files)))


def refuse_foreign(target: str, foreign: Foreign) -> None:
    """Before an overwrite.

    Raises:
        TargetExistsError: there is something foreign.
    """
    if foreign.files:
        raise TargetExistsError(
            f"sink {target}: holds {foreign}, and mode 'overwrite' would replace them. If a template has left out a "
            "part of the path, correct it and clear plan; else move the files away, or declare "
            "Files(..., replace_foreign=True)"
        )


def _target_of(name: str) -> str | None:
    """The folder whose record a file belongs to, if that is no record of the target itself."""
    parts = PurePosixPath(name).parts
    depth = next((depth for depth, part in enumerate(parts) if part in (RECORD_NAME, LOG_NAME)), 0)
    return "/".join(parts[:depth]) or None


def partition_of(name: str) -> str:
    """The folders of a file's table partition, ``day=2026-01-01/region=north``; "" if the table has none.

    Names of folders of ours hold no `=`, so it is told from a path in the exchange, too.
    """
    return "/".join(part for part in PurePosixPath(name).parts[:-1] if "=" in part)


def _without(entry: CommitEntry, replaced: Collection[str]) -> CommitEntry | None:
    """What is left of another run's entry; its digest is another one, so that the run, if it publishes again, has
    something to do. None if nothing is left."""
    kept = tuple(file for file in entry.files if partition_of(file.name) not in replaced)
    if len(kept) == len(entry.files):
        return entry
    return replace(entry, digest=f"{entry.digest[:31]}~", files=kept) if kept else None


def _entry_for(
    staged: Sequence[StagedFile], mode: CommitMode, publisher: Publisher, suffix: str
) -> tuple[CommitEntry, tuple[tuple[StagedFile, str], ...]]:
    digest = digest_of(staged, mode, publisher.identity)
    put = tuple(
        (
            file,
            str(PurePosixPath(partition_of(file.name), f"part-{k:05d}-{digest[:12]}{suffix}{_extension(file.name)}")),
        )
        for k, file in enumerate(staged)
    )
    files = tuple(PublishedFile(name, file.bytes, file.rows, file.name) for file, name in put)
    return CommitEntry(publisher.identity, digest, files, publisher.generation), put


def digest_of(staged: Iterable[StagedFile], mode: str, identity: str) -> str:
    """Tells two publications of one run apart: other files, or another mode."""
    content = hashlib.sha256(f"{identity}\0{mode}".encode())
    for file in staged:
        content.update(f"\0{file.name}\0{file.bytes}\0{file.rows}".encode())
    return content.hexdigest()[:32]


def _extension(name: str) -> str:
    """`.snappy.parquet` of `part-00000-<uuid>-c000.snappy.parquet`."""
    _, dot, extension = PurePosixPath(name).name.partition(".")
    return f"{dot}{extension}"
