"""Actors that take turns: real code in threads of its own, of which exactly one runs between two of its calls.

An actor's thread hands control back right before each call to storage. The scheduler then lets one of them make its
call, kills one for good, or lets time pass; nothing else happens meanwhile, so a list of choices replays exactly.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

WAIT_SECONDS = 60.0


class Killed(BaseException):
    """The process is gone: no call that follows reaches the storage."""


class Clock:
    """The one clock of a world, in epoch seconds."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Actor:
    """`work` is what it does; `result` or `error` is how that ended. `seen` is a digest of all that it was told."""

    name: str
    work: Callable[[Actor], Any]
    result: Any = None
    error: BaseException | None = None
    is_over: bool = False
    is_killed: bool = False
    calls: int = 0
    seen: bytes = b""
    _go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _parked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Run up to the first call."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()
        self._await()

    def step(self) -> None:
        """Make one call, and run up to the next one."""
        self.calls += 1
        self._go.release()
        self._await()

    def kill(self) -> None:
        """End it right before its next call."""
        self.is_killed = True
        self.step()
        assert self.is_over

    def call(self) -> None:
        """Called by storage in the actor's own thread, before each call."""
        if self.is_killed:
            raise Killed
        self._parked.release()
        if not self._go.acquire(timeout=WAIT_SECONDS):
            raise Killed
        if self.is_killed:
            raise Killed

    def told(self, answer: object) -> None:
        """Note what a call has answered: with the same answers the same code does the same."""
        self.seen = hashlib.blake2b(self.seen + repr(answer).encode(), digest_size=12).digest()

    def _run(self) -> None:
        try:
            self.result = self.work(self)
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._parked.release()

    def _await(self) -> None:
        if not self._parked.acquire(timeout=WAIT_SECONDS):
            raise RuntimeError(f"{self.name} has made no call for {WAIT_SECONDS} s; expected the next one, or its end")
