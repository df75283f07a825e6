from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest

from airflow_abs.spark.server import parent_death

SECONDS = 120.0
# A parent that starts a child and waits; the child ignores SIGTERM and says when it is bound.
PARENT = """
import os, signal, subprocess, sys
from airflow_abs.spark.server.parent_death import end_with_parent
child = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
bound = end_with_parent(os.getpid(), signal.Signals[sys.argv[1]])
process = subprocess.Popen([sys.executable, "-c", child], preexec_fn=bound, stdout=subprocess.PIPE)
process.stdout.readline()
print(process.pid, flush=True)
signal.pause()
"""


def test_a_child_gets_the_signal_that_it_asked_for_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, "SIGKILL"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        assert select.select([child], [], [], SECONDS)[0], "the child lives on"
        os.close(child)


def test_a_child_of_a_parent_that_is_dead_already_ends_at_once() -> None:
    alive = subprocess.run(
        [sys.executable, "-S", "-E", parent_death.__file__, str(os.getppid()), "1", "/bin/echo", "alive"],
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    assert (alive.returncode, alive.stdout) == (1, b"")


def test_the_program_keeps_its_process_id_its_arguments_and_its_environment() -> None:
    command = ["/bin/sh", "-c", 'echo $$ "$1" $WORD', "sh", "two words"]
    with subprocess.Popen(
        [sys.executable, "-S", "-E", parent_death.__file__, str(os.getpid()), "1", *command],
        stdout=subprocess.PIPE,
        env={"WORD": "hello"},
        text=True,
    ) as process:
        assert process.communicate(timeout=SECONDS)[0] == f"{process.pid} two words hello\n"


def test_what_ignores_sigterm_is_killed_with_its_group_after_its_time() -> None:
    stubborn = "trap '' TERM; sleep 1000 & echo $$ $!; wait"
    program = [sys.executable, "-S", "-E", parent_death.__file__]
    starts = f"""
import os, signal, subprocess
subprocess.Popen([*{program!r}, str(os.getpid()), "0.5", "/bin/sh", "-c", {stubborn!r}], start_new_session=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        group = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
        for each in group:
            assert select.select([each], [], [], SECONDS)[0], "one of the group lives on"
            os.close(each)


def test_a_refusal_of_linux_is_an_error() -> None:
    no_signal = 10_000
    with pytest.raises(OSError, match="prctl"):
        parent_death.end_with_parent(os.getppid(), no_signal)()  # type: ignore[arg-type]
