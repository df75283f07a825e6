"""Which sockets a process holds, by the kernel's own tables."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def open_sockets(pid: int) -> set[str]:
    """Inodes of its sockets, as /proc/net/tcp names them; descriptors that close meanwhile are passed over."""
    inodes = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
    return inodes
