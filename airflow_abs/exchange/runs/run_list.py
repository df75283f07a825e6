"""What an exchange holds: one entry for each job of each DAG run that was planned in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_abs.exchange.paths import JobFolder, escape, unescape
from airflow_abs.exchange.storage.client_errors import raise_unlisted, storage_errors
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate, modified_seconds


@dataclass(frozen=True, slots=True)
class HeldRun:
    """One planned job; `planned` is the Unix time of its plan.json, None if the storage does not tell."""

    folder: JobFolder
    planned: float | None

    def __str__(self) -> str:
        return f"{self.folder.dag_id}/{self.folder.run_id}/{self.folder.job}"


def list_runs(root: ExchangePath, dag_id: str | None = None, run_id: str | None = None) -> list[HeldRun]:
    """Planned jobs below `root`, newest first; those of one DAG, or of one of its runs, if that is given.

    Folders that are not of our layout are passed over, and so are ids above 200 bytes, which their folders do not tell
    (unless they are given).

    Raises:
        ExchangeUnreachableError: the storage cannot be listed.
    """
    location = locate(root)
    location.forget_listings()
    try:
        found = list(_walk(root, location, dag_id, run_id))
    except storage_errors() as error:
        raise_unlisted(f"exchange {root}", error)
    return sorted(found, key=lambda held: (-(held.planned or 0.0), str(held)))


def folder_of(path: ExchangePath) -> JobFolder:
    """The job folder at this very path.

    Raises:
        ValueError: a name on the way is no escaped id, or a shortened one.
    """
    job, run, dag = path, path.parent, path.parent.parent
    return JobFolder(dag.parent, unescape(dag.name), unescape(run.name), unescape(job.name))


def _walk(root: ExchangePath, location: Location, dag_id: str | None, run_id: str | None) -> Iterator[HeldRun]:
    for dag in [escape(dag_id)] if dag_id else _folders(location):
        for run in [escape(run_id)] if run_id else _folders(location / dag):
            for job in _folders(location / dag / run):
                ids = _ids(dag, run, job, dag_id, run_id)
                plan = _info(location / dag / run / job / "plan.json")
                if ids and plan is not None:
                    yield HeldRun(JobFolder(root, *ids), modified_seconds(plan))


def _ids(dag: str, run: str, job: str, dag_id: str | None, run_id: str | None) -> tuple[str, str, str] | None:
    try:
        return dag_id or unescape(dag), run_id or unescape(run), unescape(job)
    except ValueError:
        return None


def _folders(location: Location) -> list[str]:
    try:
        entries = location.fs.ls(location.path, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in entries if entry["type"] == "directory"]


def _info(file: Location) -> dict[str, Any] | None:
    try:
        return dict(file.fs.info(file.path))
    except (FileNotFoundError, NotADirectoryError):
        return None
