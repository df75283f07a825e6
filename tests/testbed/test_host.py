"""What the tests need of this host: named before they run, in one line, and counted afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import host
from testbed.host import JAVA, NEEDS, Missing, describe, find_missing, main

ROOT = Path(__file__).parents[2]
BROWSER_TEST = "tests/plugins/test_page_alone.py"


def lacking(*names: str) -> list[Missing]:
    return find_missing(NEEDS, lambda program: program not in names)


def test_what_is_missing_is_told_in_one_line_with_its_packages_and_what_is_not_tested() -> None:
    assert describe(lacking("chromium", "chromedriver", "nginx")) == (
        "not found on this host: chromium, chromedriver, nginx "
        "(Debian: apt-get install chromium chromium-driver nginx-light); not tested without: "
        "the tab in a real browser (marked `browser`); "
        "the cluster of processes and the proxy in front of Spark (marked `cluster`)"
    )
    assert describe(lacking()) == ""


@pytest.mark.parametrize(
    ("missing", "variables", "status", "told"),
    [
        ((), {}, 0, ""),
        (("chromium",), {}, 0, "not found on this host: chromium ("),
        (("chromium",), {"CI": "true"}, 1, "CI is set: no test may be skipped"),
        ((JAVA,), {}, 1, "`make test-fast` runs the tests that need no Java"),
    ],
    ids=["all there", "skipped", "CI", "no Java"],
)
def test_tests_are_skipped_for_people_but_not_in_ci_and_not_without_java(
    missing: tuple[str, ...],
    variables: dict[str, str],
    status: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("CI", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(host, "has_program", lambda program: program not in missing)
    assert main([]) == status
    said = capsys.readouterr().err
    assert told in said
    assert bool(said) == bool(missing)
    assert main(["--only", "cluster"]) == 0  # whoever starts a cluster needs no browser


def test_only_root_with_apt_installs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called = tmp_path / "called"
    (tmp_path / "apt-get").write_text(f'#!/bin/sh\necho "$@" >> {called}\n')
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    host.install(["nginx-light"])
    assert not called.exists()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    host.install([])
    assert not called.exists()
    host.install(["nginx-light"])
    assert called.read_text() == "update -qq\ninstall -y -qq --no-install-recommends nginx-light\n"


def test_without_chromium_its_tests_are_skipped_and_the_end_says_how_many() -> None:
    script = (
        "import sys, pytest; from testbed import host; "
        "host.has_program = lambda name: not name.startswith('chrom'); "
        f"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '{BROWSER_TEST}']))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    reason = "this host has no chromium, chromedriver (Debian: apt-get install chromium chromium-driver)"
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("NOT TESTED: ")]
    count = int(line.split()[2])
    assert line == f"NOT TESTED: {count} of the tests collected here, because {reason}"
    assert sum(int(each) for each in re.findall(r"^SKIPPED \[(\d+)\] ", done.stdout, re.MULTILINE)) == count
