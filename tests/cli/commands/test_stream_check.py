"""`airflow-abs stream check` before it needs a Spark; what it compares then: tests/spark/stream/test_fit.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.cli.main import main

DAGS = """
import pendulum
from airflow.sdk import DAG
from airflow_abs import AdaptiveSparkStream, Files, Rate

with DAG("clicks", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    AdaptiveSparkStream(
        task_id="dated",
        source=Files("/landing/{{ ds }}", schema="page STRING"),
        sink=Files("/mart/dated", mode="append"),
        checkpoint="/mart/checkpoints/dated",
    )
    for name in ("one", "two"):
        AdaptiveSparkStream(
            task_id=name, source=Rate(), sink=Files(f"/mart/{name}", mode="append"), checkpoint="/mart/checkpoints/both"
        )
"""


@pytest.fixture
def dag_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    file = tmp_path / "clicks.py"
    file.write_text(DAGS)
    return file


def told(capsys: pytest.CaptureFixture[str], checkpoint: str, *options: str) -> str:
    assert main(["stream", "check", checkpoint, *options]) == 1
    return capsys.readouterr().err


def test_the_file_that_declares_the_stream_is_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "stream check: expected --dag-file, the file that declares the stream" in told(capsys, "/mart")
    missing = tmp_path / "nothing.py"
    assert f"{missing}: no such file; expected a DAG file" in told(capsys, "/mart", "--dag-file", str(missing))


def test_one_stream_of_the_file_must_have_the_checkpoint(capsys: pytest.CaptureFixture[str], dag_file: Path) -> None:
    theirs = "dated (/mart/checkpoints/dated), one (/mart/checkpoints/both), two (/mart/checkpoints/both)"
    for checkpoint, number in (("/mart/checkpoints/other", "0 streams"), ("/mart/checkpoints/both", "2 streams")):
        expected = f"{dag_file}: {number} with the checkpoint {checkpoint}, expected one; found there: {theirs}"
        assert expected in told(capsys, checkpoint, "--dag-file", str(dag_file))


def test_a_stream_with_templates_is_left_to_its_task(capsys: pytest.CaptureFixture[str], dag_file: Path) -> None:
    assert (
        "stream 'dated': has templates, which only a run renders; its task checks the stream before it starts"
        in told(capsys, "/mart/checkpoints/dated", "--dag-file", str(dag_file))
    )
