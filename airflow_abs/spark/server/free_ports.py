"""Ports for services that are told theirs before they start."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

_LOOPBACK = "127.0.0.1"
_LOWEST = 15_000
_FEWEST = 1_000
"""With fewer ports than this below the system's own range, the system chooses."""
_OWN_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def choose_free_ports(count: int) -> list[int]:
    """Different free ports on loopback.

    Below the range from which Linux gives a port to programs that ask for any, as each Spark driver, executor and
    Python worker does: between the choice and the start of the service, perhaps minutes later, none of them gets it.

    Raises:
        OSError: the system has no free port.
    """
    with ExitStack() as stack:
        candidates = _candidates()
        ports: list[int] = []
        while len(ports) < count:
            listener = stack.enter_context(socket.socket())
            try:
                listener.bind((_LOOPBACK, candidates.pop() if candidates else 0))
            except OSError:
                if not candidates:
                    raise
            else:
                ports.append(int(listener.getsockname()[1]))
        return ports


def _candidates() -> list[int]:
    """In a random order, so that two processes that choose at once hardly ever choose the same."""
    try:
        first_of_system = int(_OWN_RANGE.read_text(encoding="ascii").split()[0])
    except OSError:  # not Linux
        return []
    below = range(_LOWEST, first_of_system)
    return random.sample(below, len(below)) if len(below) >= _FEWEST else []
