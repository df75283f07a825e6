"""The folder that everybody who uses one embedded Spark server shares: settings, locks, state, lease, logs.

<folder>/             0700, ours alone
    start.lock        held by the process that starts a server
    keeper.lock       held by the keeper for as long as it lives; holds its process id and start time
    settings.json     0600, what the next keeper starts
    state.json        0600, where the server is and its token; written by the keeper
    lease             its modification time is when a task last needed the server
    server.log        what Spark logs; server.out is what the JVM prints
    work/             Spark's own: warehouse, shuffle files, artifacts
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar

from airflow_abs.spark.connect.endpoint import ConnectEndpoint

_POLL_SECONDS = 0.05


class EmbeddedSparkError(RuntimeError):
    """The embedded Spark server cannot be started, stopped or used; the message says why."""

    restartable: ClassVar[bool] = True  # memory or a port may be free again


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """How to run the embedded server. The process that starts it decides; others take it as it is.

    `cores` 0 means all of the host; without `driver_memory` the heap follows the cores (`choose_heap`).
    `idle_seconds` without a lease renewed and without an open connection end it.
    After `stop_timeout` seconds of ending it is killed.
    `ui` serves Spark's own pages and REST API on loopback, to every user of the host.
    `conf` are further Spark settings; they cannot move the server off loopback or take its token away.
    """

    cores: int = 0
    driver_memory: str = ""
    idle_seconds: float = 900.0
    start_timeout: float = 120.0
    ui: bool = False
    log_level: str = "WARN"
    conf: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    stop_timeout: float = 15.0


@dataclass(frozen=True, slots=True)
class ServerState:
    """Where a running server is. `started` is seconds since the epoch; `ui_port` is 0 without a user interface."""

    port: int
    token: str = field(repr=False)
    jvm_pid: int
    started: float
    ui_port: int = 0

    @property
    def endpoint(self) -> ConnectEndpoint:
        # By name: pyspark's own client sends a token without TLS to `localhost` only.
        return ConnectEndpoint("localhost", self.port, token=self.token)


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The shared folder. Get it from `open_state_folder`."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    @property
    def output(self) -> Path:
        return self.path / "server.out"

    @property
    def keeper_lock(self) -> Path:
        return self.path / "keeper.lock"

    def write_settings(self, settings: EmbeddedSettings) -> None:
        write_private(self.path / "settings.json", json.dumps(asdict(settings)))

    def read_settings(self) -> EmbeddedSettings:
        values = json.loads((self.path / "settings.json").read_text(encoding="utf-8"))
        values["conf"] = tuple((key, value) for key, value in values["conf"])
        return EmbeddedSettings(**values)

    def write_state(self, state: ServerState) -> None:
        write_private(self.path / "state.json", json.dumps(asdict(state)))

    def read_state(self) -> ServerState | None:
        """None if there is no server, or its state cannot be read."""
        try:
            values = json.loads((self.path / "state.json").read_text(encoding="utf-8"))
            return ServerState(**values)
        except (OSError, ValueError, TypeError):
            return None

    def delete_state(self) -> None:
        (self.path / "state.json").unlink(missing_ok=True)

    def renew_lease(self) -> None:
        lease = self.path / "lease"
        lease.touch(mode=0o600)
        os.utime(lease)

    def lease_age(self) -> float:
        """Seconds since a task needed the server."""
        try:
            return time.time() - (self.path / "lease").stat().st_mtime
        except OSError:
            return float("inf")

    def keeper_is_running(self) -> bool:
        """True while the keeper holds its lock: the kernel takes it back however the keeper ends."""
        with _opened(self.keeper_lock) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def keeper_pid(self) -> int | None:
        """The keeper's process id, None if there is none or the number belongs to another process by now."""
        try:
            pid, started = self.keeper_lock.read_text(encoding="utf-8").split()
        except (OSError, ValueError):
            return None
        return int(pid) if process_start(int(pid)) == started and self.keeper_is_running() else None

    def signal_keeper(self, number: signal.Signals) -> None:
        pid = self.keeper_pid()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def await_keeper_gone(self, timeout: float) -> bool:
        """Whether the keeper has ended within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.keeper_is_running():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    @contextmanager
    def start_lock(self, timeout: float) -> Iterator[None]:
        """Held by one process at a time.

        Raises:
            EmbeddedSparkError: another process has held it for `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        with _opened(self.path / "start.lock") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise EmbeddedSparkError(
                            f"embedded Spark in {self.path}: another process has been starting it for {timeout:g} s; "
                            f"check {self.log} and {self.output}"
                        ) from None
                    time.sleep(_POLL_SECONDS)
            yield

    def log_tail(self, lines: int = 15) -> str:
        """The end of what the JVM printed and Spark logged, without the frames of stacks, for an error message."""
        tails = []
        for file in (self.output, self.log):
            with suppress(OSError):
                text = file.read_text(encoding="utf-8", errors="replace").splitlines()
                text = [line for line in text if not line.startswith("\tat ")][-lines:]
                if text:
                    tails.append(f"--- end of {file}\n" + "\n".join(text))
        return "\n".join(tails) or f"--- nothing in {self.output} and {self.log}"


def open_state_folder(path: str | os.PathLike[str]) -> StateFolder:
    """The folder, made if need be, for this user alone.

    Raises:
        EmbeddedSparkError: it belongs to another user, or others may write to it or read it.
    """
    folder = Path(path).absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise EmbeddedSparkError(
            f"embedded Spark: cannot create its state folder {folder}: {error.strerror}; name another folder"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise EmbeddedSparkError(
            f"embedded Spark: its state folder {folder} is {stat.filemode(found.st_mode)} of user {found.st_uid}, "
            f"expected drwx------ of user {os.getuid()} (it holds a token); chmod 700 it, or name another folder"
        )
    return StateFolder(folder)


def process_start(pid: int) -> str:
    """When a process started, in the kernel's ticks: with the id it names one process forever. "" if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_private(path: Path, text: str) -> None:
    """Whole or not at all, for this user alone."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)
