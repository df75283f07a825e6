"""`python -m testbed.host`: what the tests need of this host besides Python, and which are skipped without it.

    python -m testbed.host              one line for all that is missing; status 1 where tests must not be skipped
    python -m testbed.host --install    as root on Debian, install it before

Without Java nothing is left to test but `make test-fast`, so that is an error; so is everything else where the variable
CI is set, because nobody there reads which tests were skipped.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_POSTGRES_BINARIES = Path("/usr/lib/postgresql")
_INSTALL_SECONDS = 1800
JAVA = "java"
CLUSTER_PROGRAMS = {
    "initdb": "postgresql",
    "postgres": "postgresql",
    "redis-server": "redis-server",
    "nginx": "nginx-light",
    "curl": "curl",
    "openssl": "openssl",
}
"""Program: the Debian package that brings it."""


@dataclass(frozen=True, slots=True)
class Need:
    """What some tests need. `marker` is the tests' own; `packages` maps each program to the Debian package of it."""

    marker: str
    packages: Mapping[str, str]
    tests: str


NEEDS = (
    Need(JAVA, {"java": "openjdk-17-jre-headless"}, "everything that runs Spark"),
    Need("browser", {"chromium": "chromium", "chromedriver": "chromium-driver"}, "the tab in a real browser"),
    Need("cluster", CLUSTER_PROGRAMS | {"ss": "iproute2"}, "the cluster of processes and the proxy in front of Spark"),
    Need("openssl", {"openssl": "openssl"}, "the cluster's certificates"),
)


@dataclass(frozen=True, slots=True)
class Missing:
    """A need of which this host lacks some programs."""

    need: Need
    programs: tuple[str, ...]

    @property
    def packages(self) -> list[str]:
        return sorted({self.need.packages[program] for program in self.programs})

    @property
    def reason(self) -> str:
        """Why its tests are skipped."""
        return f"this host has no {', '.join(self.programs)} (Debian: apt-get install {' '.join(self.packages)})"


def find_missing(needs: Sequence[Need] = NEEDS, has: Callable[[str], bool] | None = None) -> list[Missing]:
    """What this host lacks of `needs`. `has` says whether a program is there."""
    there = has or has_program
    lacking = (Missing(need, tuple(name for name in need.packages if not there(name))) for need in needs)
    return [missing for missing in lacking if missing.programs]


@cache
def has_program(name: str) -> bool:
    """Whether it is found on `search_path`; of Java, whether one is that Spark starts with."""
    if name != JAVA:
        return shutil.which(name, path=search_path()) is not None
    from airflow_abs.spark.server.java import JavaMissingError, find_java_home

    try:
        find_java_home()
    except JavaMissingError:
        return False
    return True


def search_path(environment: Mapping[str, str] | None = None) -> str:
    """PATH on which every service's command is found: this Python's scripts, PostgreSQL's newest, the system's."""
    newest = sorted(_POSTGRES_BINARIES.glob("*/bin"), key=lambda folder: float(folder.parent.name))[-1:]
    inherited = (os.environ if environment is None else environment).get("PATH", "")
    parts = [str(Path(sys.executable).parent), *map(str, newest), inherited, "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    return os.pathsep.join(filter(None, parts))


def describe(missing: Sequence[Missing]) -> str:
    """The one line for people; empty if nothing is missing."""
    if not missing:
        return ""
    programs = dict.fromkeys(program for each in missing for program in each.programs)
    packages = sorted({package for each in missing for package in each.packages})
    tests = "; ".join(f"{each.need.tests} (marked `{each.need.marker}`)" for each in missing)
    return (
        f"not found on this host: {', '.join(programs)} (Debian: apt-get install {' '.join(packages)}); "
        f"not tested without: {tests}"
    )


def install(packages: Sequence[str]) -> None:
    """With apt-get, as root; elsewhere nothing happens. What could not be installed is still missing afterwards."""
    if not packages or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    print(f"installing {' '.join(packages)}", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (("update", "-qq"), ("install", "-y", "-qq", "--no-install-recommends", *packages)):
        subprocess.run(
            ("apt-get", *words), env=environment, stdout=subprocess.DEVNULL, timeout=_INSTALL_SECONDS, check=False
        )
    has_program.cache_clear()


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all tests, or all but those that were named, can run."""
    parser = argparse.ArgumentParser(prog="python -m testbed.host", description="What the tests need of this host.")
    parser.add_argument("--install", action="store_true", help="as root on Debian: install what is missing")
    markers = [need.marker for need in NEEDS]
    parser.add_argument("--only", action="append", choices=markers, help="what tests with this marker need; repeat")
    options = parser.parse_args(arguments)
    needs = [need for need in NEEDS if need.marker in (options.only or markers)]
    if options.install:
        install(sorted({package for each in find_missing(needs) for package in each.packages}))
    missing = find_missing(needs)
    if not missing:
        return 0
    print(describe(missing), file=sys.stderr)
    if any(each.need.marker == JAVA for each in missing):
        print("`make test-fast` runs the tests that need no Java", file=sys.stderr)
        return 1
    if os.environ.get("CI"):
        print("CI is set: no test may be skipped", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
