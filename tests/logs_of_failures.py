"""What the services and tasks of a failed test logged last, in its report: they are gone when somebody looks."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

FILES = 8
LINES = 25
CLOCK_LAG = 0.05
"""Seconds by which the clock of files may be behind the one of tests: it moves with the kernel's ticks."""


class LogsOfFailures:
    """Adds to the report of a test that has an Airflow of its own, or shares one, the ends of the logs it wrote to."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            for value in getattr(item, "funcargs", {}).values():
                if isinstance(home := getattr(value, "home", None), Path):
                    report.sections += last_lines(home, call.start)
        return report


def last_lines(home: Path, since: float) -> list[tuple[str, str]]:
    """Name and last lines of the logs below an Airflow home that were written since; epoch seconds. The newest last."""
    logs = [(log.stat().st_mtime, log) for folder in ("services", "logs") for log in (home / folder).rglob("*.log")]
    newest = sorted(found for found in logs if found[0] >= since - CLOCK_LAG)[-FILES:]
    return [
        (str(log.relative_to(home)), "\n".join(log.read_text(errors="replace").splitlines()[-LINES:]))
        for _, log in newest
    ]
