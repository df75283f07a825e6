"""Where the position of an incremental source is kept: a log in the exchange, beside the folders of the job's runs.

    <root>/<dag_id>/_positions/<job>/<vertex>/00000007

`gc` leaves it alone. Its newest state names every file that was ever read, some 150 bytes for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict

from airflow_abs.core.incremental.position import Position
from airflow_abs.exchange.errors import ExchangeError, TargetBusyError
from airflow_abs.exchange.paths import JobFolder, escape
from airflow_abs.exchange.records.reading import as_record
from airflow_abs.exchange.storage.listings import find_infos
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.numbered_log import NumberedLog
from airflow_abs.exchange.storage.whole_files import decode_json, encode_json

_TRIES = 20


def read_position(folder: JobFolder, vertex: str) -> Position:
    """What the runs of the job have read of the vertex' source; nothing before the first.

    Raises:
        DamagedFileError, IncompatibleFileError: it cannot be trusted.
        TargetBusyError: it changes faster than it can be read.
    """
    return _read(_log_of(folder, vertex))[1]


def move_position(folder: JobFolder, vertex: str, change: Callable[[Position], Position]) -> Position:
    """Store what `change` makes of the position, and give it back; of two at once, the second changes what the first
    has left.

    Args:
        change: is called again when another run was faster, and gives its argument back when nothing is to be done.

    Raises:
        TargetBusyError: others were always faster; what `change` raises; see `read_position`.
    """
    log = _log_of(folder, vertex)
    for _ in range(_TRIES):
        number, before = _read(log)
        after = change(before)
        if after == before:
            return before
        if log.append(number + 1, encode_json(asdict(after))):
            log.prune(number)  # the one before stays for who is about to read it
            return after
    raise TargetBusyError(
        f"vertex {vertex!r}: the position of its source was changed {_TRIES} times by others while this run changed "
        "it; run this task again when they have ended"
    )


def check_begins(folder: JobFolder, vertex: str, sources: Collection[str], jobs: Collection[str]) -> None:
    """See that a source without a position is new, and not one that the DAG file called otherwise: it would read again
    what was published long ago.

    Args:
        folder: of the run.
        vertex: whose source it is.
        sources: the vertices of the job with incremental sources.
        jobs: the names of all jobs of the DAG; none if they are not known.

    Raises:
        ExchangeError: the DAG has a position that belongs to none of its vertices; says what to do with it.
    """
    if _log_of(folder, vertex).read() is not None:
        return
    own, known = set(map(escape, sources)), set(map(escape, jobs))
    positions = locate(folder.positions_path)
    try:
        held = sorted({tuple(name.split("/")[:2]) for name in find_infos(positions)})
    except FileNotFoundError:
        return
    job = escape(folder.job)
    left = [
        positions / of / name
        for of, name in held
        if (of != job and known and of not in known) or (of == job and name not in own)
    ]
    if left:
        raise ExchangeError(
            f"vertex {vertex!r}: its source has no position under this name, and {left[0]} is the position of a vertex "
            "that is no longer in the DAG. If that was this source under another name, rename the folder to "
            f"{locate(folder.position_path(vertex))}, or all its files are read and published again; otherwise delete "
            "it"
        )


def _log_of(folder: JobFolder, vertex: str) -> NumberedLog:
    return NumberedLog(locate(folder.position_path(vertex)), f"position of {vertex!r}")


def _read(log: NumberedLog) -> tuple[int, Position]:
    found = log.read()
    if found is None:
        return 0, Position()
    number, content = found
    where = str(log.place(number))
    return number, as_record(decode_json(content, where=where), Position, where=where, required=("runs",))
