"""Spark's programs, and what is said where only its client is installed."""

from __future__ import annotations

import os
from pathlib import Path
from zipfile import ZipFile

import pytest

from airflow_abs.cli.main import main
from airflow_abs.spark.connect.protocol import client_version
from airflow_abs.spark.server import whole_spark
from airflow_abs.spark.server.embedded import ensure_embedded_server
from airflow_abs.spark.server.whole_spark import SparkMissingError, find_spark_home, install_spark, spark_submit


@pytest.fixture
def client_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `pyspark` as the client's package makes it; `make test-client` has a real one."""
    folder = tmp_path / "site-packages" / "pyspark"
    folder.mkdir(parents=True)
    monkeypatch.setattr(whole_spark, "pyspark_folder", lambda: folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def build_wheel(folder: Path, release: str) -> None:
    """A package `pyspark` of one program, as pip takes it: the real one has 400 MB."""
    with ZipFile(folder / f"pyspark-{release}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("pyspark/bin/spark-submit", "#!/bin/sh\n")
        about = f"pyspark-{release}.dist-info"
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: pyspark\nVersion: {release}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def test_the_client_alone_is_not_the_whole_of_spark(client_alone: Path) -> None:
    with pytest.raises(SparkMissingError) as caught:
        spark_submit("Ephemeral")
    assert str(caught.value) == (
        f"Ephemeral needs the whole of Spark, and {client_alone} holds only the Connect client (pyspark-client); run "
        "airflow-abs server install, which puts it beside Airflow, or pip install 'airflow-abs[embedded]', or give the "
        "connection the host of a Spark Connect server"
    )


def test_spark_is_installed_beside_the_client_once_and_the_newest_is_found(
    client_alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_line = f"{client_version().rpartition('.')[0]}.99"
    for release in ("4.9.0", "4.10.0", of_line, client_version()):
        build_wheel(tmp_path, release)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    spark = tmp_path / "cache" / "airflow_abs" / "spark"
    for release in ("4.10.0", "4.9.0", "4.9.0"):
        assert main(["server", "install", "--spark", release]) == 0
        assert f"installed in {spark}/{release}/pyspark" in capsys.readouterr().out
    assert find_spark_home("a test") == spark / "4.10.0" / "pyspark"
    assert sorted(each.name for each in spark.iterdir()) == ["4.10.0", "4.9.0"]
    assert main(["server", "install", "--spark", of_line]) == 0
    assert find_spark_home("a test") == spark / of_line / "pyspark"
    assert main(["server", "install"]) == 0
    assert find_spark_home("a test") == spark / client_version() / "pyspark"
    assert [each.name for each in client_alone.iterdir()] == []


@pytest.mark.usefixtures("client_alone")
def test_a_release_that_pip_cannot_get_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        SparkMissingError, match=r"Spark 4\.9\.0: pip ended with 1; expected a release that the package"
    ):
        install_spark("4.9.0", os.environ)
    assert list((tmp_path / "cache" / "airflow_abs" / "spark").iterdir()) == []


@pytest.mark.usefixtures("client_alone")
def test_the_embedded_server_says_so_before_it_starts_anything(tmp_path: Path) -> None:
    with pytest.raises(SparkMissingError, match="the embedded Spark server needs the whole of Spark"):
        ensure_embedded_server(tmp_path / "embedded")
    assert not (tmp_path / "embedded" / "server.out").exists()


@pytest.mark.spark
def test_the_whole_package_has_programs_and_jars() -> None:
    home = find_spark_home("a test")
    assert next((home / "jars").glob("spark-connect_*.jar"))
    assert spark_submit("a test") == home / "bin" / "spark-submit"
