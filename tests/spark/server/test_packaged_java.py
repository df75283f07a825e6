"""A Java that comes as a Python package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_abs.spark.server.java import JavaMissingError, find_java_home, make_packaged_home

COUNT = """
from pyspark.sql import SparkSession

with SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate() as spark:
    version = spark.sparkContext._jvm.System.getProperty("java.version")
    print(version, spark.range(1000).selectExpr("sum(id * 2)").collect()[0][0])
"""


def nowhere(tmp_path: Path) -> dict[str, str]:
    """The environment of a host without a Java."""
    return {"PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_it_is_the_last_to_be_taken(tmp_path: Path) -> None:
    assert find_java_home(nowhere(tmp_path), tmp_path / "jvm") == tmp_path / "cache" / "airflow_abs" / "java"


def test_its_script_is_written_anew_only_if_it_is_another(tmp_path: Path) -> None:
    script = (make_packaged_home(nowhere(tmp_path)) or tmp_path) / "bin" / "java"
    before = script.stat().st_ino
    make_packaged_home(nowhere(tmp_path))
    assert script.stat().st_ino == before
    script.write_text("#!/bin/sh\nexec /gone/java\n")
    make_packaged_home(nowhere(tmp_path))
    assert "/gone/" not in script.read_text()
    assert script.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in script.parent.iterdir()] == ["java"]


def test_without_the_package_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_abs.spark.server.java._PACKAGE", "no_such_package_of_java")
    with pytest.raises(JavaMissingError, match=r"pip install 'airflow-abs\[java\]'"):
        find_java_home(nowhere(tmp_path), tmp_path / "jvm")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(JavaMissingError, match=r"that of the extra java \(.*Not a directory"):
        find_java_home(nowhere(tmp_path), tmp_path / "jvm")


@pytest.mark.spark
def test_spark_starts_on_it(tmp_path: Path) -> None:
    home = find_java_home(nowhere(tmp_path), tmp_path / "jvm")
    foreign = ("SPARK_", "PYSPARK_", "JAVA_HOME")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    environment |= {"JAVA_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    counted = subprocess.run(
        [sys.executable, "-c", COUNT],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert counted.returncode == 0, counted.stderr
    assert counted.stdout.split() == ["25.0.2", "999000"]
