"""docs/reference/compatibility.md names the versions that are tested, and those that `pyproject.toml` allows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
LOCKED = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


TABLE = [cells(row) for row in PAGE.splitlines() if row.startswith("| ") and len(cells(row)) == 4]


def test_the_tested_cell_is_the_locked_environment() -> None:
    lock_is_for = re.match(r"# .* for Python ([\d.]+) on Linux", (ROOT / "requirements.lock").read_text())
    assert lock_is_for is not None
    tested = [row[:3] for row in TABLE if row[3] == "tested"]
    assert tested == [[LOCKED["apache-airflow"], LOCKED["pyspark"], lock_is_for[1]]]
    provider = "apache-airflow-providers-apache-spark"
    assert f"| provider `{provider}` | {LOCKED[provider]} |" in PAGE


def test_what_cannot_be_installed_is_what_the_requirements_refuse() -> None:
    refused = [row[:3] for row in TABLE if row[3].startswith("cannot be installed")]
    assert refused == [["before 3.1", "any", "any"]]
    assert "apache-airflow>=3.1" in PROJECT["dependencies"]
    assert PROJECT["requires-python"] == ">=3.11"


def test_only_an_extra_brings_the_whole_of_spark_and_then_client_and_spark_are_one_release() -> None:
    # The Spark provider brings the client: before 6 the whole of Spark, over which no other client may be written.
    assert [each for each in PROJECT["dependencies"] if each.startswith("pyspark")] == []
    release = LOCKED["pyspark"]
    assert PROJECT["optional-dependencies"]["embedded"] == [f"pyspark=={release}", f"pyspark-client=={release}"]
    assert LOCKED["pyspark-client"] == release
