"""requirements.lock can be installed by every Python that the package says it runs on."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires
from importlib.metadata import metadata as read_metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

LOCK = Path(__file__).parents[1] / "requirements.lock"
PINS = re.findall(r"^([\w.-]+)==", LOCK.read_text(), flags=re.MULTILINE)
PYTHONS = ("3.11.0", "3.12.0")
"""The oldest releases of the two that `make` accepts. Debian 12 has 3.11.2."""


def test_the_lock_names_what_the_package_needs() -> None:
    needed = [re.split(r"[^\w.-]", each)[0].lower() for each in requires("airflow-abs") or () if "extra ==" not in each]
    assert "pyspark" in needed
    assert {name.replace("_", "-") for name in needed} <= {name.lower().replace("_", "-") for name in PINS}


@pytest.mark.parametrize("name", PINS)
def test_a_locked_package_supports_the_oldest_python(name: str) -> None:
    try:
        wanted = read_metadata(name)["Requires-Python"]
    except PackageNotFoundError:
        pytest.fail(f"{name} is in requirements.lock and not in this environment: make it anew with `make`")
    refused = [python for python in PYTHONS if wanted and not SpecifierSet(wanted).contains(python)]
    assert not refused, f"{name} wants Python {wanted}: put an older release into requirements.lock"
