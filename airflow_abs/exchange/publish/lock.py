"""One publisher for each local target at a time: `flock` on a lock file.

The kernel gives it back when its holder dies, so nothing is ever stale. (On NFS it holds between hosts from version 4
on.) For object stores see `claim.py`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from airflow_abs.exchange.errors import TargetBusyError
from airflow_abs.exchange.storage.whole_files import make_folder


@contextlib.contextmanager
def hold_local_lock(path: Path, identity: str, target: str) -> Iterator[None]:
    """Hold the lock file at `path` while the block runs; its folder is made, and both go when it is over.

    Raises:
        TargetBusyError: a living process holds it; the message names that run.
    """
    descriptor = _lock(path, target)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"identity": identity, "pid": os.getpid()}).encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # before the lock goes, so that no process locks a file that is about to vanish
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
            raise conflict(target, str(_fields(holder).get("identity", ""))) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # we locked a file that its last holder had unlinked: take the new one


def _is_still(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _fields(content: bytes) -> dict[str, object]:
    try:
        fields = json.loads(content)
    except ValueError:  # its holder was killed while it wrote
        return {}
    return fields if isinstance(fields, dict) else {}


def conflict(target: str, holder: str) -> TargetBusyError:
    """The error of a publisher that another one keeps out; `holder` is "" if that is not known."""
    return TargetBusyError(
        f"sink {target}: {holder or 'another run'} is publishing to it right now; nothing was published here: run this "
        "commit again when the other has ended, and give runs that may overlap targets of their own"
    )
