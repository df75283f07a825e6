"""Where the position of an incremental source is kept: a log in the exchange, beside the folders of the job's runs.

    <root>/<dag_id>/_positions/<job>/<vertex>/00000007

`gc` leaves it alone. Its newest state names every file that was ever read, some 150 bytes for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from airflow_abs.core.incremental.position import Position
from airflow_abs.exchange.errors import TargetBusyError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.reading import as_record
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


def _log_of(folder: JobFolder, vertex: str) -> NumberedLog:
    return NumberedLog(locate(folder.position_path(vertex)), f"position of {vertex!r}")


def _read(log: NumberedLog) -> tuple[int, Position]:
    found = log.read()
    if found is None:
        return 0, Position()
    number, content = found
    where = str(log.place(number))
    return number, as_record(decode_json(content, where=where), Position, where=where, required=("runs",))
