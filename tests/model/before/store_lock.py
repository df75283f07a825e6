"""The lock of publishing to an object store as it was before the log; see `object_store`."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable

from airflow_abs.exchange.errors import (
    CommitError,
    TargetBusyError,
)
from airflow_abs.exchange.storage.client_errors import (
    is_contended,
    is_taken,
)
from airflow_abs.exchange.storage.locations import S3_SCHEMES, Location
from airflow_abs.exchange.storage.whole_files import create_exclusively

LEASE_SECONDS = 600.0


class StoreLock:
    """A lock file on an object store, made by an exclusive put and valid for `lease_seconds` from the last `renew`.

    A lock past its lease is taken over, and so is one of the same identity (a retry: two tries of one run put the
    same files). On S3 only the version that was looked at is replaced (`If-Match`), so one of many gets it. Not
    guaranteed elsewhere: two publishers that take over one stale lock at the same moment can both believe to hold it
    until their next `renew`, which then fails for one of them; stores whose client ignores exclusive puts widen that to
    any two that start at the same moment.
    """

    def __init__(
        self,
        location: Location,
        identity: str,
        target: str,
        *,
        now: Callable[[], float],
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._location = location
        self._identity = identity
        self._target = target
        self._now = now
        self._lease_seconds = lease_seconds
        self._token = secrets.token_hex(8)

    def __enter__(self) -> StoreLock:
        if not self._create():
            version = find_version(self._location)  # before the content: what changes between the two is noticed
            holder = self._read()
            if not self._may_take_over(holder):
                raise _conflict(self._target, holder)
            if not self._take_over(version):
                raise _conflict(self._target, self._read())
        self._check_mine()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_mine():
            self._location.fs.rm_file(self._location.path)

    def renew(self) -> None:
        """Start the lease again.

        Raises:
            TargetBusyError: somebody took the lock over meanwhile.
        """
        version = find_version(self._location)
        self._check_mine()
        if version is None:
            self._location.fs.pipe_file(self._location.path, self._content())
        elif not replace_version(self._location, self._content(), version):
            raise _conflict(self._target, self._read())

    def _create(self) -> bool:
        return create_exclusively(self._location, self._content())

    def _take_over(self, version: str | None) -> bool:
        if version is not None:
            return replace_version(self._location, self._content(), version)
        with contextlib.suppress(FileNotFoundError):
            self._location.fs.rm_file(self._location.path)
        return self._create()

    def _content(self) -> bytes:
        until = self._now() + self._lease_seconds
        return json.dumps({"identity": self._identity, "token": self._token, "until": until}).encode()

    def _read(self) -> bytes:
        try:
            return self._location.read_whole()
        except FileNotFoundError:
            return b""

    def _may_take_over(self, holder: bytes) -> bool:
        fields = _fields(holder)
        return not fields or fields.get("identity") == self._identity or float(fields.get("until", 0)) < self._now()

    def _is_mine(self) -> bool:
        return _fields(self._read()).get("token") == self._token

    def _check_mine(self) -> None:
        if not self._is_mine():
            raise _conflict(self._target, self._read())


def _fields(content: bytes) -> dict[str, str]:
    try:
        fields = json.loads(content)
    except ValueError:  # its holder was killed while it wrote
        return {}
    return fields if isinstance(fields, dict) else {}


def _conflict(target: str, holder: bytes) -> CommitError:
    who = _fields(holder).get("identity") or "another run"
    return TargetBusyError(
        f"sink {target}: {who} is publishing to it right now; nothing was published here: run this commit again "
        "when the other has ended, and give runs that may overlap targets of their own"
    )


def find_version(location: Location) -> str | None:
    """What S3 calls this state of a file (its ETag), to replace only that; None for no file, and on other storage."""
    if location.scheme not in S3_SCHEMES:
        return None
    try:
        return str(location.fs.info(location.path)["ETag"])
    except FileNotFoundError:
        return None


def replace_version(location: Location, data: bytes, version: str) -> bool:
    """Write a file on S3 if it is still the version that `find_version` gave; False if it is another one, or gone."""
    try:
        location.fs.pipe_file(location.path, data, IfMatch=version)
    except FileNotFoundError:
        return False
    except OSError as error:
        if is_taken(error) or is_contended(error):
            return False
        raise
    return True
