"""`hot-key.json`: the most frequent key of the hottest subpartition that a region reads, as one of its subtasks saw it.

It holds a value of the data. It is a help for people, and nothing depends on it: without it, or with one that cannot be
read, a region has none.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from airflow_abs.core.hot_key import HotKey
from airflow_abs.exchange.errors import DamagedFileError, IncompatibleFileError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.reading import as_record
from airflow_abs.exchange.storage.whole_files import read_json, write_json


@dataclass(frozen=True, slots=True)
class _Stored:
    decision: str
    hot_key: HotKey


def write_hot_key(folder: JobFolder, region: str, decision: str, found: HotKey) -> None:
    """`decision` is the digest of the one whose ranges it was found in."""
    write_json(folder.hot_key_path(region), asdict(_Stored(decision, found)))


def read_hot_key(folder: JobFolder, region: str, decision: str) -> HotKey | None:
    """What was found under this decision.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    path = folder.hot_key_path(region)
    try:
        stored = as_record(read_json(path), _Stored, where=str(path))
    except (MissingFileError, DamagedFileError, IncompatibleFileError):
        return None
    return stored.hot_key if stored.decision == decision else None
