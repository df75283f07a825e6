"""Start a program that ends when its parent does, however the parent ends.

Run as `python bound_child.py <pid of the parent> program arguments...`: asks Linux for a SIGTERM at the parent's death,
then becomes the program (same process id). A file of its own, run by path, so that it costs no import of the package.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1


def start_bound(
    command: Sequence[str], *, env: Mapping[str, str], log: IO[bytes], cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, bound to this process' life; `log` gets it as a line, then its output.

    Linux watches the *thread* that starts the child: call it from one that lives as long as the child should.
    """
    log.write(f"$ {shlex.join(command)}\n".encode())
    log.flush()
    return subprocess.Popen(
        [sys.executable, "-S", "-E", __file__, str(os.getpid()), *command],
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


def _become(parent: int, command: Sequence[str]) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) was refused")
    if os.getppid() != parent:  # it died before the request
        sys.exit(1)
    os.execvpe(command[0], list(command), os.environ)  # noqa: S606 -- no shell is the point


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
