"""What a stream runs, as its worker compiled it: the triggerer starts it from here, again and again."""

from __future__ import annotations

import hashlib

from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.storage.client_errors import raise_unlisted, raise_unread, storage_errors
from airflow_abs.exchange.storage.deletion import delete_files
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate
from airflow_abs.exchange.storage.whole_files import read_bytes, write_atomic

_FOLDER = "_airflow_abs/queries"


def store_query(checkpoint: ExchangePath, plan: bytes) -> str:
    """Keep it beside the checkpoint, under the digest that is returned."""
    digest = hashlib.sha256(plan).hexdigest()[:32]
    write_atomic(checkpoint / f"{_FOLDER}/{digest}.pb", plan)
    return digest


def read_query(checkpoint: ExchangePath, digest: str) -> bytes:
    """The plan of that digest.

    Raises:
        MissingFileError: it is not there.
        DamagedFileError: it is not what was stored.
    """
    path = checkpoint / f"{_FOLDER}/{digest}.pb"
    plan = read_bytes(path)
    if hashlib.sha256(plan).hexdigest()[:32] != digest:
        where = str(locate(path))
        raise DamagedFileError(f"{where}: is not what was stored there; clear the task of the stream", path=where)
    return plan


def read_stored_queries(checkpoint: ExchangePath) -> tuple[bytes, ...]:
    """The plans that earlier tries have stored: as a rule one, of the try that held the checkpoint last.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    folder = locate(checkpoint / _FOLDER)
    try:
        return tuple(folder.at(path).read_whole() for path in _stored(folder))
    except FileNotFoundError:  # another try deletes them just now
        return ()
    except storage_errors() as error:
        raise_unread(folder, error)


def forget_other_queries(checkpoint: ExchangePath, digest: str) -> None:
    """Delete what earlier tries have stored; for who holds the checkpoint and runs this one.

    Raises:
        ExchangeUnreachableError: the storage refuses.
    """
    folder = locate(checkpoint / _FOLDER)
    try:
        delete_files(folder, [path for path in _stored(folder) if folder.at(path).name != f"{digest}.pb"])
    except storage_errors() as error:
        raise_unlisted(folder, error)


def _stored(folder: Location) -> list[str]:
    folder.forget_listings()
    return [str(path) for path in folder.fs.find(folder.path) if str(path).endswith(".pb")]
