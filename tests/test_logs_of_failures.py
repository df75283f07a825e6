from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TEST = """
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture
def airflow():
    return SimpleNamespace(home=Path("home").absolute())


def test_it(airflow):
    (airflow.home / "logs" / "dag_id=d" / "attempt=1.log").write_text("the cause\\n")
    assert False
"""


def test_the_report_of_a_failed_test_shows_what_its_airflow_logged_meanwhile(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEST)
    pytester.makeconftest(
        "from tests.logs_of_failures import LogsOfFailures\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(LogsOfFailures())\n"
    )
    home = Path(pytester.path) / "home"
    (home / "logs" / "dag_id=d").mkdir(parents=True)
    (home / "services").mkdir()
    earlier = home / "services" / "scheduler.log"
    earlier.write_text("long ago\n")
    os.utime(earlier, (0, 0))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*dag_id=d/attempt=1.log*", "the cause"])
    result.stdout.no_fnmatch_line("*long ago*")
