"""What the commands print: live lines on a terminal, plain lines into a pipe."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


class Terminal:
    """Progress for a person or a log file: `step` for what has happened, `doing` for what is under way.

    On a terminal `doing` is one line that is overwritten; in a pipe it prints when its text changes, at most once in
    `quiet_seconds`.
    """

    def __init__(self, *, quiet_seconds: float = 10.0) -> None:
        from rich.console import Console

        self.console: Console = Console(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
        self._status: Status | None = None
        self._quiet_seconds = quiet_seconds
        self._started = time.monotonic()
        self._last_doing = ("", -quiet_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_status()

    @property
    def seconds(self) -> float:
        """Since this object was made."""
        return time.monotonic() - self._started

    def step(self, text: str) -> None:
        """A line that stays, with the seconds since the start."""
        from rich.text import Text

        self._end_status()
        self.console.print(Text.assemble((f"{self.seconds:6.1f}s  ", "dim"), text))

    def show(self, text: str) -> None:
        """A line that stays, as it is."""
        self._end_status()
        self.console.print(text)

    def doing(self, text: str) -> None:
        """What is happening now; replaced by the next call."""
        if self.console.is_terminal:
            from rich.text import Text

            if self._status is None:
                self._status = self.console.status(Text())
                self._status.start()
            self._status.update(Text(text))
            return
        last_text, last_time = self._last_doing
        if text != last_text and self.seconds - last_time >= self._quiet_seconds:
            self._last_doing = (text, self.seconds)
            self.console.print(f"{self.seconds:6.1f}s  ... {text}")

    def _end_status(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
