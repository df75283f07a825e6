"""End with the parent process, however that ends: Linux sends a signal at its death.

Also a program: `python parent_death.py <pid of the parent> <seconds> program arguments...` asks for SIGTERM, then
becomes the program (same process id), which must lead a process group unless the seconds are 0. What is left of that
group that many seconds after the parent's death is killed: Airflow's scheduler now and then waits forever for one of
its workers when it gets one signal. It runs by path and imports nothing of the package, to start fast.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, number: signal.Signals) -> Callable[[], None]:
    """What a child calls to get the signal when the process `parent` dies, or to end at once if it is dead already.

    Linux watches the *thread* that started the child. May be called between fork and exec: all is loaded before.

    Raises:
        OSError: by what is returned, if Linux refuses.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    signal_number = int(number)

    def in_child() -> None:
        if prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) was refused")
        if os.getppid() != parent:  # it died before the request
            os._exit(1)

    return in_child


def _become(parent: int, seconds: float, command: Sequence[str]) -> None:
    end_with_parent(parent, signal.SIGTERM)()
    if seconds:
        _start_watcher(parent, seconds)
    os.execvpe(command[0], list(command), os.environ)  # noqa: S606 -- no shell is the point


def _start_watcher(parent: int, seconds: float) -> None:
    """Fork what kills this process' group `seconds` after `parent` has died, and ends with this process before that."""
    ours, parents = os.pidfd_open(os.getpid()), os.pidfd_open(parent)  # closed by exec; readable at the process' end
    if os.fork():
        return
    ended, _, _ = select.select([ours, parents], [], [])
    if parents in ended:
        select.select([ours], [], [], seconds)
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    _become(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
