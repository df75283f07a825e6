"""What a stream runs, as its worker compiled it: the triggerer starts it from here, again and again."""

from __future__ import annotations

import hashlib

from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.storage.client_errors import raise_unlisted, storage_errors
from airflow_abs.exchange.storage.deletion import delete_files
from airflow_abs.exchange.storage.locations import ExchangePath, locate
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


def forget_other_queries(checkpoint: ExchangePath, digest: str) -> None:
    """Delete what earlier tries have stored; for who holds the checkpoint and runs this one.

    Raises:
        ExchangeUnreachableError: the storage refuses.
    """
    folder = locate(checkpoint / _FOLDER)
    folder.forget_listings()
    try:
        found = [folder.at(str(path)) for path in folder.fs.find(folder.path)]
        delete_files(folder, [each.path for each in found if each.name.endswith(".pb") and each.name != f"{digest}.pb"])
    except storage_errors() as error:
        raise_unlisted(folder, error)
