"""Actors that take turns: real code, of which exactly one runs between two of its calls.

An actor hands control back right before each call to storage. The scheduler then lets one of them make its call, kills
one for good, or lets time pass; nothing else happens meanwhile, so a list of choices replays exactly. Each is a
greenlet, no thread: the kernel takes five times as long to hand control from one thread to another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from greenlet import getcurrent, greenlet


class Killed(BaseException):
    """The process is gone: no call that follows reaches the storage."""


class Clock:
    """The one clock of a world, in epoch seconds."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


class Turn(greenlet):
    """What an actor runs in; control goes back to whoever started it."""

    def __init__(self, run: Callable[[], None], name: str) -> None:
        super().__init__(run)
        self.name = name


def whose_turn() -> greenlet:
    """Hashable; a `Turn` if an actor's."""
    return getcurrent()


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
    _turn: greenlet = field(init=False)

    def start(self) -> None:
        """Run up to the first call."""
        self._turn = Turn(self._run, self.name)
        self._turn.switch()

    def step(self) -> None:
        """Make one call, and run up to the next one."""
        self.calls += 1
        self._turn.switch()

    def kill(self) -> None:
        """End it right before its next call."""
        self.is_killed = True
        self.step()
        assert self.is_over

    def call(self) -> None:
        """Called by storage in the actor's own turn, before each call."""
        if self.is_killed:
            raise Killed
        self._turn.parent.switch()
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
