"""One publisher for each target at a time.

Local: `flock` on a lock file, which the kernel gives back when its holder dies, so nothing is ever stale. (On NFS it
holds between hosts from version 4 on.) Elsewhere: a lock file made by an exclusive put, with a lease.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from airflow_abs.exchange.errors import CommitConflictError, CommitError
from airflow_abs.exchange.storage.locations import Location
from airflow_abs.exchange.storage.whole_files import create_exclusively, find_version, make_folder, replace_version

LEASE_SECONDS = 600.0


@contextlib.contextmanager
def hold_local_lock(path: Path, identity: str, target: str) -> Iterator[None]:
    """Hold the lock file at `path` while the block runs; its folder is made, and both go when it is over.

    Raises:
        CommitConflictError: a living process holds it; the message names that run.
    """
    descriptor = _lock(path, target)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"identity": identity, "pid": os.getpid()}).encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # before the lock goes, so that nobody locks a file that is about to vanish
        os.close(descriptor)
        with contextlib.suppress(OSError):  # others may be publishing next to us
            path.parent.rmdir()


def _lock(path: Path, target: str) -> int:
    while True:
        make_folder(path.parent)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # another publisher just removed the folder
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(descriptor, path):
                return descriptor
        except BlockingIOError as error:
            holder = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            raise _conflict(target, holder) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # we locked a file that its last holder had unlinked: take the new one


def _is_still(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


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
        now: Callable[[], float] = time.time,
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
            CommitConflictError: somebody took the lock over meanwhile.
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
    return CommitConflictError(
        f"sink {target}: {who} is publishing to it right now; nothing was published here: run this commit again "
        "when the other has ended, and give runs that may overlap targets of their own"
    )
