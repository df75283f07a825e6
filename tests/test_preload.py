"""What tasks import, imported once by the process that forks them."""

from __future__ import annotations

import json
import subprocess
import sys

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
