"""Where tests write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scratch import LEAST_AVAILABLE, LEAST_FREE, MEMORY, is_fit

TOLD = (
    "import tempfile, tests.scratch as scratch; scratch.is_fit = lambda folder, available: True; "
    "scratch.MEMORY = scratch.Path({memory!r}); scratch.write_to_memory(); print(tempfile.mkdtemp()); "
    "assert scratch.Path(tempfile.gettempdir()).stat().st_mode & 0o711 == 0o711"
)


def run(code: str, environment: dict[str, str]) -> Path:
    """The folder that a process made for temporary files."""
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, timeout=60)
    return Path(done.stdout.decode().strip())


def test_a_folder_of_its_own_goes_with_the_process(tmp_path: Path) -> None:
    without = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    assert run(TOLD.format(memory=str(tmp_path)), without).parent.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_whoever_sets_a_folder_has_it(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    made = run(TOLD.format(memory=str(tmp_path / "memory")), {**os.environ, "TMPDIR": str(tmp_path / "own")})
    assert made.parent == tmp_path / "own"
    assert made.is_dir()


@pytest.mark.parametrize(
    ("free", "flags", "available", "fit"),
    [
        (LEAST_FREE, 0, LEAST_AVAILABLE, True),
        (LEAST_FREE - 4096, 0, LEAST_AVAILABLE, False),
        (LEAST_FREE, os.ST_NOEXEC, LEAST_AVAILABLE, False),
        (LEAST_FREE, 0, LEAST_AVAILABLE - 1, False),
    ],
)
def test_it_needs_room_memory_and_programs_that_may_run(
    free: int, flags: int, available: int, fit: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.statvfs(tmp_path)
    values = list(found)
    values[1], values[4], values[8] = 4096, free // 4096, flags  # f_frsize, f_bavail, f_flag
    monkeypatch.setattr(os, "statvfs", lambda folder: os.statvfs_result(values))
    assert is_fit(tmp_path, available) is fit
    assert not is_fit(MEMORY / "nobody made this", available)
