"""The files of an incremental source that are a run's own: taken by `plan`, confirmed by `commit`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_abs.core.incremental.position import (
    FoundFile,
    Position,
    Taking,
    begin_publishing,
    end_publishing,
    take_files,
)
from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.exchange.errors import CommitError, ExchangeError, SourceNotFoundError
from airflow_abs.exchange.incremental.position_log import move_position, read_position
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.planned_source import PlannedSource, TakenFiles, vertex_of
from airflow_abs.exchange.sources.splits import list_splits
from airflow_abs.exchange.storage.locations import OpenPath

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewFiles:
    """What a run reads of an incremental source: the declaration, its own files, and what is recorded of them."""

    declared: Files
    files: tuple[SourceFile, ...]
    taken: TakenFiles


def take_new_files(
    folder: JobFolder,
    vertex: str,
    files: Files,
    sinks: Sequence[str],
    open_path: OpenPath,
    is_over: Callable[[str], bool],
) -> NewFiles:
    """Assign the unread files to this run; a run that has published keeps its files.

    Args:
        folder: of the run.
        vertex: whose source it is.
        files: the source, rendered.
        sinks: the vertices with sinks that its rows reach.
        open_path: turns the source's path into one that can be listed.
        is_over: whether a run of this DAG has ended, or is gone.

    Raises:
        ExchangeError: a file was written again after it was read (unless it is declared that this does not matter), or
            one that this run has published the rows of is gone; the source cannot be listed.
    """
    found = _list(files, open_path)
    made: list[Taking] = []

    def take(position: Position) -> Position:
        made.append(take_files(position, folder.run_id, found, is_over))
        _refuse_changed(vertex, files, folder.run_id, made[-1])
        return made[-1].position

    move_position(folder, vertex, take)
    taking = made[-1]
    _tell(vertex, len(found), taking)
    own = tuple(SourceFile(file.path, file.bytes, file.version) for file in taking.entry.files)
    return NewFiles(files, own, TakenFiles(taking.entry.digest, tuple(sinks)))


def begin_publication(folder: JobFolder, source: PlannedSource, open_path: OpenPath) -> None:
    """Before anything is published of a run's files: they are still its own, and no writer has replaced them.

    Raises:
        CommitError: they are not its own any more.
        ExchangeError: one of them is another file than the one that was planned.
    """
    vertex, taken = vertex_of(source.name), source.taken
    if taken is None or source.files is None:
        raise ValueError(f"source {source.name}: the plan did not take files for it")
    own = read_position(folder, vertex).of(folder.run_id)
    now = {file.path: file for file in _list_what_is_left(source.files, open_path)}
    for file in own.files if own is not None else ():
        if now.get(file.path, file) != file:
            raise ExchangeError(
                f"vertex {vertex!r}: {file.path} was rewritten while this run read it; nothing was published. Clear "
                "the task plan, and have writers put files there whole, by a rename"
            )

    def begin(position: Position) -> Position:
        begun = begin_publishing(position, folder.run_id, taken.digest)
        if begun is None:
            raise CommitError(
                f"vertex {vertex!r}: the files that this run has planned to read are not its own any more: another "
                "run, or a later plan of this one, has taken some of them; nothing was published. Clear the task plan"
            )
        return begun

    move_position(folder, vertex, begin)


def end_publication(folder: JobFolder, source: PlannedSource, sink: str) -> None:
    """One of the sinks that the source's rows reach is published; after the last one its files are read.

    Raises:
        ExchangeError: that cannot be stored; run it again.
    """
    taken = source.taken
    sinks = taken.sinks if taken is not None else ()
    move_position(folder, vertex_of(source.name), lambda position: end_publishing(position, folder.run_id, sink, sinks))


def _list(files: Files, open_path: OpenPath) -> list[FoundFile]:
    return [FoundFile(file.path, file.bytes, file.version) for file in list_splits(files, open_path)]


def _list_what_is_left(files: Files, open_path: OpenPath) -> list[FoundFile]:
    try:
        return _list(files, open_path)
    except SourceNotFoundError:  # all of them were moved away since they were read
        return []


def _refuse_changed(vertex: str, files: Files, run: str, taking: Taking) -> None:
    if taking.missing:
        raise ExchangeError(
            f"vertex {vertex!r}: {format_count(len(taking.missing), 'file')} that run {run} has read "
            f"{'is' if len(taking.missing) == 1 else 'are'} gone (such as {taking.missing[0].path}), so its output "
            "cannot be recomputed, and stays as it is. Restore them, or do not clear this run"
        )
    if taking.changed and files.rewritten == "error":
        owner, file = taking.changed[0]
        raise ExchangeError(
            f"vertex {vertex!r}: {file.path} is another file than the one that run {owner} has read "
            f"({format_count(len(taking.changed), 'such file')}); each file is read once. Give new rows a new name, "
            "or declare Files(..., rewritten='skip'), which goes by names alone"
        )


def _tell(vertex: str, found: int, taking: Taking) -> None:
    files = taking.entry.files
    size = format_bytes(sum(file.bytes for file in files))
    log.info("%s: %d of %s to read, %s", vertex, len(files), format_count(found, "file"), size)
    if taking.changed:
        log.info(
            "%s: rewritten since they were read, and counted as read: %s",
            vertex,
            format_count(len(taking.changed), "file"),
        )
    for run in taking.given_up:
        log.info("%s: run %s ended without publishing, and releases its files", vertex, run)
    for run in taking.unsure:
        log.warning(
            "%s: run %s ended while it published, and no other run gets its files; clear its task commit, which finds "
            "out whether their rows are there",
            vertex,
            run,
        )
