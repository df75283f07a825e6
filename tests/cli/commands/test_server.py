from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.cli.main import main


def test_a_folder_without_a_server_is_not_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "status", "--folder", str(tmp_path / "spark")]) == 1
    assert capsys.readouterr().out == f"embedded Spark: not running (folder {tmp_path}/spark)\n"


def test_stopping_where_nothing_runs_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "stop", "--folder", str(tmp_path / "spark")]) == 0
    assert capsys.readouterr().out == f"embedded Spark: was not running (folder {tmp_path}/spark)\n"


@pytest.mark.sample
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
