from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from airflow_abs.cli.main import main
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.testing.corpus_bench import runner


def test_a_folder_without_a_server_is_not_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "status", "--folder", str(tmp_path / "spark")]) == 1
    assert capsys.readouterr().out == f"embedded Spark: not running (folder {tmp_path}/spark)\n"


def test_stopping_where_nothing_runs_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "stop", "--folder", str(tmp_path / "spark")]) == 0
    assert capsys.readouterr().out == f"embedded Spark: was not running (folder {tmp_path}/spark)\n"


@pytest.mark.spark
def test_a_running_server_is_shown_and_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from airflow_abs.spark.server.embedded import ensure_embedded_server
    from airflow_abs.spark.server.embedded_state import EmbeddedSettings

    folder = tmp_path / "spark"
    settings = EmbeddedSettings(cores=1, driver_memory="1g", idle_seconds=60)
    endpoint = ensure_embedded_server(folder, settings=settings)
    try:
        assert main(["server", "status", "--folder", str(folder)]) == 0
        told = capsys.readouterr().out
        assert f"running at {endpoint.address} since " in told
        assert endpoint.token not in told
    finally:
        assert main(["server", "stop", "--folder", str(folder)]) == 0
    assert capsys.readouterr().out == "embedded Spark: stopped\n"


@pytest.fixture
def small_check(connect_server: ConnectEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps and one job, on the server of the tests."""
    sample = {"Filter": "filter_where", "refused: limit()/offset()": "limit_rows"}
    monkeypatch.setattr("airflow_abs.testing.corpus_bench.sample.SAMPLE", sample)
    monkeypatch.setattr("airflow_abs.testing.examples.EXAMPLES", ("daily_revenue",))
    monkeypatch.setattr("airflow_abs.hooks.adaptive_spark.stored_endpoint", lambda _: connect_server)


@pytest.mark.spark
@pytest.mark.usefixtures("small_check")
def test_a_right_server_is_checked_and_said_to_be_right_without_any_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AIRFLOW__ADAPTIVE_SPARK__EXCHANGE")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no such folder"))  # nothing is written but where it is told
    assert main(["server", "check", "--folder", str(tmp_path)]) == 0
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["steps:", "row", "by", "row", "1", "1", "0", "0"] in told
    assert ["steps:", "sets,", "order", "and", "limits", "1", "0", "1", "0"] in told
    assert ["job:", "daily_revenue", "1", "1", "0", "0"] in told
    assert told[-1][2:4] == ["nothing", "wrong,"]


@pytest.mark.spark
@pytest.mark.usefixtures("small_check")
def test_other_rows_than_plain_sparks_are_said_and_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "describe_difference", lambda found, wanted: "1 row is missing")
    monkeypatch.setattr("airflow_abs.testing.examples.EXAMPLES", ())
    assert main(["server", "check"]) == 1
    told = capsys.readouterr().out
    assert "green but wrong: filter_where (safe): at 3: 1 row is missing" in told
    assert ": 1 wrong, after " in told


@pytest.mark.spark
@pytest.mark.usefixtures("small_check")
def test_an_example_that_does_not_run_there_is_wrong_whatever_it_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("airflow_abs.testing.corpus_bench.sample.SAMPLE", {"Filter": "filter_where"})
    monkeypatch.setattr("airflow_abs.testing.examples.compare_example", Mock(side_effect=StopIteration))
    assert main(["server", "check"]) == 1
    told = capsys.readouterr().out
    assert "daily_revenue: StopIteration: \n" in told
    assert ["job:", "daily_revenue", "1", "0", "0", "1"] in [line.split() for line in told.splitlines()]


@pytest.mark.parametrize(
    ("conn_id", "said"),
    [
        ("nowhere", "no Spark Connect server reachable at 127.0.0.1:1: "),
        ("unknown", "this Airflow has no connection 'unknown'; expected one that `airflow connections list` shows"),
    ],
)
def test_a_server_that_is_not_there_is_said_in_a_line(
    conn_id: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", '{"conn_type": "spark_connect", "host": "127.0.0.1", "port": 1}')
    assert main(["server", "check", "--conn-id", conn_id]) == 1
    assert capsys.readouterr().err.startswith(f"airflow-abs: {said}")


def test_jars_of_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "jars"]) == 2
    assert capsys.readouterr().err == "airflow-abs server jars: expected one of s3, kafka\n"
