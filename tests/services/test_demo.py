"""The command `airflow-abs demo` as a user runs it: from an installed wheel, in a folder of the user's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.installed_wheel import InstalledWheel

pytestmark = [pytest.mark.services, pytest.mark.spark]

SECONDS = 500.0


def demo(wheel: InstalledWheel, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command in a session of its own, with `folder` as its place for temporary files."""
    return subprocess.Popen(
        [wheel.program, "demo", "--scale", "0.01", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=wheel.environment | {"TMPDIR": str(folder)},
        start_new_session=True,
    )


def mentions(folder: Path) -> list[str]:
    """Command lines of the processes that live below `folder`, by their environment or their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            if str(folder).encode() in told and int(process.name) != os.getpid():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def read_until(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return
    pytest.fail(f"{words!r} was not printed: {''.join(lines)}")


def assert_nothing_is_left(folder: Path) -> None:
    deadline = time.monotonic() + 150
    while left := mentions(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
    assert list(folder.glob("airflow-abs-demo-*")) == []


def test_it_runs_verifies_tells_and_leaves_nothing(installed: InstalledWheel, tmp_path: Path) -> None:
    numbers = tmp_path / "numbers" / "demo.json"
    arguments = ["--dates", "2026-01-02", "--dag", "pipelined", "--json", str(numbers)]
    with demo(installed, tmp_path, *arguments) as process:
        said = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 0, said
    assert "pipelined, day 2026-01-02: 3 rows, equal to DuckDB's" in said
    assert "\n1 run right, checked against DuckDB" in said
    told = json.loads(numbers.read_text())
    assert told["ok"] is True
    (run,) = told["runs"]
    assert (run["dag_id"], run["run_id"], run["verified"]) == ("pipelined", "demo__2026-01-02", True)
    assert run["logical_date"] == "2026-01-03T00:00:00+00:00"
    assert [(each["vertex"], each["subtasks"] >= 1) for each in run["vertices"]] == [
        ("orders + priced", True),
        ("spend", True),
        ("spenders + classes", True),
    ]
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_nothing_is_left_of_an_interrupted_demo(
    number: signal.Signals, status: int, installed: InstalledWheel, tmp_path: Path
) -> None:
    with demo(installed, tmp_path, "--dates", "2026-01-01") as process:
        read_until(process, "0/11 tasks" if number == signal.SIGINT else "Airflow: api-server")
        process.send_signal(number)
        said = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == status, said
    assert_nothing_is_left(tmp_path)
