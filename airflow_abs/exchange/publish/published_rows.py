"""How many rows the last runs of a job published of a vertex: what `RowCountChange` compares with.

It lies beside the folders of the runs, which `gc` deletes, and not in the sink: the path of a sink often has the day in
it, and each day's folder would know of no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from airflow_abs.core.expect.verdicts import Verdict
from airflow_abs.exchange.errors import MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.reading import Count, as_record
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import read_json, write_json

_KEPT = 32


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """Rows that one run published."""

    run_id: str
    rows: Count


@dataclass(frozen=True, slots=True)
class _History:
    """The file; oldest first."""

    runs: tuple[PublishedRows, ...] = ()

    @staticmethod
    def from_json(payload: Mapping[str, Any], *, where: str) -> _History:
        return as_record(payload, _History, where=where, required=("runs",))


def rows_before(folder: JobFolder, vertex: str) -> int | None:
    """Rows of the run that was published last before this one; None if there is none.

    A run that was published already, and is repeated, is compared with the one before it.

    Raises:
        DamagedFileError, ExchangeUnreachableError: see `read_json`.
    """
    runs = _read(folder, vertex).runs
    own = next((position for position, run in enumerate(runs) if run.run_id == folder.run_id), len(runs))
    return runs[own - 1].rows if own else None


def remember_published(folder: JobFolder, vertex: str, rows: int) -> None:
    """Store what this run has published; a repetition replaces its number and keeps its place.

    Of two runs that publish in the same instant one may be forgotten: the next run is compared with the other.
    """
    runs = _read(folder, vertex).runs
    own = PublishedRows(folder.run_id, rows)
    kept = tuple(own if run.run_id == own.run_id else run for run in runs)
    history = _History((kept if own in kept else (*kept, own))[-_KEPT:])
    write_json(folder.published_path(vertex), asdict(history))


def remember_rows(folder: JobFolder, verdicts: Iterable[Verdict]) -> None:
    """For the next run: how many rows this one has published of a sink whose row count is looked at.

    Raises:
        ExchangeUnreachableError: they cannot be stored.
    """
    for verdict in verdicts:
        if verdict.expectation.is_row_count:
            remember_published(folder, verdict.vertex, verdict.rows)


def _read(folder: JobFolder, vertex: str) -> _History:
    path = folder.published_path(vertex)
    try:
        return _History.from_json(read_json(path), where=str(locate(path)))
    except MissingFileError:
        return _History()
