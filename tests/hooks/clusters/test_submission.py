from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.hooks.clusters import open_cluster
from airflow_abs.hooks.clusters.submission import SparkSubmission
from airflow_abs.spark.server.application import Application
from tests.waiting import wait_until


def connect(monkeypatch: pytest.MonkeyPatch, host: str, **extra: Any) -> SparkSubmission:
    connection = {"conn_type": "spark", "host": host, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(connection))
    return SparkSubmission("cluster")


@pytest.mark.parametrize("host", ["local[*]", "spark://one:7077,two:7077"])
def test_a_connection_that_names_no_cluster_is_refused(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    with pytest.raises(ValueError, match=r"connection 'cluster' names the Spark master '.*'; Ephemeral needs"):
        open_cluster(connect(monkeypatch, host).conn_id)


def test_sparks_own_command_is_used_where_the_path_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hook = connect(monkeypatch, "spark://master:6066")
    monkeypatch.setenv("PATH", str(tmp_path))
    *_, found = hook._get_spark_binary_path()
    assert found.endswith("/pyspark/bin/spark-submit")
    assert os.access(found, os.X_OK)
    (tmp_path / "spark-submit").touch(mode=0o755)
    assert hook._get_spark_binary_path()[-1] == str(tmp_path / "spark-submit")


def test_spark_submit_ends_with_the_task_that_started_it(tmp_path: Path) -> None:
    binary = tmp_path / "spark-submit"
    binary.write_text("#!/bin/sh\necho $$ > $0.pid\nexec sleep 1000\n")
    binary.chmod(0o755)
    starts = (
        "from airflow_abs.hooks.clusters.submission import SparkSubmission\n"
        "from airflow_abs.spark.server.application import Application\n"
        "SparkSubmission('cluster').run('run', Application('Main', 'a.jar'), {}, None)\n"
    )
    connection = json.dumps({"conn_type": "spark", "host": "spark://master:7077"})
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    environment = {**os.environ, "AIRFLOW_CONN_CLUSTER": connection, "PATH": path}
    with subprocess.Popen([sys.executable, "-c", starts], env=environment) as task:
        wait_until(lambda: binary.with_suffix(".pid").exists() and bool(binary.with_suffix(".pid").read_text()))
        child = os.pidfd_open(int(binary.with_suffix(".pid").read_text()))
        task.kill()
        assert select.select([child], [], [], 60.0)[0], "it lives on"
        os.close(child)


def test_the_token_is_on_no_command_line_and_nothing_else_of_the_worker_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, Any] = {}

    def popen(command: list[str], env: dict[str, str], **options: Any) -> Any:
        file = Path(command[command.index("--properties-file") + 1])
        seen.update(command=" ".join(command), env=env, mode=file.stat().st_mode & 0o777, file=file.read_text())
        raise RuntimeError("seen")

    monkeypatch.setattr("subprocess.Popen", popen)
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "fernet")
    settings = {"spark.driver.memory": "1g", "spark.x": "a\\b\nc"}
    with pytest.raises(RuntimeError, match="seen"):
        connect(monkeypatch, "spark://master:7077").run("run", Application("Main", "a.jar"), settings, "the token")
    assert "the token" not in seen["command"]
    assert "--deploy-mode cluster" in seen["command"]
    assert "--master spark://master:7077" in seen["command"]
    assert seen["env"]["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == "the token"
    assert not [name for name in seen["env"] if name.startswith("AIRFLOW")]
    assert seen["mode"] == 0o600
    assert seen["file"].splitlines() == ["spark.driver.memory 1g", "spark.x a\\\\b\\nc"]


def test_a_provider_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_abs.hooks.clusters.submission.version", lambda _: "6.0.2")
    with pytest.raises(InvalidValueError) as caught:
        SparkSubmission("cluster")
    assert str(caught.value) == (
        "connection 'cluster': apache-airflow-providers-apache-spark 6.0.2 cannot start a Spark server on a cluster; "
        "pip install 'apache-airflow-providers-apache-spark>=6.3'"
    )
