"""One URI for both sides: what Airflow's `ObjectStoragePath` opens, and what Spark's Hadoop does.

| written | Airflow opens | Spark gets |
|---|---|---|
| `s3://conn@bucket/x` | the same | `s3a://bucket/x` |
| `gs://conn@bucket/x` | the same | `gs://bucket/x` |
| `abfss://conn@container@account.dfs.core.windows.net/x` | `abfss://conn@container/x` | less `conn@` |
| `hdfs://conn@namenode:8020/x` | not yet: see `hooks/storage.py` | `hdfs://namenode:8020/x` |
| `file:///x`, `file:/x` | `file:///x` | `file:///x` |

The connection may be left out everywhere.
"""

from __future__ import annotations

import re

from airflow_abs.exchange.storage.locations import S3_SCHEMES

AZURE_SCHEMES = ("abfs", "abfss")
_HAVE_CONNECTIONS = (*S3_SCHEMES, "gs", "gcs", "hdfs", *AZURE_SCHEMES)
_NO_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/(?!/).*)", re.DOTALL)
_accounts: dict[tuple[str | None, str], str] = {}


def with_authority(uri: str) -> str:
    """The URI with two slashes: `file:/x` is `file:///x`; paths stay.

    Raises:
        ValueError: another scheme without a place, such as `hdfs:/x`: Airflow does not know Hadoop's default.
    """
    found = _NO_AUTHORITY.fullmatch(uri)
    if found is None:
        return uri
    if found[1].lower() != "file":
        raise ValueError(
            f"{uri!r}: found no host or bucket in it; expected {found[1]}://<host or bucket>{found[2]}: Airflow does "
            "not know Hadoop's default file system"
        )
    return f"file://{found[2]}"


def without_connection(uri: str) -> str:
    """The URI less the connection that Airflow reads before an ``@``: ``s3://minio@lake/x`` is ``s3://lake/x``."""
    scheme, separator, authority, path = _split(uri)
    if not separator or scheme not in _HAVE_CONNECTIONS:
        return uri
    return f"{scheme}://{_take_apart(scheme, authority)[1]}{path}"


def connection_of(uri: str) -> str | None:
    """The connection that it names, None without one."""
    scheme, separator, authority, _ = _split(uri)
    return _take_apart(scheme, authority)[0] if separator else None


def for_airflow(uri: str) -> str:
    """The URI as `ObjectStoragePath` takes it, which reads whatever is before an ``@`` as a connection. The account of
    a container at Azure is in that connection; `account_of` remembers it for Spark.

    Raises:
        ValueError: see `with_authority`; or one connection has a container of that name in two accounts.
    """
    scheme, separator, authority, path = _split(with_authority(uri))
    if not separator or scheme not in AZURE_SCHEMES:
        return with_authority(uri)
    connection, place = _take_apart(scheme, authority)
    container, _, account = place.partition("@")
    if account and _accounts.setdefault((connection, container), account) != account:
        raise ValueError(
            f"{uri!r}: found container {container!r} in account {_accounts[connection, container]!r} before; expected "
            "one account for a connection: give the other one a connection of its own"
        )
    return f"{scheme}://{f'{connection}@' if connection else ''}{container}{path}"


def for_hadoop(uri: str) -> str:
    """The URI, which names no connection, as Spark reaches it: Hadoop's S3 connector answers to ``s3a`` and, unless
    told so, to nothing else; that of Azure wants the account.

    Raises:
        ValueError: a container at Azure without its account.
    """
    scheme, separator, authority, path = _split(uri)
    if separator and scheme in AZURE_SCHEMES and "@" not in authority:
        raise ValueError(
            f"{uri!r}: found no storage account in it; expected {scheme}://<container>@<account>.dfs.core.windows.net"
            f"{path}: Spark cannot look into Airflow's connection (which may stand before it, with an @)"
        )
    return f"s3a://{authority}{path}" if separator and scheme in S3_SCHEMES else uri


def account_of(connection: str | None, container: str) -> str | None:
    """The account of a container that `for_airflow` has met in this process."""
    return _accounts.get((connection, container))


def _split(uri: str) -> tuple[str, str, str, str]:
    scheme, separator, rest = uri.partition("://")
    authority, slash, path = rest.partition("/")
    return scheme, separator, authority, f"{slash}{path}"


def _take_apart(scheme: str, authority: str) -> tuple[str | None, str]:
    """Connection and place. At Azure the place is `container@account`; hosts of accounts have dots, containers none."""
    before, _, last = authority.rpartition("@")
    if scheme in AZURE_SCHEMES and "." in last and before:
        connection, _, container = before.rpartition("@")
        return connection or None, f"{container}@{last}"
    return before or None, last
