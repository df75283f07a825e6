"""A Delta table's folder, by deltalake's own access to storage: the same credentials for its log and for its files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from deltalake import DeltaTable
from deltalake._internal import DeltaFileSystemHandler
from deltalake.exceptions import TableNotFoundError

from airflow_abs.exchange.storage.locations import S3_SCHEMES
from airflow_abs.exchange.storage.uris import with_authority, without_connection
from airflow_abs.tables.errors import TableError, first_line

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

_S3 = re.compile(rf"(?:{'|'.join(S3_SCHEMES)})://")
_OF_AIRFLOW = {
    "aws_session_token": "AWS_SESSION_TOKEN",
    "region_name": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
}
"""What extras of Airflow's connections to S3 call what deltalake calls otherwise."""


def library_uri(path: str) -> str:
    """A table's path as deltalake takes it: without Airflow's connection, ``s3`` for all that mean it."""
    return _S3.sub("s3://", without_connection(with_authority(path)))


def storage_options(path: str, properties: Mapping[str, str]) -> dict[str, str]:
    """What deltalake has to know of a storage.

    Args:
        path: of the table; of a path on S3 the properties are translated, others are handed on as they are.
        properties: what the connection holds: its extra, ``credential`` (login and password) and ``uri`` (its host).
    """
    if not library_uri(path).startswith("s3://"):
        return {name: value for name, value in properties.items() if name not in ("credential", "uri")}
    options = {_OF_AIRFLOW.get(name, name): value for name, value in properties.items() if _is_of_s3(name)}
    if "credential" in properties:
        key, _, secret = properties["credential"].partition(":")
        options |= {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
    if options.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        options.setdefault("AWS_ALLOW_HTTP", "true")
    return options


def _is_of_s3(name: str) -> bool:
    return name in _OF_AIRFLOW or name.lower().startswith("aws_")


def load_table(path: str, options: Mapping[str, str], version: int | None = None) -> DeltaTable:
    """Load a table as it is now, or as it was.

    Raises:
        TableError: there is none, it has no such version, or the storage cannot be read.
    """
    if "%" in path or "\\" in path:
        raise TableError(
            f"table {path}: its path holds a % or a backslash, which deltalake takes for an escape; move the table to "
            "one without"
        )
    try:
        newest = DeltaTable(library_uri(path), storage_options=dict(options) or None)
    except TableNotFoundError as error:
        raise TableError(
            f"table {path}: there is no Delta table: {first_line(error)}; check the path, which is the folder that "
            "_delta_log is in. airflow_abs creates no tables"
        ) from error
    except Exception as error:  # of whatever the storage's kind brings
        raise TableError(
            f"table {path}: its log cannot be read: {first_line(error)}; check the path and the connection that it "
            "names, whose login, password and extra are those of the storage"
        ) from error
    if version is None or version == newest.version():
        return newest
    if version > newest.version():
        raise TableError(
            f"table {path}: has no version {version}; the newest one is {newest.version()}. Name one that is there, or "
            "leave version= out for the newest"
        )
    try:
        return DeltaTable(library_uri(path), version=version, storage_options=dict(options) or None)
    except Exception as error:
        raise TableError(
            f"table {path}: version {version} is no longer in its log ({first_line(error)}): older entries are cleaned "
            "up after delta.logRetentionDuration; name a later version, or leave version= out for the newest"
        ) from error


class TableFolder:
    """The files below a table's path, by names as they are on the storage."""

    def __init__(self, path: str, options: Mapping[str, str]) -> None:
        self._handler = DeltaFileSystemHandler(library_uri(path), dict(options))

    def sizes(self) -> dict[str, int]:
        """Bytes of every file by name; one listing."""
        found: list[FileInfo] = self._handler.get_file_info_selector("", recursive=True)
        return {info.path: info.size for info in found if info.is_file}

    def read(self, name: str) -> bytes:
        """All of a file that is not big.

        Raises:
            FileNotFoundError: it is not there.
        """
        stream: Any = self._handler.open_input_file(name)
        try:
            return bytes(stream.read(stream.size()))
        finally:
            stream.close()

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """A stream to a new file."""
        stream: Any = self._handler.open_output_stream(name, None)
        try:
            yield cast(BinaryIO, stream)
        finally:
            stream.close()

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """A stream from a file."""
        stream: Any = self._handler.open_input_file(name)
        try:
            yield cast(BinaryIO, stream)
        finally:
            stream.close()
