from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from airflow_abs.demo.bound_child import start_bound, stop_group

SECONDS = 120.0
PARENT = """
import os, signal, sys
from airflow_abs.demo.bound_child import start_bound
with open(os.devnull, "wb") as log:
    child = start_bound([sys.executable, "-c", "import signal; signal.pause()"], env=os.environ, log=log)
print(child.pid, flush=True)
signal.pause()
"""


def wait_for_end(pid: int) -> None:
    """A bounded wait for the end of a process that is not our child."""
    descriptor = os.pidfd_open(pid)
    try:
        assert select.select([descriptor], [], [], SECONDS)[0], f"process {pid} lives on after {SECONDS} s"
    finally:
        os.close(descriptor)


def test_a_child_ends_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        descriptor = os.pidfd_open(child)
        parent.kill()
        assert select.select([descriptor], [], [], SECONDS)[0], "the child lives on"
        os.close(descriptor)


def test_a_child_runs_the_program_with_the_given_environment_and_folder_and_the_log_says_which(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        child = start_bound(["/bin/sh", "-c", "echo $WORD; pwd"], env={"WORD": "hello"}, log=output, cwd=tmp_path)
    assert child.wait(SECONDS) == 0
    assert log.read_text() == f"$ /bin/sh -c 'echo $WORD; pwd'\nhello\n{tmp_path}\n"


def test_stopping_a_group_ends_a_process_that_ignores_sigterm_and_what_it_started(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; sleep 100 & echo $!; wait; wait"
    log = tmp_path / "log"
    with log.open("wb") as output:
        child = start_bound(["/bin/sh", "-c", stubborn], env=os.environ, log=output)
    deadline = time.monotonic() + SECONDS
    while not (said := log.read_text().splitlines()[1:]):
        assert time.monotonic() < deadline
    grandchild = int(said[0])
    stop_group(child, 0.2)
    assert child.returncode == -signal.SIGKILL
    if Path(f"/proc/{grandchild}").exists():
        wait_for_end(grandchild)
