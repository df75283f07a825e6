"""Records that another process wrote, as the dataclasses that they are: every field is there and of its type.

The dataclass is the description: its annotations say what a field may be, its defaults which fields an older version
did not write. Fields that it does not know, which a newer one wrote, are passed over. msgspec checks and builds it in
one pass, in half the time that reading field by field took.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec

from airflow_abs.exchange.errors import DamagedFileError

Record = TypeVar("Record")

Count = Annotated[int, msgspec.Meta(ge=0)]
"""Of rows, bytes, attempts, or the index of one of them: at least 0."""
Positive = Annotated[int, msgspec.Meta(ge=1)]
Subtasks = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
"""How many a region has; far more than Airflow maps would only ask for memory."""
Seconds = Annotated[float, msgspec.Meta(ge=0)]
"""A duration, or a time since the epoch."""

_described: set[type] = set()
_describing = threading.RLock()


def as_record(
    payload: Mapping[str, Any], kind: type[Record], *, where: str, part: str = "", required: Iterable[str] = ()
) -> Record:
    """Build a record from what `read_json` gave.

    Args:
        payload: without version and checksum.
        kind: the dataclass.
        where: names the file in errors.
        part: of the file, if it is not all of it.
        required: fields that have a default for who makes a record, but are in every stored one.

    Raises:
        DamagedFileError: a field is missing, of another type or out of its bounds: the first one is named.
    """
    try:
        for name in required:
            if name not in payload:
                refuse(where, f"{part}Object missing required field `{name}`")
        return _convert(payload, kind)
    except msgspec.ValidationError as error:
        refuse(where, f"{part}{error}")


def _convert(payload: Mapping[str, Any], kind: type[Record]) -> Record:
    """msgspec describes a class to itself when it first meets it; a second thread that meets it meanwhile gets half a
    description, and the process dies of it (msgspec 0.22). So the first time is one thread's alone."""
    if kind in _described:
        return msgspec.convert(payload, kind)
    with _describing:
        try:
            return msgspec.convert(payload, kind)
        finally:
            _described.add(kind)


def refuse(where: str, reason: str) -> NoReturn:
    """Raise DamagedFileError for a record that does not say what it has to say."""
    raise DamagedFileError(
        f"{where}: {reason}; the record is damaged, or another version of airflow_abs wrote it: clear the task that "
        "writes it, or use that version",
        path=where,
    )
