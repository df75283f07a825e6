"""The record of a stream's life, one small file beside its checkpoint: `<checkpoint>/_airflow_abs/life.json`.

It is there to be looked at, and no stream needs it: one that is lost, damaged or of another version starts over.
The holder of the checkpoint writes it.
"""

from __future__ import annotations

import logging
from dataclasses import asdict

from airflow_abs.core.stream_life.life import StreamLife
from airflow_abs.exchange.errors import ExchangeError, MissingFileError
from airflow_abs.exchange.records.reading import as_record
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import read_json, write_json

log = logging.getLogger(__name__)

_PLACE = "_airflow_abs/life.json"


def read_life(checkpoint: ExchangePath) -> StreamLife | None:
    """What is remembered; None if there is no record.

    Raises:
        ExchangeError: it is damaged, of another version, or cannot be read.
    """
    path = checkpoint / _PLACE
    try:
        payload = read_json(path)
    except MissingFileError:
        return None
    return as_record(payload, StreamLife, where=str(locate(path)), required=("changes", "batches"))


def continue_life(checkpoint: ExchangePath) -> StreamLife:
    """What is remembered, or nothing, with a line in the log if that is because it cannot be read."""
    try:
        return read_life(checkpoint) or StreamLife()
    except ExchangeError as error:
        log.warning("the stream's record cannot be read, and starts over: %s", error)
        return StreamLife()


def write_life(checkpoint: ExchangePath, life: StreamLife) -> None:
    """Replace the record; if the storage refuses, a line in the log says so."""
    try:
        write_json(checkpoint / _PLACE, asdict(life))
    except ExchangeError as error:
        log.warning("the stream's record cannot be written: %s", error)
