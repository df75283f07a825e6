"""Spark's programs, and what is said where only its client is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.spark.server import whole_spark
from airflow_abs.spark.server.embedded import ensure_embedded_server
from airflow_abs.spark.server.whole_spark import SparkMissingError, find_spark_home, spark_submit


@pytest.fixture
def client_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `pyspark` as the client's package makes it; `make test-client` has a real one."""
    folder = tmp_path / "site-packages" / "pyspark"
    folder.mkdir(parents=True)
    monkeypatch.setattr(whole_spark, "pyspark_folder", lambda: folder)
    return folder


def test_the_client_alone_is_not_the_whole_of_spark(client_alone: Path) -> None:
    with pytest.raises(SparkMissingError) as caught:
        spark_submit("Ephemeral")
    assert str(caught.value) == (
        f"Ephemeral needs the whole of Spark, and {client_alone} holds only the Connect client (pyspark-client); "
        "install it with pip install 'airflow-abs[embedded]', or give the connection the host of a Spark Connect server"
    )


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
