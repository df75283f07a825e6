"""Publishing a sink: all of a run's files at once, or none of them.

    manifests --staged_files--> staged --publish--> target/part-00000-<digest>.snappy.parquet
                                                    target/_airflow_abs_commit      who published what; on an object
                                                    target/_airflow_abs_commits/    store the newest file of this folder
                                                    target/_SUCCESS

What holds everywhere: publishing the same again changes nothing; a run that publishes other files than before
replaces its own, so `append` never appends twice, and an earlier plan of it never replaces what a later one published;
killed at any step and run again, the target is whole.
What readers see meanwhile, and what is not guaranteed: `local_folder.py` and `object_store.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from airflow_abs.exchange.errors import CommitError, MissingFileError
from airflow_abs.exchange.publish.commit_log import CommitLog
from airflow_abs.exchange.publish.local_folder import LocalCommit
from airflow_abs.exchange.publish.object_store import StoreCommit
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import (
    MODES,
    RECORD_NAME,
    CommitMode,
    CommitRecord,
    StagedFile,
    find_foreign,
    is_data_file,
    refuse_foreign,
    staged_files,
)
from airflow_abs.exchange.storage.client_errors import raise_unlisted, raise_unread, storage_errors
from airflow_abs.exchange.storage.foreign_logs import find_log, names_in
from airflow_abs.exchange.storage.listings import find_infos
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import read_json

__all__ = ["CommitMode", "Publication", "StagedFile", "publish", "read_commit", "staged_files"]


@dataclass(frozen=True, slots=True)
class Publication:
    """What a run has in its target; `changed` is False if an earlier try had published it already.

    `replaced` are the identities of other runs whose files are gone with this publication; `foreign_files` are gone
    besides, which no publication to the target knew, some of them from so many `foreign_targets` in it.
    """

    target: str
    identity: str
    files: int
    rows: int
    bytes: int
    changed: bool
    replaced: tuple[str, ...] = ()
    foreign_files: int = 0
    foreign_targets: int = 0


def publish(
    target: ExchangePath,
    staged: Sequence[StagedFile],
    *,
    mode: CommitMode,
    publisher: Publisher,
    replace_foreign: bool = False,
    on_step: Callable[[str], None] = lambda step: None,
) -> Publication:
    """Make the staged files the run's output in `target`, a folder that need not exist.

    Args:
        mode: `overwrite` leaves nothing else in the target, `overwrite_partitions` nothing else in the table partitions
            of the staged files, `append` keeps what others wrote, `error` refuses if
            there is anything that this run did not publish.
        publisher: whose they are; the same in every try.
        replace_foreign: whether `overwrite` may replace what no publication to the target knows.
        on_step: told every step that is done; what it raises stops the publication there, as a kill would.

    Raises:
        TargetExistsError: see `mode` and `replace_foreign`.
        SupersededError: a later plan of the run has published.
        TargetBusyError: another run is publishing to the same target.
        MissingFileError, DamagedFileError: a staged file is gone or has another size than its manifest says.
        CommitError: the target cannot be written.
        ValueError: an unknown mode, or an empty identity.
    """
    if mode not in MODES:
        raise ValueError(f"sink {target}: mode {mode!r}, expected one of {', '.join(MODES)}")
    if not publisher.identity:
        raise ValueError(f"sink {target}: expected an identity that names the run, found an empty one")
    location = locate(target)
    if len(PurePosixPath(location.path).parts) < 2:
        raise CommitError(f"sink {target}: is the root of a file system; give the sink a folder of its own")
    check_target(target)
    if location.is_local:
        plan = LocalCommit(location.local, publisher, on_step).publish(
            list(staged), mode, replace_foreign=replace_foreign
        )
    else:
        plan = StoreCommit(location, publisher, on_step).publish(list(staged), mode, replace_foreign=replace_foreign)
    files = plan.entry.files
    return Publication(
        target=str(target),
        identity=publisher.identity,
        files=len(files),
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
        changed=plan.changes,
        replaced=plan.replaces,
        foreign_files=len(plan.foreign.files),
        foreign_targets=len(plan.foreign.targets),
    )


def check_overwritten(target: ExchangePath) -> None:
    """Refuse before a run, not after it, to overwrite what no publication to the target knows.

    Raises:
        TargetExistsError: there is something like that.
        ExchangeUnreachableError: it cannot be listed.
    """
    location = locate(target)
    try:
        names = [name for name in find_infos(location) if name != "."]  # a file in the place of the folder
        # after the listing: it names what was put until then
        under_way = frozenset[str]() if location.is_local else CommitLog(location).read().unpublished
    except storage_errors() as error:
        raise_unlisted(f"sink {location}", error)
    files = [name for name in names if is_data_file(name) and name not in under_way]
    refuse_foreign(str(location), find_foreign(names, files, read_commit(target) or CommitRecord()))


def check_target(target: ExchangePath) -> None:
    """Refuse a folder whose readers follow another tool's log, and would not see what is published there.

    Raises:
        CommitError: it is one.
        ExchangeUnreachableError: it cannot be listed.
    """
    location = locate(target)
    location.forget_listings()
    try:
        log = find_log(location, names_in(location))
    except storage_errors() as error:
        raise_unlisted(f"sink {location}", error)
    if log is not None:
        raise CommitError(
            f"sink {location}: is {log.owner}, whose readers go by its log {log.folder} and would not see the files of "
            f"a job, or miss their own; {log.write}"
        )


def read_commit(target: ExchangePath) -> CommitRecord | None:
    """Who published what is in the target; None if airflow_abs never published there.

    Raises:
        DamagedFileError, IncompatibleFileError: the record cannot be trusted.
        ExchangeUnreachableError: the storage does not answer.
    """
    location = locate(target)
    if not location.is_local:
        try:
            commit = CommitLog(location).read().commit
        except storage_errors() as error:
            raise_unread(location, error)
        return commit if commit.entries else None
    path = target / RECORD_NAME
    try:
        return CommitRecord.from_json(read_json(path), where=str(locate(path)))
    except MissingFileError:
        return None
