"""Where the exchange is that a command is about: as it is given, else as this host's Airflow is configured.

Airflow itself is loaded only for a URI that names one of its connections: importing it takes seconds.
"""

from __future__ import annotations

import configparser
import os
import re
from pathlib import Path

from airflow_abs.core.settings import SECTION
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.uris import connection_of, with_authority

VARIABLE = "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE"
_FILE = re.compile("^file://[^/]*")
_OPTION = "exchange"


def open_exchange(given: str | None) -> ExchangePath:
    """The root that is given, else the one of the environment, else the one in airflow.cfg.

    Raises:
        ValueError: there is none, or its storage cannot be opened here.
    """
    root = find_exchange(given)
    if root is None:
        raise ValueError(
            f"no exchange is given; name it with --exchange, or set {VARIABLE} or [{SECTION}] {_OPTION} in "
            f"{_config_file()}"
        )
    return root


def find_exchange(given: str | None) -> ExchangePath | None:
    """As `open_exchange`; None if there is none."""
    uri = given or os.environ.get(VARIABLE) or _configured()
    return open_uri(uri) if uri else None


def open_uri(uri: str, what: str = "exchange") -> ExchangePath:
    """A local path, a `file:` URI, or another one; with the connection that it names (``s3://conn_id@bucket``), as
    tasks open it. `what` it is stands in the error.

    Raises:
        ValueError: there is no driver for it, or no such connection.
    """
    uri = with_authority(uri)
    if "://" not in uri:
        return Path(uri).absolute()
    if uri.startswith("file://"):
        return Path(_FILE.sub("", uri))
    conn_id = connection_of(uri)
    try:
        path = _with_connection(uri) if conn_id else _without_connection(uri)
        locate(path)  # connects, or says what is missing
    except Exception as error:  # of fsspec, of a driver, of Airflow: each has a tree of its own
        advice = (
            f"it names the Airflow connection {conn_id!r}: run this where Airflow has it, or leave `{conn_id}@` "
            "out and provide credentials as the storage's own tools expect them"
            if conn_id
            else "install the driver, and provide credentials as the storage's own tools expect them"
        )
        raise ValueError(f"{what} {uri}: cannot be opened here ({type(error).__name__}: {error}); {advice}") from error
    return path


def _without_connection(uri: str) -> ExchangePath:
    from upath import UPath

    return UPath(uri)


def _with_connection(uri: str) -> ExchangePath:
    from airflow_abs.hooks.storage import open_path

    return open_path(uri)


def _config_file() -> Path:
    """airflow.cfg, where Airflow looks for it."""
    home = os.environ.get("AIRFLOW_HOME") or "~/airflow"
    return Path(os.environ.get("AIRFLOW_CONFIG") or f"{home}/airflow.cfg").expanduser()


def _configured() -> str | None:
    config = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        config.read(_config_file(), encoding="utf-8")
    except (OSError, configparser.Error):  # what Airflow cannot read either is its own command's to tell
        return None
    value = os.path.expandvars(config.get(SECTION, _OPTION, fallback="")).strip()
    return value or None
