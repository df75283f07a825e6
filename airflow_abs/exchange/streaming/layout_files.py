"""What Spark's files of a checkpoint say of the query that wrote them: its sources, its operators, their state.

offsets/<batch>                           after a version and settings one line for each source
state/<operator>/_metadata/metadata       "v1", then JSON: kind of the operator, names of its stores
state/<operator>/0/_metadata/schema       of the store "default"; of others with their name after the 0:
                                          Java's writeUTF of "v2", and key and value as JSON in numbered pieces
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from airflow_abs.core.streaming.query_layout import QueryLayout, SparkType, StatefulOperator, StateStore
from airflow_abs.exchange.paths import is_hidden
from airflow_abs.exchange.sources.sink_log import last_batch_of
from airflow_abs.exchange.storage.client_errors import raise_unread, storage_errors
from airflow_abs.exchange.storage.foreign_logs import SINK_LOG, find_log, names_in
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate

_DEFAULT = "default"
_UNKNOWN = (ValueError, LookupError, TypeError, struct.error)
"""Written otherwise than we know: by another Spark, or by an operator whose state is described elsewhere."""


def read_layout(folder: ExchangePath, batch: int) -> QueryLayout | None:
    """Of the query that ran that batch; None if its files are not as we know them.

    An operator with state that is described in another way has no stores.

    Args:
        folder: which Spark knows as ``checkpointLocation``.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    place = locate(folder)
    place.forget_listings()
    try:
        return _layout(place, batch)
    except storage_errors() as error:
        raise_unread(place, error)
    except _UNKNOWN:
        return None


def sink_has_batch(sink: ExchangePath, batch: int) -> bool:
    """Whether the log that Spark keeps in a sink of files has that batch.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    place = locate(sink) / SINK_LOG
    place.forget_listings()
    try:
        return any(place.fs.exists((place / name).path) for name in (f"{batch}", f"{batch}.compact"))
    except storage_errors() as error:
        raise_unread(place, error)


def last_sink_batch(sink: ExchangePath) -> int | None:
    """The last batch in the log that Spark keeps in a sink of files; None if there is no log.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    place = locate(sink)
    place.forget_listings()
    try:
        return last_batch_of(place)
    except storage_errors() as error:
        raise_unread(place, error)


def find_foreign(sink: ExchangePath) -> str | None:
    """What others have put into a folder that no streaming query has written yet: a table, or the first file or folder
    that is not hidden. None if it is empty, does not exist, or has only the empty log with which a query starts.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    place = locate(sink)
    place.forget_listings()
    try:
        names = names_in(place)
        log = find_log(place, names)
    except storage_errors() as error:
        raise_unread(place, error)
    if log is not None and log.folder != SINK_LOG:
        return log.owner
    return min((name for name in names if not is_hidden(name)), default=None)


def _layout(place: Location, batch: int) -> QueryLayout:
    version, settings, *sources = (place / f"offsets/{batch}").read_whole().decode().splitlines()
    if version != "v1":
        raise ValueError(version)
    state = place / "state"
    paths = place.fs.ls(state.path, detail=False) if place.fs.exists(state.path) else []
    numbers = sorted(int(name) for path in paths if (name := place.at(str(path)).name).isdecimal())
    operators = tuple(_operator(state / str(number), number) for number in numbers)
    return QueryLayout(len(sources), operators, json.loads(settings)["conf"])


def _operator(place: Location, number: int) -> StatefulOperator:
    version, text = (place / "_metadata/metadata").read_whole().decode().splitlines()
    if version != "v1":
        raise ValueError(version)
    metadata: Mapping[str, Any] = json.loads(text)
    names = [store["storeName"] for store in metadata["stateStoreInfo"]]
    stores = tuple(store for name in names if (store := _store(place, name)) is not None)
    return StatefulOperator(number, metadata["operatorInfo"]["operatorName"], stores)


def _store(place: Location, name: str) -> StateStore | None:
    try:
        data = (place / f"0/{'' if name == _DEFAULT else f'{name}/'}_metadata/schema").read_whole()
    except FileNotFoundError:
        return None
    try:
        return _parse_schemas(name, data)
    except _UNKNOWN:
        return None


def _parse_schemas(name: str, data: bytes) -> StateStore:
    version, at = _text(data, 0)
    if version != "v2":
        raise ValueError(version)
    key, at = _in_pieces(data, at)
    value, at = _in_pieces(data, at)
    return StateStore(name, key, value)


def _in_pieces(data: bytes, at: int) -> tuple[SparkType, int]:
    (pieces,) = struct.unpack_from(">i", data, at)
    at += 4
    texts = []
    for _ in range(pieces):
        text, at = _text(data, at)
        texts.append(text)
    schema: SparkType = json.loads("".join(texts))
    return schema, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    """What Java's `writeUTF` wrote, and where it ends."""
    (length,) = struct.unpack_from(">H", data, at)
    end = at + 2 + length
    return data[at + 2 : end].decode(), end
