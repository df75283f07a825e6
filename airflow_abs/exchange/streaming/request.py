"""A request to a running stream: `<checkpoint>/_airflow_abs/request.json`, which its supervisor reads.

A request names the query that it is for, which is another one each time that the stream is compiled: it is never done
to a later try. Anyone who may write to the checkpoint's folder may request.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import Literal

from airflow_abs.exchange.errors import ExchangeError, MissingFileError
from airflow_abs.exchange.records.reading import Seconds, as_record
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import read_json, write_json

log = logging.getLogger(__name__)

_PLACE = "_airflow_abs/request.json"


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """`drain`: end after the batch that is under way. `stop`: end at once.

    Args:
        query: name of the query that is meant.
        by: who asks, in words.
        at: when, in epoch seconds.
    """

    action: Literal["drain", "stop"]
    query: str
    by: str
    at: Seconds


def ask_stream(checkpoint: ExchangePath, request: StreamRequest) -> None:
    """Leave a request, in place of one before it.

    Raises:
        ExchangeUnreachableError: the folder cannot be written.
    """
    write_json(checkpoint / _PLACE, asdict(request))


def read_request(checkpoint: ExchangePath, query: str) -> StreamRequest | None:
    """What is asked of that query; None, with a line in the log if it is because it cannot be read."""
    path = checkpoint / _PLACE
    try:
        request = as_record(read_json(path), StreamRequest, where=str(locate(path)))
    except MissingFileError:
        return None
    except ExchangeError as error:
        log.warning("the request to the stream cannot be read: %s", error)
        return None
    return request if request.query == query else None
