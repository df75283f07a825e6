"""requirements.lock is the whole environment, for every Python that the package says it runs on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import metadata, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parents[1] / "requirements.lock"
LINES = re.findall(r"^([\w.-]+)==(\S+)(?: ; (.+))?$", LOCK.read_text(), flags=re.MULTILINE)
PINS = {canonicalize_name(name): version for name, version, _ in LINES}
FOR_SOME_PYTHONS = {canonicalize_name(name) for name, _, marker in LINES if marker}

PYTHONS = ("3.11.0", "3.12.0", "3.13.0")
"""The oldest releases of those that `make` accepts. Debian 12 has 3.11.2."""


def requirements_of(name: str, python: str) -> Iterator[Requirement]:
    environment = {"python_full_version": python, "python_version": python.rpartition(".")[0], "extra": ""}
    for each in map(Requirement, requires(name) or ()):
        if each.marker is None or each.marker.evaluate(environment):
            yield each


@pytest.mark.parametrize("name", ["airflow-abs", *(name for name in PINS if name not in FOR_SOME_PYTHONS)])
def test_a_locked_package_runs_on_the_oldest_python_with_what_else_is_locked(name: str) -> None:
    wanted = metadata(name).get("Requires-Python")
    refused = [python for python in PYTHONS if wanted and not SpecifierSet(wanted).contains(python)]
    assert not refused, f"{name} wants Python {wanted}: put an older release into requirements.lock"
    for python in PYTHONS:
        for needed in requirements_of(name, python):
            found = PINS.get(canonicalize_name(needed.name))
            assert found is not None, f"on Python {python} {name} needs {needed}: add it to requirements.lock"
            assert needed.specifier.contains(found, prereleases=True), f"{name} needs {needed}, locked is {found}"


def closure(*names: str) -> set[str]:
    """Those packages and all that they need on the oldest Python, without extras of theirs."""
    found: set[str] = set()
    ahead = [canonicalize_name(name) for name in names]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += [canonicalize_name(needed.name) for needed in requirements_of(name, PYTHONS[0])]
    return found


def test_nothing_but_the_package_comes_to_an_airflow_with_its_spark_provider() -> None:
    finished = closure("apache-airflow", "apache-airflow-providers-apache-spark")
    assert closure("airflow-abs") - finished == {"airflow-abs"}
