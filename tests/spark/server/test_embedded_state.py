"""The folder that all users of an embedded server share, and what a server is started with; no server here."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_abs.spark.server.embedded import (
    EmbeddedStatus,
    embedded_status,
    ensure_embedded_server,
    renew_lease,
    stop_embedded_server,
)
from airflow_abs.spark.server.embedded_keeper import server_environment, spark_properties
from airflow_abs.spark.server.embedded_state import (
    EmbeddedSettings,
    EmbeddedSparkError,
    ServerState,
    StateFolder,
    open_state_folder,
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A state folder whose server, if any, is ended after the test."""
    state = tmp_path / "state"
    yield state
    stop_embedded_server(state)


def private(path: Path) -> bool:
    return stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_what_a_dead_keeper_left_is_not_believed(folder: Path) -> None:
    state = open_state_folder(folder)
    state.write_state(ServerState(port=1, token="t", jvm_pid=2**22 + 1, started=0.0))
    # Its number belongs to another process by now (this one), which must not be taken for it, nor killed.
    state.keeper_lock.write_text(f"{os.getpid()} 12345\n")
    assert embedded_status(folder) == EmbeddedStatus(False, folder, folder / "server.log")
    assert state.keeper_pid() is None
    assert not stop_embedded_server(folder)
    assert not state.keeper_is_running()


def test_an_unreadable_state_is_none(folder: Path) -> None:
    state = open_state_folder(folder)
    for text in ("", "{", "[]", '{"port": 1}'):
        (folder / "state.json").write_text(text)
        assert state.read_state() is None


def test_without_a_folder_there_is_nothing(tmp_path: Path) -> None:
    assert not embedded_status(tmp_path / "none").running
    assert not stop_embedded_server(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_folder_that_others_can_read_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    with pytest.raises(EmbeddedSparkError) as caught:
        ensure_embedded_server(shared)
    uid = os.getuid()
    assert str(caught.value) == (
        f"embedded Spark: its state folder {shared} is drwxr-xr-x of user {uid}, expected drwx------ of user {uid} "
        "(it holds a token); chmod 700 it, or name another folder"
    )


def test_a_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(EmbeddedSparkError, match=r"its state folder .*link is lrwxrwxrwx of user"):
        open_state_folder(tmp_path / "link")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        EmbeddedSparkError, match=r"cannot create its state folder .*Not a directory; name another folder"
    ):
        open_state_folder(tmp_path / "file" / "state")


def test_who_waits_too_long_for_another_start_is_told(folder: Path) -> None:
    state = open_state_folder(folder)
    with (
        state.start_lock(timeout=0),
        pytest.raises(EmbeddedSparkError, match=r"another process has been starting it for 0\.1 s; check"),
        state.start_lock(timeout=0.1),
    ):
        pass


def test_the_lease_says_when_it_was_needed_last(folder: Path) -> None:
    state = open_state_folder(folder)
    assert state.lease_age() == float("inf")
    renew_lease(folder)
    assert state.lease_age() < 5
    os.utime(folder / "lease", (0, time.time() - 100))
    assert 99 < state.lease_age() < 110


def test_settings_survive_the_way_to_the_keeper(folder: Path) -> None:
    settings = EmbeddedSettings(2, "1g", 5.0, 60.0, True, "INFO", (("spark.a", "b"), ("spark.c", "d e")))
    open_state_folder(folder).write_settings(settings)
    assert open_state_folder(folder).read_settings() == settings
    assert private(folder / "settings.json")


def test_what_keeps_it_private_cannot_be_overruled() -> None:
    conf = (
        ("spark.connect.grpc.binding.address", "0.0.0.0"),  # noqa: S104
        ("spark.connect.authenticate.token", ""),
        ("spark.driver.bindAddress", "0.0.0.0"),  # noqa: S104
        ("spark.scheduler.mode", "FIFO"),
    )
    found = spark_properties(EmbeddedSettings(conf=conf), StateFolder(Path("/s")), ServerState(1234, "t0", 0, 0.0))
    assert {key: found[key] for key, _ in conf} == {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.authenticate.token": "t0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.scheduler.mode": "FIFO",
    }
    assert found["spark.master"] == "local[*]"
    assert (found["spark.ui.enabled"], found["spark.ui.port"]) == ("false", "0")
    assert found["spark.sql.session.timeZone"] == "UTC"


def test_its_heap_follows_its_cores_unless_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_abs.spark.server.embedded_keeper.read_memory", lambda: 64 * 2**30)
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    where = StateFolder(Path("/s")), ServerState(1234, "t0", 0, 0.0)
    settings = (EmbeddedSettings(), EmbeddedSettings(cores=8), EmbeddedSettings(driver_memory="3g"))
    heaps = [spark_properties(each, *where)["spark.driver.memory"] for each in settings]
    assert heaps == ["13953m", "7126m", "3g"]


def test_other_sparks_settings_and_airflows_secrets_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SPARK_LOCAL_DIRS",
        "SPARK_MASTER",
        "PYSPARK_DRIVER_PYTHON",
        "AIRFLOW__CORE__FERNET_KEY",
        "AIRFLOW_CONN_X",
    ):
        monkeypatch.setenv(name, "foreign")
    monkeypatch.setenv("AWS_PROFILE", "lake")
    environment = server_environment(Path("/s/conf"), Path("/java"))
    assert "foreign" not in environment.values()
    assert environment["AWS_PROFILE"] == "lake"
    assert environment["PYSPARK_PYTHON"] == sys.executable
    assert (environment["JAVA_HOME"], environment["SPARK_LOCAL_IP"]) == ("/java", "127.0.0.1")
