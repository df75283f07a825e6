from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.hooks.ephemeral import Ephemeral
from airflow_abs.hooks.spark_application import ServerSubmitHook
from airflow_abs.spark.errors import ConnectServerUnreachableError


def hook_for(monkeypatch: pytest.MonkeyPatch, host: str, **extra: Any) -> ServerSubmitHook:
    connection = {"conn_type": "spark", "host": host, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(connection))
    return ServerSubmitHook("cluster")


@pytest.mark.parametrize("host", ["local[*]", "spark://one:7077,two:7077"])
def test_a_connection_that_names_no_cluster_is_refused(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    with pytest.raises(ValueError, match=r"connection 'cluster' names the Spark master '.*'; Ephemeral needs"):
        _ = hook_for(monkeypatch, host).manager


def test_sparks_own_command_is_used_where_the_path_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hook = hook_for(monkeypatch, "spark://master:6066")
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = hook._get_spark_binary_path()
    assert found.endswith("/pyspark/bin/spark-submit")
    assert os.access(found, os.X_OK)
    (tmp_path / "spark-submit").touch(mode=0o755)
    assert hook._get_spark_binary_path() == [str(tmp_path / "spark-submit")]


@pytest.mark.parametrize(("port", "rest"), [(6066, "true"), (7077, "false")])
def test_the_token_is_on_no_command_line_and_nothing_else_of_the_worker_leaves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int, rest: str
) -> None:
    seen: dict[str, Any] = {}

    def popen(command: list[str], env: dict[str, str], **options: Any) -> Any:
        file = Path(command[command.index("--properties-file") + 1])
        seen.update(command=" ".join(command), env=env, mode=file.stat().st_mode & 0o777, file=file.read_text())
        raise RuntimeError("seen")

    monkeypatch.setattr("subprocess.Popen", popen)
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "fernet")
    hook = hook_for(monkeypatch, f"spark://master:{port}")
    with pytest.raises(RuntimeError, match="seen"):
        hook.start("run", tmp_path, {"spark.driver.memory": "1g", "spark.x": "a\\b\nc"}, "the token")
    assert "the token" not in seen["command"]
    assert "--deploy-mode cluster" in seen["command"]
    assert f"--master spark://master:{port}" in seen["command"]
    assert seen["env"]["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == "the token"
    assert not [name for name in seen["env"] if name.startswith("AIRFLOW")]
    assert seen["mode"] == 0o600
    expected = ["spark.driver.memory 1g", f"spark.master.rest.enabled {rest}", "spark.x a\\\\b\\nc"]
    assert seen["file"].splitlines() == expected


def test_a_master_without_rest_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = hook_for(monkeypatch, "spark://127.0.0.1:7077", **{"rest-port": 1})
    with pytest.raises(ConnectServerUnreachableError, match=r"no REST submission server of a Spark master at http:"):
        hook.stop("driver-1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start_timeout": 0}, "Ephemeral: start_timeout is 0; expected a number of seconds above 0"),
        ({"lifetime": -1}, "Ephemeral: lifetime is -1; expected a number of seconds above 0"),
        ({"conf": {"spark.eventLog.dir": "/x"}}, "Ephemeral: conf sets spark.eventLog.dir, which the package sets"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Ephemeral(**options)
    assert str(caught.value).startswith(message)
