"""Awaiting what services do: they do not say when it is there, so they are asked again and again, for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 240.0  # of a machine that does much else; on a quiet one hardly anything takes thirty
POLL_SECONDS = 0.4


def wait_until(what: Callable[[], bool], seconds: float = SECONDS, *, seen: Callable[[], object] = str) -> float:
    """Seconds until it was so; they are no measure of the project but of the machine. `seen` is told if it never is."""
    started = time.monotonic()
    while not what():
        assert time.monotonic() - started < seconds, f"not so after {seconds:g} s: {seen()}"
        time.sleep(POLL_SECONDS)
    return time.monotonic() - started
