"""Deleting a finished job's data, and what crashed runs left behind.

Both can be killed and repeated at any time: what is gone already is no error. Neither deletes what the layout does not
know: a file that others have put into a run's folder stays, and so does that folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder, is_landed
from airflow_abs.exchange.runs.root_marker import is_marked, is_planned, mark_root, refuse_unmarked
from airflow_abs.exchange.storage.client_errors import raise_if_throttled, raise_unlisted, reason_of, storage_errors
from airflow_abs.exchange.storage.deletion import delete_files
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate, modified_seconds

# by depth below the job folder: what explains the run, and what a cleared subtask needs to have its inputs again
_METADATA = {
    1: re.compile(r"(plan|renewed|server)\.json|py-[0-9a-f]{64}"),
    2: re.compile(r"(decision|hot-key|publishing|waiting)\.json|step-\d+\.pb"),
    3: re.compile(r"manifest\.json|(try|recovery)-\d+\.json"),
}
_SUBTASK, _ATTEMPT = re.compile(r"subtask-\d+"), re.compile(r"attempt-\d+")
# go with the data: decision.json and the manifests say the same
_DERIVED = {2: "inputs.json", 3: "slice.json"}
_TEMPORARY = re.compile(r"\.tmp-\d+-[0-9a-f]+|\.airflow_abs-probe-[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion freed."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ExpiredJob:
    """A job folder that nothing has changed for a while. `dag`, `run` and `job` are folder names, so escaped ids."""

    location: Location
    dag: str
    run: str
    job: str
    files: int
    bytes: int
    modified: float

    def __str__(self) -> str:
        return f"{self.dag}/{self.run}/{self.job}"


def release_job(job: JobFolder, *, keep_metadata: bool = True) -> Deleted:
    """Delete a job's data files; a job folder that is not there is no error.

    With `keep_metadata`, plan, templates, decisions, manifests, tries and recoveries stay: for `explain` and `replay`,
    and for a subtask that is cleared afterwards (some KB; `gc` takes them later). Manifests then name files that
    are gone.

    Raises:
        ExchangeUnreachableError: the storage refuses to list or delete; run it again.
    """
    folder = locate(job.path)
    try:
        if not keep_metadata:
            return _delete_files(folder, _is_ours)
        return _delete_files(folder, lambda parts: _is_ours(parts) and not _is_metadata(parts))
    except storage_errors() as error:
        raise _undeletable(folder, error) from error


def find_expired(
    root: ExchangePath,
    older_than_seconds: float,
    now: float,
    is_alive: Callable[[str, str], bool] = lambda dag, run: False,
) -> list[ExpiredJob]:
    """Job folders below `root` in which no file is younger than `older_than_seconds`, oldest first; deletes nothing.

    `is_alive(dag, run)` gets *escaped* ids (long ones are shortened and cannot be turned back): compare with
    `escape(dag_id)`, `escape(run_id)` of the runs that are not over. A live run's folder is never listed, however old.
    Where the storage does not tell times, a file counts as new. A folder is a job only if it holds a readable plan.

    Raises:
        ExchangeError: the root holds something, but neither the marker of an exchange nor any job. (Roots that were
            used before there was a marker are known by their jobs.)
        ExchangeUnreachableError: the storage cannot be listed.
    """
    location = locate(root)
    location.forget_listings()
    jobs: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    try:
        files = location.fs.find(location.path, detail=True)
    except storage_errors() as error:
        raise_unlisted(f"exchange {root}", error)
    for name, info in files.items():
        parts = location.at(name).relative_to(location).split("/")
        if len(parts) > 3 and not parts[0].startswith("."):
            jobs.setdefault((parts[0], parts[1], parts[2]), []).append(info)
    folders = [location / "/".join(ids) for ids in jobs]
    # the marker last: another `gc` sets it before it deletes the first plan
    if files and not any(is_planned(folder) for folder in folders) and not is_marked(location):
        raise refuse_unmarked(root)
    found = [_expired(location, ids, infos, now) for ids, infos in jobs.items() if not is_alive(ids[0], ids[1])]
    old = [job for job in found if now - job.modified >= older_than_seconds and is_planned(job.location)]
    return sorted(old, key=lambda job: (job.modified, str(job)))


def delete_expired(
    jobs: Iterable[ExpiredJob], is_alive: Callable[[str, str], bool] = lambda dag, run: False
) -> Iterator[tuple[ExpiredJob, Deleted]]:
    """Delete expired jobs one by one, giving each with what it freed.

    `is_alive` is asked once more right before each deletion, and a job in which a file has changed since it was
    found is left alone. The plan goes last, so that a job that was deleted in part is found again. A root from before
    there was a marker is marked first. Not guaranteed: a run that is cleared within the same instant can still lose its
    data, which then is recomputed.

    Raises:
        ExchangeUnreachableError: the storage refuses; run it again.
    """
    for job in jobs:
        try:
            if is_alive(job.dag, job.run) or _latest_change(job.location) > job.modified:
                continue
            mark_root(job.location.parent.parent.parent)
            freed = _delete_files(job.location, _is_ours)
            _remove_if_empty(job.location.parent)
            _remove_if_empty(job.location.parent.parent)
        except storage_errors() as error:
            raise _undeletable(job.location, error) from error
        yield job, freed


def _is_ours(parts: tuple[str, ...]) -> bool:
    """Whether a name below a job folder is one of the layout's; below an attempt it is Spark's to choose."""
    if _TEMPORARY.fullmatch(parts[-1]) or _is_metadata(parts) or _DERIVED.get(len(parts)) == parts[-1]:
        return True
    if len(parts) > 1 and (parts[0] == "probe" or parts[0].startswith("_server-") or is_landed("/".join(parts[:2]))):
        return True
    return len(parts) > 3 and bool(_SUBTASK.fullmatch(parts[1])) and bool(_ATTEMPT.fullmatch(parts[2]))


def _is_metadata(parts: tuple[str, ...]) -> bool:
    pattern = _METADATA.get(len(parts))
    return pattern is not None and pattern.fullmatch(parts[-1]) is not None


def _expired(root: Location, ids: tuple[str, str, str], infos: list[dict[str, Any]], now: float) -> ExpiredJob:
    dag, run, job = ids
    return ExpiredJob(
        location=root / dag / run / job,
        dag=dag,
        run=run,
        job=job,
        files=len(infos),
        bytes=sum(int(info.get("size") or 0) for info in infos),
        modified=max(_changed(info, now) for info in infos),
    )


def _changed(info: dict[str, Any], unknown: float) -> float:
    seconds = modified_seconds(info)
    return unknown if seconds is None else seconds


def _latest_change(folder: Location) -> float:
    folder.forget_listings()
    infos = folder.fs.find(folder.path, detail=True).values()
    return max((_changed(info, 0.0) for info in infos), default=0.0)


def _delete_files(folder: Location, goes: Callable[[tuple[str, ...]], bool]) -> Deleted:
    folder.forget_listings()
    gone = {
        name: int(info.get("size") or 0)
        for name, info in folder.fs.find(folder.path, detail=True).items()
        if goes(PurePosixPath(folder.at(name).relative_to(folder)).parts)
    }
    plan = (folder / "plan.json").path
    delete_files(folder, [name for name in gone if name != plan])
    delete_files(folder, [name for name in gone if name == plan])
    if folder.is_local:
        _remove_empty_folders(folder)
    return Deleted(len(gone), sum(gone.values()))


def _remove_empty_folders(folder: Location) -> None:
    if not folder.local.is_dir():
        return
    for child in sorted(folder.local.rglob("*"), key=lambda path: len(path.parts), reverse=True):
        if child.is_dir() and not child.is_symlink():
            _remove_if_empty(folder.at(str(child)))
    _remove_if_empty(folder)


def _remove_if_empty(folder: Location) -> None:
    if not folder.is_local:  # object stores have no folders
        return
    try:
        folder.local.rmdir()
    except OSError:  # it holds something, or is gone
        return


def _undeletable(folder: Location, error: Exception) -> ExchangeUnreachableError:
    raise_if_throttled(folder, error)
    return ExchangeUnreachableError(
        f"{folder}: cannot be deleted ({reason_of(error)}); check that Airflow may delete what Spark "
        "writes there, and run it again"
    )
