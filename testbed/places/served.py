"""A server of a place: one program of this host. It can be killed and comes back with its data at the same address."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from airflow_abs.demo.bound_child import start_bound, stop_group
from testbed.places.place import PlaceError

LOOPBACK = "127.0.0.1"
START_SECONDS = 300.0
_POLL_SECONDS = 0.1
_STOP_SECONDS = 10.0


class Served:
    """Runs inside of `with`, and not after it, however it is left.

    Args:
        command, env: as it is started; its output goes to `log`.
        port, host: where it accepts connections once it is up.
    """

    def __init__(
        self, command: Sequence[str], port: int, log: Path, env: Mapping[str, str] | None = None, host: str = LOOPBACK
    ) -> None:
        self.command, self._env, self._log = command, {**os.environ, **(env or {})}, log
        self.port, self.host = port, host
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            stop_group(self._process, _STOP_SECONDS)

    def start(self) -> None:
        """Raises:
        PlaceError: it ended, or does not accept connections in time; with the end of its log.
        """
        with self._log.open("ab") as log:
            self._process = start_bound(self.command, env=self._env, log=log)
        deadline = time.monotonic() + START_SECONDS
        while not self.accepts():
            if not self.runs() or time.monotonic() > deadline:
                self.kill()
                tail = self._log.read_text(errors="replace")[-2000:]
                raise PlaceError(f"{self.command[0]} does not accept connections at {self.address}: {tail}")
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """As a crash would end it."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def runs(self) -> bool:
        """Whether its program has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def accepts(self) -> bool:
        """Whether something listens there."""
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((self.host, self.port)) == 0
