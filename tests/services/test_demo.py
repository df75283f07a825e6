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
        [wheel.program, "demo", *arguments],
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


def test_its_story_comes_true_and_nothing_is_left(installed: InstalledWheel, tmp_path: Path) -> None:
    numbers = tmp_path / "numbers" / "demo.json"
    with demo(installed, tmp_path, "--scale", "0.1", "--json", str(numbers)) as process:
        said = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 0, said
    told = json.loads(numbers.read_text())
    assert told["ok"] is True
    small, big = told["small_day"], told["big_day"]
    assert (small["verified"], small["inside"]) == (True, ["orders", "enriched"])
    assert [each["subtasks"] for each in small["vertices"]] == [1, 1]
    assert "orders -> enriched.orders: kept inside Spark: writing " in said
    assert "limits as small as its data: a task reads 150.0 KiB (by default 128 MB to 1 GB), an operation" in said
    assert big["verified"] is True
    assert max(each["subtasks"] for each in big["vertices"]) > 4
    vertex, _, index = told["killed"]["subtask"].partition("[")
    assert told["killed"]["tries"] == {f"revenue.{vertex}.run[{index}": 2}
    assert big["hot_key"] == "customer_id = 1"
    assert told["mistake"]["message"].startswith("vertex 'by_region' cannot run in parts: an aggregate (groupBy, ")
    assert "at mistaken_revenue.py:" in told["mistake"]["message"]
    assert told["mistake"]["message"] in said
    assert "hot key: subpartition" in said
    assert ": customer_id = 1 has " in said
    assert said.index("1. A small day") < said.index("was killed and reran") < said.index("Where to look next")
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_nothing_is_left_of_an_interrupted_demo(
    number: signal.Signals, status: int, installed: InstalledWheel, tmp_path: Path
) -> None:
    with demo(installed, tmp_path, "--scale", "0.01", "--dates", "2026-01-01") as process:
        read_until(process, "/11 tasks" if number == signal.SIGINT else "Airflow: api-server")
        process.send_signal(number)
        said = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == status, said
    assert_nothing_is_left(tmp_path)
