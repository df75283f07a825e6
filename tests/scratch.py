"""Where tests write: in memory where there is room, because they write hundreds of thousands of small files.

Whoever sets TMPDIR chooses, and finds there afterwards what failed tests have left.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import psutil

MEMORY = Path("/dev/shm")
LEAST_FREE = 8 * 2**30
"""Of the file system. A run of all tests writes less than half of it."""
LEAST_AVAILABLE = 14 * 2**30
"""Of the host's memory, with what servers and services need besides."""


def write_to_memory() -> None:
    """Make a folder there the one for temporary files, of this process and all that it starts; it goes with it."""
    if "TMPDIR" in os.environ or not is_fit(MEMORY, psutil.virtual_memory().available):
        return
    folder = tempfile.mkdtemp(prefix="airflow-abs-", dir=MEMORY)
    Path(folder).chmod(0o711)  # PostgreSQL, which does not run as root, has its folder below
    owner = os.getpid()
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))


def is_fit(folder: Path, available: int) -> bool:
    """Whether files, also programs, can be written there, and enough of them.

    Args:
        available: bytes of the host's memory.
    """
    if available < LEAST_AVAILABLE or not os.access(folder, os.W_OK):
        return False
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize >= LEAST_FREE and not system.f_flag & os.ST_NOEXEC
