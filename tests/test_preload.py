"""What tasks import, imported once by the process that forks them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from airflow_abs.preload import OF_TASKS

PROGRAM = """
import json, os, sys
import airflow_abs.preload
names = airflow_abs.preload.OF_TASKS
before = [name for name in names if name in sys.modules]
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, json.dumps([name for name in names if name in sys.modules]).encode())
    os._exit(0)
os.wait()
child = json.loads(os.read(reading, 100_000))
print(json.dumps({"before": before, "child": child, "threads": sorted(os.listdir("/proc/self/task"))}))
"""


def fork_with(start: str = "") -> dict[str, list[str]]:
    """What is imported before a fork, and in the child."""
    command = [sys.executable, "-W", "ignore", "-c", start + PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_nothing_is_imported_before_the_first_fork_and_all_of_it_before_the_child_runs() -> None:
    found = fork_with()
    assert (found["before"], found["child"]) == ([], list(OF_TASKS))
    assert len(found["threads"]) == 1  # with more, a fork may take a lock along that nobody ever releases


def test_what_is_not_installed_is_left_to_the_task() -> None:
    missing = "airflow.providers.amazon.aws.fs.s3"
    found = fork_with(f"import sys; sys.modules[{missing!r}] = None\n")
    assert [name for name in found["child"] if name != missing] == [name for name in OF_TASKS if name != missing]


ASKING = """
import json, os, sys, threading
sys.argv = ["airflow", *json.loads(sys.argv[1])]
import airflow_abs.preload
reading, writing = os.pipe()
if os.fork() == 0:
    from airflow.sdk.execution_time import task_runner
    asked, done = [], threading.Event()
    class Comms:
        def send(self, message):
            asked.append(message.dag_id)
            if len(asked) == 1:
                raise RuntimeError("start_reader() must be called before send()")
            done.set()
    task_runner.SUPERVISOR_COMMS = Comms()
    names = [thread.name for thread in threading.enumerate()]
    if len(names) > 1:
        done.wait(30)
    os.write(writing, json.dumps([names, asked]).encode())
    os._exit(0)
os.wait()
print(os.read(reading, 100_000).decode())
"""


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["triggerer", "--skip-serve-logs"], [["MainThread", "first-question"], ["airflow_abs", "airflow_abs"]]),
        (["scheduler"], [["MainThread"], []]),
    ],
)
def test_what_a_triggerer_forks_asks_airflow_as_soon_as_it_can(arguments: list[str], found: list[list[str]]) -> None:
    command = [sys.executable, "-W", "ignore", "-c", ASKING, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    assert json.loads(done.stdout.splitlines()[-1]) == found
