"""No rule and no bound is without words for people."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import airflow_abs.core.decide as package
from airflow_abs.core.decide.parallelism import Clamp
from airflow_abs.core.decide.reason import describe_clamp, describe_rule
from airflow_abs.core.decide.region_parallelism import WAVES

SOURCES = "\n".join(path.read_text() for path in sorted(Path(str(package.__file__)).parent.glob("*.py")))
RULES = {
    *re.findall(r'RegionParallelism\(\s*"(\w+)"', SOURCES),
    *re.findall(r'(?:return|else) "(\w+)"(?: if|$)', SOURCES, re.M),
}
BOUNDS = set(re.findall(r'(?:apply_bound|NamedBound|Clamp)\(\s*"([\w ]+)"', SOURCES)) | set(
    re.findall(r'[\[(]\("([\w ]+)", (?:len|subpartitions|count)', SOURCES)
)


def test_the_rules_and_bounds_of_the_package_are_found() -> None:
    assert {"balanced", "sources", "fixed", "power_of_two", "single_subtask", "no_inputs"} <= RULES
    assert {"slots per wave", "number of splits", "number of subpartitions", "number of files", "sources"} <= BOUNDS


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_is_told_in_words(rule: str) -> None:
    assert describe_rule(rule) != rule


@pytest.mark.parametrize("bound", sorted(BOUNDS | {"max_parallelism", WAVES}))
def test_every_bound_is_told_in_words(bound: str) -> None:
    told = describe_clamp(Clamp(bound, 3, 2, 4))
    assert told.startswith("4 instead of 3")
    assert bound == "sources" or bound not in told


def test_a_bound_says_what_it_changed_and_why() -> None:
    filled = Clamp("slots per wave", 3, 2, 4)
    assert describe_clamp(filled) == "4 instead of 3, so that none of 2 slots is idle in the last wave"
    most = Clamp("max_parallelism", 40, 16, 16)
    assert describe_clamp(most) == "16 instead of 40: the maximum that the job allows (16)"


def test_what_another_version_names_is_told_by_its_name() -> None:
    assert describe_rule("lunar") == "lunar"
    assert describe_clamp(Clamp("moons", 2, 1, 1)) == "1 instead of 2: moons (1)"
