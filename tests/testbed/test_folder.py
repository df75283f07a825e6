"""What a cluster of processes needs of its host, and what it says when that is not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed import folder as cluster_folder
from testbed.__main__ import main
from testbed.folder import LOOPBACK, ClusterError, check_host, prepare_folder
from testbed.host import search_path
from testbed.topology.place import PORTS
from testbed.topology.services import services


@pytest.fixture
def open_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As for a user who is not root: PostgreSQL then runs as that user."""
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid or 1)
    monkeypatch.setattr(cluster_folder, "_owner", lambda folder: tmp_path.stat().st_uid or 1)
    return tmp_path / "cluster"


@pytest.mark.openssl
def test_a_place_is_on_loopback_with_ports_of_its_own(open_folder: Path) -> None:
    place = prepare_folder(open_folder, Path("/dags"))
    assert (place.bind, set(place.hosts.values())) == (LOOPBACK, {LOOPBACK})
    assert set(place.ports) == set(PORTS)
    assert len(set(place.ports.values())) == len(PORTS)
    assert f"listen {LOOPBACK}:{place.ports['connect-tls']} ssl" in (open_folder / "config/nginx.conf").read_text()


@pytest.mark.openssl
def test_no_secret_is_on_a_command_line(open_folder: Path) -> None:
    place = prepare_folder(open_folder, Path("/dags"))
    words = [word for service in services(place).values() for word in (*service.command, *service.health)]
    assert not [word for word in words if any(secret in word for secret in place.secrets.values())]


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_folder, "search_path", lambda environment: str(tmp_path))
    monkeypatch.setattr(cluster_folder, "_MODULES", ("json", "no_such_module", "no.such.package"))
    with pytest.raises(ClusterError) as caught:
        check_host()
    assert str(caught.value) == (
        "a cluster cannot run on this host: initdb, postgres, redis-server, nginx, curl, openssl not found on PATH; "
        "install them (Debian: apt-get install curl nginx-light openssl postgresql redis-server); "
        "Python has no no_such_module, no.such.package; pip install 'airflow-abs[cluster,iceberg]'"
    )


def test_programs_of_the_system_are_found_without_its_folders_on_path() -> None:
    assert search_path({"PATH": "/mine"}).split(":")[-5:] == ["/mine", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]


def test_root_is_told_that_postgresql_cannot_reach_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cluster_folder, "_owner", lambda folder: 0)
    with pytest.raises(ClusterError, match=r"PostgreSQL does not run as root, and its user 'postgres' may not enter /"):
        prepare_folder(closed / "cluster", Path("/dags"))


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_folder, "_owner", lambda folder: 4711)
    with pytest.raises(ClusterError, match="belongs to user 4711; expected one of this user's; name another"):
        prepare_folder(tmp_path, Path("/dags"))


def test_status_and_down_without_a_cluster_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "status", "--folder", str(tmp_path)]) == 1
    assert main(["cluster", "down", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        f"no cluster is running (folder {tmp_path})\nno cluster was running (folder {tmp_path})\n"
    )


def test_a_variable_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["cluster", "up", "--env", "NAME"])
    assert "'NAME' sets no variable; expected NAME=VALUE" in capsys.readouterr().err
