"""A run of the tests that is ended from outside."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEST = """
import time
import pytest

@pytest.fixture
def service():
    yield
    print("cleaned", flush=True)

def test_that_takes_long(service):
    print("the test runs", flush=True)
    time.sleep(100)
"""


def test_a_run_that_is_told_to_end_cleans_up(tmp_path: Path) -> None:
    (tmp_path / "test_long.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-s", "-p", "tests.conftest", "-p", "no:cacheprovider", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        try:
            assert any("the test runs" in line for line in run.stdout)  # reads no further than that line
            run.send_signal(signal.SIGTERM)
            rest, _ = run.communicate(timeout=60)
        finally:
            run.kill()
    assert "cleaned" in rest
    assert run.returncode == pytest.ExitCode.INTERRUPTED
