"""The Spark Connect server that was started for one run: which application it is, and where it listens.

    <job folder>/server.json                 the record: it names no secret
    <folder>/_server-<key>/                  one start of it
        application.jar                      empty: a standalone master wants a file with every application
        <application id>[.inprogress]        Spark's event log, in which the server says where it listens

No region has a name like `_server-...`: an escaped id never begins so (`paths.py`).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from airflow_abs.exchange.errors import ExchangeUnreachableError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.reading import Count, Seconds, as_record
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import read_json, write_atomic, write_json

_STARTED = "SparkListenerConnectServiceStarted"
# Storage that shows a file only once its writer has closed it.
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "adl", "az", "oss"})


@dataclass(frozen=True, slots=True)
class RunServer:
    """One start of a run's server. `host` is "" until it answers, `application` until it is submitted; all are "" once
    it is stopped.

    `key` is random and public: the server's token is derived from it and from a secret of Airflow's.
    `submitted` is in epoch seconds. With `trusted_network` its token may leave the host in plain text. `conn_id` is the
    Airflow connection of its cluster.
    """

    key: str
    application: str
    submitted: Seconds
    host: str = ""
    port: Count = 0
    trusted_network: bool = False
    conn_id: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(payload: Mapping[str, Any], *, where: str) -> RunServer:
        """Build and check a record; a DamagedFileError names the first field that is wrong."""
        return as_record(payload, RunServer, where=where, required=("host", "port"))


def read_server(folder: JobFolder) -> RunServer | None:
    """The record of the run's server, None if none was ever started."""
    path = folder.server_path
    try:
        return RunServer.from_json(read_json(path), where=str(path))
    except MissingFileError:
        return None


def write_server(folder: JobFolder, server: RunServer) -> None:
    write_json(folder.server_path, server.to_json())


def prepare_start(folder: JobFolder, key: str) -> ExchangePath:
    """Make the folder of one start, with the jar in it.

    Raises:
        ExchangeUnreachableError: it cannot be written, or is on a store that does not show what is being written.
    """
    start = folder.start_path(key)
    location = locate(start)
    if location.scheme in _OBJECT_STORES:
        raise ExchangeUnreachableError(
            f"{location}: a run's Spark server announces its address in a file that it keeps open, which object stores "
            "do not show; give Ephemeral(folder=...) a file system that both Airflow and Spark mount"
        )
    jar = io.BytesIO()
    zipfile.ZipFile(jar, "w").close()
    write_atomic(start / "application.jar", jar.getvalue())
    return start


def read_announcement(folder: JobFolder, key: str) -> tuple[str, int] | None:
    """Host and port that the server says it listens on; None if it has not come so far."""
    location = locate(folder.start_path(key))
    location.forget_listings()
    try:
        names = [entry["name"] for entry in location.fs.ls(location.path, detail=True) if entry["type"] == "file"]
        for name in names:
            if not name.endswith(".jar") and (found := find_address(location.fs.cat_file(name))) is not None:
                return found
    except FileNotFoundError:  # Spark renames the file when it ends
        return None
    except OSError as error:
        raise ExchangeUnreachableError(
            f"{location}: cannot be read ({type(error).__name__}: {error}); check that Airflow may read what Spark "
            "writes there"
        ) from error
    return None


def find_address(log: bytes) -> tuple[str, int] | None:
    """The address in an event log whose last line may not be whole yet."""
    for line in log.decode("utf-8", "replace").splitlines():
        if _STARTED in line and line.endswith("}"):
            event = json.loads(line)
            return str(event["hostAddress"]), int(event["bindingPort"])
    return None


def delete_start(folder: JobFolder, key: str) -> None:
    """What one start left in the exchange; what is gone already is no error."""
    location = locate(folder.start_path(key))
    location.forget_listings()
    try:
        location.fs.rm(location.path, recursive=True)
    except OSError:  # a file system that Spark still writes to: `airflow-abs gc` takes it later
        return
