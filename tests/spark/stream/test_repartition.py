"""The application that repartitions state lives no longer than it may, and says what became of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_abs.spark.server.whole_spark import SparkMissingError
from airflow_abs.spark.stream import repartition
from airflow_abs.spark.stream.repartition import (
    RepartitionError,
    RepartitionRequest,
    application_environment,
    run_repartition,
)

PROGRAM = """
import subprocess, sys, threading
from airflow_abs.spark.stream import repartition_application as application
application.SILENT_SECONDS = {silent}
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)
threading.Thread(target=application._listen, daemon=True).start()
child.wait()
"""
REQUEST = RepartitionRequest("local[1]", "file:///checkpoint", "file:///sink", 2, 1)


def listening(silent: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(silent=silent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def is_gone(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().split()[2] == "Z"


def child_of(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def ended_with_its_child(process: subprocess.Popen[bytes], child: int) -> bool:
    process.wait(30)
    deadline = time.monotonic() + 30
    while not is_gone(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_gone(child)


def test_without_a_word_it_ends_with_its_jvm() -> None:
    with listening(silent=0.5) as process:
        child = child_of(process)
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert ended_with_its_child(process, child)
        assert process.returncode == -9


def test_it_ends_with_its_parent() -> None:
    with listening(silent=60) as process:
        child = child_of(process)
        assert process.stdin is not None
        process.stdin.close()
        assert ended_with_its_child(process, child)


def test_one_that_ends_before_its_answer_says_how() -> None:
    environment = {**os.environ, "PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere"}  # no Python starts so

    async def renew() -> None:
        return

    with pytest.raises(RepartitionError, match=r"it ended with status 1 and reported no outcome: "):
        asyncio.run(run_repartition(REQUEST, environment, renew))


def test_it_has_none_of_airflows_secrets_and_no_connect_session(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = ("AIRFLOW_CONN_X", "AIRFLOW__CORE__FERNET_KEY", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    for name in foreign:
        monkeypatch.setenv(name, "x")
    environment = application_environment()
    assert not environment.keys() & set(foreign)
    assert Path(environment["SPARK_HOME"], "jars").is_dir()


def test_where_only_the_client_is_installed_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(whose: str) -> Path:
        raise SparkMissingError(whose)

    monkeypatch.setattr(repartition, "find_spark_home", none)
    with pytest.raises(RepartitionError) as caught:
        application_environment()
    assert str(caught.value) == (
        "only the client of Spark is installed where the stream is supervised; install airflow-abs[embedded] there"
    )
