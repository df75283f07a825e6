"""The position of an incremental source: which run has which of its files; and who gets which next.

A file belongs to one run at most. A run takes unassigned files, and keeps them until it has published what it made
of it. A run that ends without publishing releases its files. Once a run has begun to publish, no other run ever gets
its files, because no other run can know whether their rows were published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class Progress(StrEnum):
    """How far a run is with the files that it took."""

    TAKEN = "taken"
    PUBLISHING = "publishing"
    READ = "read"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as the storage lists it. `version` is its tag, or the time of its last change where the storage has no
    tags; other content has another one."""

    path: str
    bytes: int
    version: str


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of one run. `published` are the vertices whose sinks it has published since."""

    run: str
    files: tuple[FoundFile, ...] = ()
    progress: Progress = Progress.TAKEN
    published: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Tells two sets of files apart, by name, size and version."""
        content = "\0".join(f"{file.path}\0{file.bytes}\0{file.version}" for file in self.files)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Position:
    """All runs that have files, in the order in which they took them."""

    runs: tuple[RunFiles, ...] = ()

    def of(self, run: str) -> RunFiles | None:
        return next((entry for entry in self.runs if entry.run == run), None)

    def put(self, entry: RunFiles) -> Position:
        """With this entry in the place of the run's own, or after all others."""
        runs = tuple(entry if each.run == entry.run else each for each in self.runs)
        return Position(runs if entry in runs else (*runs, entry))


@dataclass(frozen=True, slots=True)
class Taking:
    """What taking came to; nothing counts before `position` is stored.

    Args:
        position: afterwards.
        entry: the run's own in it.
        changed: files that are other ones than when they were taken, each with the run that took it.
        missing: files that the run has published the rows of, and that are not there any more.
        given_up: runs that were over without having published; their files were free again.
        unsure: runs that ended while they published: only clearing them finds out whether they did.
    """

    position: Position
    entry: RunFiles
    changed: tuple[tuple[str, FoundFile], ...] = ()
    missing: tuple[FoundFile, ...] = ()
    given_up: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()


def take_files(position: Position, run: str, found: Sequence[FoundFile], is_over: Callable[[str], bool]) -> Taking:
    """Give a run the files that it is to read: after it began to publish those that it had, before that all free ones.

    A repetition gives the same, as long as the same files are there and the same runs are over.

    Args:
        position: as it is stored.
        run: its id.
        found: what the source holds now, each path once.
        is_over: whether a run has ended, in whatever way, or is gone.
    """
    own = position.of(run)
    if own is not None and own.progress is not Progress.TAKEN:
        return _take_again(position, own, found)
    waiting = [entry for entry in position.runs if entry.run != run and entry.progress is not Progress.READ]
    over = [entry for entry in waiting if is_over(entry.run)]
    given_up = tuple(entry.run for entry in over if entry.progress is Progress.TAKEN)
    kept = tuple(entry for entry in position.runs if entry.run != run and entry.run not in given_up)
    owners = {file.path: (entry.run, file) for entry in kept for file in entry.files}
    entry = RunFiles(run, tuple(file for file in found if file.path not in owners))
    return Taking(
        position=Position(kept).put(entry),
        entry=entry,
        changed=tuple((owners[file.path][0], file) for file in found if _is_other(file, owners.get(file.path))),
        given_up=given_up,
        unsure=tuple(entry.run for entry in over if entry.progress is Progress.PUBLISHING),
    )


def _take_again(position: Position, own: RunFiles, found: Sequence[FoundFile]) -> Taking:
    """What is published is made again of the same files, as they are now."""
    now = {file.path: file for file in found}
    there = [now[file.path] for file in own.files if file.path in now]
    before = {file.path: (own.run, file) for file in own.files}
    entry = replace(own, files=tuple(now.get(file.path, file) for file in own.files))
    return Taking(
        position=position.put(entry),
        entry=entry,
        changed=tuple((own.run, file) for file in there if _is_other(file, before[file.path])),
        missing=tuple(file for file in own.files if file.path not in now),
    )


def _is_other(file: FoundFile, owner: tuple[str, FoundFile] | None) -> bool:
    return owner is not None and owner[1] != file


def begin_publishing(position: Position, run: str, digest: str) -> Position | None:
    """From here on no other run gets the run's files; None if it does not have them (any more)."""
    own = position.of(run)
    if own is None or own.digest != digest:
        return None
    return position.put(replace(own, progress=Progress.PUBLISHING)) if own.progress is Progress.TAKEN else position


def end_publishing(position: Position, run: str, sink: str, sinks: Collection[str]) -> Position:
    """A sink is published; once all `sinks` are that the run's files reach, they are read."""
    own = position.of(run)
    if own is None:
        return position
    published = tuple(sorted({*own.published, sink}))
    progress = Progress.READ if set(sinks) <= set(published) else own.progress
    return position.put(replace(own, published=published, progress=progress))
