"""Programs that run in sessions of their own and end when this process does, however it ends."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from airflow_abs.spark.server import parent_death

KILL_SECONDS = 15.0  # Airflow's services end in one to twelve seconds on two cores


def start_bound(
    command: Sequence[str], *, env: Mapping[str, str], log: IO[bytes], cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, bound to this process' life; `log` gets it as a line, then its output.

    When this process has died, the child gets SIGTERM, and what is left of its group after `KILL_SECONDS` is killed.

    Linux watches the *thread* that starts the child: call it from one that lives as long as the child should.
    """
    log.write(f"$ {shlex.join(command)}\n".encode())
    log.flush()
    return subprocess.Popen(
        [sys.executable, "-S", "-E", parent_death.__file__, str(os.getpid()), str(KILL_SECONDS), *command],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )


def stop_group(process: subprocess.Popen[bytes], seconds: float) -> None:
    """SIGTERM to the process' group, SIGKILL to what is left of it after `seconds`."""
    _signal_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
