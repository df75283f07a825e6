"""One local Spark Connect server per host, started by the first task that needs it, shared by all, stopped when
idle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from airflow_abs.spark.connect.endpoint import ConnectEndpoint, probe_blocking
from airflow_abs.spark.errors import ConnectAccessDeniedError, ConnectServerUnreachableError
from airflow_abs.spark.server.embedded_keeper import WHOSE
from airflow_abs.spark.server.embedded_state import (
    EmbeddedSettings,
    EmbeddedSparkError,
    ServerState,
    StateFolder,
    open_state_folder,
)
from airflow_abs.spark.server.java import find_java_home
from airflow_abs.spark.server.whole_spark import find_spark_home

# A server that was up and does not answer for so long is beyond hope.
_HUNG_SECONDS = 20.0
_POLL_SECONDS = 0.1
_STOP_SECONDS = 5.0  # beyond the server's own limit
_STARTS = 3


@dataclass(frozen=True, slots=True)
class EmbeddedStatus:
    """What there is. Addresses are host:port or "", process ids None without a server; `started` is epoch seconds."""

    running: bool
    folder: Path
    log: Path
    address: str = ""
    keeper_pid: int | None = None
    jvm_pid: int | None = None
    started: float | None = None
    ui_address: str = ""


def ensure_embedded_server(
    state_dir: str | os.PathLike[str], *, settings: EmbeddedSettings | None = None
) -> ConnectEndpoint:
    """The server of this folder, started if there is none that answers. Blocks: about 10 s for a start, else 20 ms.

    Any number of processes may call at once: one server is started. It outlives its callers. `settings` count
    only for a start. Renew the lease (call this or `renew_lease`) or keep a connection open while it is needed.

    Raises:
        EmbeddedSparkError: it did not start; quotes the end of its log.
        SparkMissingError, JavaMissingError: there is no Spark or no Java for it.
    """
    folder = open_state_folder(state_dir)
    folder.renew_lease()
    state = folder.read_state()
    if state is not None and _answers(state):
        return state.endpoint
    settings = settings or EmbeddedSettings()
    with folder.start_lock(timeout=2 * settings.start_timeout):
        folder.renew_lease()
        return _join_or_start(folder, settings)


def renew_lease(state_dir: str | os.PathLike[str]) -> None:
    """Say that the server is still needed."""
    open_state_folder(state_dir).renew_lease()


def stop_embedded_server(state_dir: str | os.PathLike[str]) -> bool:
    """End the server and everything that runs on it. Whether there was one.

    Raises:
        EmbeddedSparkError: its process cannot be ended.
    """
    if not Path(state_dir).exists():
        return False
    folder = open_state_folder(state_dir)
    was_running = folder.keeper_is_running()
    if was_running:
        _end_keeper(folder)
    return was_running


def embedded_status(state_dir: str | os.PathLike[str]) -> EmbeddedStatus:
    """What runs in this folder, without touching its lease."""
    if not Path(state_dir).exists():
        return EmbeddedStatus(False, Path(state_dir), Path(state_dir) / "server.log")
    folder = open_state_folder(state_dir)
    state = folder.read_state()
    if not folder.keeper_is_running() or state is None:
        return EmbeddedStatus(False, folder.path, folder.log)
    return EmbeddedStatus(
        True,
        folder.path,
        folder.log,
        address=state.endpoint.address,
        keeper_pid=folder.keeper_pid(),
        jvm_pid=state.jvm_pid,
        started=state.started,
        ui_address=f"127.0.0.1:{state.ui_port}" if state.ui_port else "",
    )


def _join_or_start(folder: StateFolder, settings: EmbeddedSettings) -> ConnectEndpoint:
    """With the start lock held: wait for the server that is there, or for one of our own."""
    if folder.keeper_is_running():
        endpoint = _await_answer(folder, _patience(folder, settings))
        if endpoint is not None:
            return endpoint
        _end_keeper(folder)
    # So that their absence is told to the caller, not to a log.
    find_spark_home(WHOSE)
    find_java_home()
    for _ in range(_STARTS):
        _start_keeper(folder, settings)
        endpoint = _await_answer(folder, settings.start_timeout)
        if endpoint is not None:
            return endpoint
        ended = not folder.keeper_is_running()
        _end_keeper(folder)
        if "java.net.BindException" not in folder.log_tail(lines=200):
            break  # else another process has taken the port that was free a moment ago
    found = "its JVM ended" if ended else f"it does not answer after {settings.start_timeout:g} s"
    raise EmbeddedSparkError(
        f"embedded Spark in {folder.path} did not start: {found}; expected a Spark Connect server; fix what its log "
        f"reports\n{folder.log_tail()}"
    )


def _patience(folder: StateFolder, settings: EmbeddedSettings) -> float:
    """How long to wait for a server that another process has started."""
    state = folder.read_state()
    age = time.time() - state.started if state is not None else 0.0
    return max(settings.start_timeout - age, _HUNG_SECONDS)


def _await_answer(folder: StateFolder, timeout: float) -> ConnectEndpoint | None:
    """The endpoint once it answers; None after `timeout` seconds, or when the keeper has ended."""
    deadline = time.monotonic() + timeout
    while folder.keeper_is_running() and time.monotonic() < deadline:
        folder.renew_lease()
        state = folder.read_state()
        if state is not None and _answers(state):
            return state.endpoint
        time.sleep(_POLL_SECONDS)
    return None


def _answers(state: ServerState) -> bool:
    try:
        probe_blocking(state.endpoint)
    except (ConnectServerUnreachableError, ConnectAccessDeniedError):
        return False  # nothing there, or another program on our port
    return True


def _start_keeper(folder: StateFolder, settings: EmbeddedSettings) -> None:
    folder.write_settings(settings)
    folder.output.unlink(missing_ok=True)
    folder.log.unlink(missing_ok=True)
    with folder.output.open("ab") as output:
        folder.output.chmod(0o600)
        # A session of its own: what ends the caller's process group does not end it. It detaches and returns at once.
        subprocess.run(
            [sys.executable, "-m", "airflow_abs.spark.server.embedded_keeper", folder.path],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder.path,
            start_new_session=True,
            timeout=settings.start_timeout,
            check=False,
        )


def _end_keeper(folder: StateFolder) -> None:
    """Ask, ask again (a keeper that is only just starting has not said its number yet), then kill."""
    patience = folder.read_settings().stop_timeout + _STOP_SECONDS
    for number, seconds in ((signal.SIGTERM, 1.0), (signal.SIGTERM, patience), (signal.SIGKILL, patience)):
        folder.signal_keeper(number)  # the kernel ends the JVM with its keeper
        if folder.await_keeper_gone(seconds):
            folder.delete_state()
            return
    raise EmbeddedSparkError(
        f"embedded Spark in {folder.path}: its keeper (process {folder.keeper_pid()}) does not exit; kill it by hand"
    )
