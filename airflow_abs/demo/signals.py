"""Ending by a signal as by Ctrl-C, and not ending by one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exit that runs every `finally`, as Ctrl-C does.

    SIGINT too: a shell lets its background commands ignore it, and Python then leaves it so.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    handlers = {signal.SIGTERM: leave, signal.SIGHUP: leave, signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Without Ctrl-C in the main thread, where alone it arrives."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
