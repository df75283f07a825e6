"""What tells the root of an exchange from any other folder: a file that `plan` leaves there."""

from __future__ import annotations

from airflow_abs.exchange.errors import DamagedFileError, ExchangeError, IncompatibleFileError, MissingFileError
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate
from airflow_abs.exchange.storage.whole_files import create_exclusively, encode_json, read_bytes, read_json

MARKER_NAME = "_airflow_abs_exchange"


def mark_root(root: ExchangePath) -> None:
    """Say that this is the root of an exchange; a root that is marked already stays as it is.

    Raises:
        ExchangeUnreachableError: it cannot be read or written.
    """
    place = locate(root) / MARKER_NAME
    try:
        read_bytes(place)
    except MissingFileError:
        create_exclusively(place, encode_json({"kind": "exchange"}))


def is_marked(root: Location) -> bool:
    """Whether `mark_root` has been there; a marker of another version counts."""
    return _is_ours(root / MARKER_NAME, {"kind"})


def is_planned(job: Location) -> bool:
    """Whether a folder holds a readable plan of ours; one of another version counts.

    Raises:
        ExchangeUnreachableError: it cannot be read.
    """
    return _is_ours(job / "plan.json", {"id", "regions"})


def refuse_unmarked(root: ExchangePath) -> ExchangeError:
    """The error for a folder that is no exchange."""
    return ExchangeError(
        f"exchange {root}: found neither the file {MARKER_NAME} there nor a run with a readable plan.json; expected "
        "the root of an exchange, which `plan` marks. Nothing was deleted: check the path"
    )


def _is_ours(file: Location, fields: set[str]) -> bool:
    try:
        return fields <= read_json(file).keys()
    except IncompatibleFileError:  # its checksum is right
        return True
    except (MissingFileError, DamagedFileError):
        return False
