"""Jars that Spark lacks: fetched by name, checked, and no more than are needed. A script stands for Maven."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.spark.server import connector_jars
from airflow_abs.spark.server.connector_jars import CONNECTORS, SPARK, JarsMissingError, fetch_jars, list_jars

ROOT = Path(__file__).parents[3]
MAVEN = """#!/bin/sh
echo run >> "$RUNS"
for word; do case "$word" in -DoutputDirectory=*) to=${word#*=};; esac; done
for file in $FILES; do printf jar > "$to/$file"; done
exit $STATUS
"""


@pytest.fixture
def maven(tmp_path: Path) -> dict[str, str]:
    """The environment in which that script is `mvn`."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "mvn"
    program.write_text(MAVEN)
    program.chmod(0o755)
    files = " ".join(jar.file for jar in list_jars("kafka"))
    return {"PATH": f"{tmp_path}/bin:/bin", "FILES": files, "STATUS": "0", "RUNS": f"{tmp_path}/runs"}


def of_text(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    import hashlib

    jars = tuple(replace(jar, sha256=hashlib.sha256(text.encode()).hexdigest()) for jar in list_jars("kafka"))
    monkeypatch.setattr(connector_jars, "list_jars", lambda connector, spark: jars)


@pytest.mark.parametrize(
    ("connector", "spark"), [*((connector, SPARK) for connector in CONNECTORS), ("s3", "4.1.4"), ("s3", "4.3.0")]
)
def test_a_list_names_each_jar_once_with_its_checksum(connector: str, spark: str) -> None:
    jars = list_jars(connector, spark)
    assert len({jar.file for jar in jars}) == len(jars)
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jars)
    assert not [jar.name for jar in jars if jar.name in ("bundle", "hadoop-client-api", "slf4j-api")]


def test_the_lists_are_of_the_release_that_is_locked() -> None:
    assert f"\npyspark=={SPARK}\n" in (ROOT / "requirements.lock").read_text()
    assert SPARK in {jar.version for jar in list_jars("kafka")}


def test_hadoops_jar_is_of_the_release_that_spark_brings() -> None:
    found = {spark: {jar.name: jar.version for jar in list_jars("s3", spark)} for spark in ("4.1.4", "4.2.1", "4.3.0")}
    assert [each["hadoop-aws"] for each in found.values()] == ["3.4.2", "3.5.0", "3.5.0"]


def test_a_spark_without_a_list_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(
        JarsMissingError,
        match=r"no list of the jars of s3 for Spark 4\.0\.5; expected a release of 4\.1, 4\.2, 4\.3; run",
    ):
        list_jars("s3", "4.0.5")


def test_they_are_fetched_once(tmp_path: Path, maven: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    of_text(monkeypatch, "jar")
    fetched = fetch_jars("kafka", maven, tmp_path / "jars")
    assert [path.name for path in fetched] == [jar.file for jar in list_jars("kafka")]
    assert fetch_jars("kafka", maven, tmp_path / "jars") == fetched
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_jar_that_is_another_file_is_refused(tmp_path: Path, maven: dict[str, str]) -> None:
    with pytest.raises(JarsMissingError, match=r"the jars of kafka: org.apache.commons:commons-pool2:\S+ is not the"):
        fetch_jars("kafka", maven, tmp_path / "jars")
    assert not list((tmp_path / "jars").iterdir())


def test_a_host_without_maven_or_a_maven_without_the_jars_is_named(tmp_path: Path, maven: dict[str, str]) -> None:
    with pytest.raises(JarsMissingError, match="mvn is not on PATH; Maven fetches the jars; install it"):
        fetch_jars("kafka", {"PATH": "/nowhere"}, tmp_path / "jars")
    with pytest.raises(JarsMissingError, match="Maven ended with 3; expected it to get 5 artifacts"):
        fetch_jars("kafka", maven | {"STATUS": "3"}, tmp_path / "jars")
