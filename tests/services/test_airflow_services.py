"""The harness itself, on DAGs without Spark."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_abs.demo.airflow_api import AirflowApiError
from airflow_abs.demo.services import AirflowServices, ServicesError
from tests.open_sockets import open_sockets
from tests.task_instances import read_xcom, wait_for_task
from tests.waiting import SECONDS

pytestmark = pytest.mark.services

NEW_YEAR = datetime(2026, 1, 2, tzinfo=UTC)
OWNER = """
import sys, signal
from pathlib import Path
from airflow_abs.demo.services import AirflowServices
with AirflowServices(Path(sys.argv[1]), Path(sys.argv[2])) as services:
    print("up", flush=True)
    signal.pause()
"""


def processes_of(home: Path) -> list[str]:
    """Command lines of what runs with this AIRFLOW_HOME; without those that have ended and wait for their parent."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"AIRFLOW_HOME={home}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_a_run_can_be_started_watched_and_read(airflow: AirflowServices) -> None:
    airflow.api.wait_for_dag("plain", SECONDS)
    run_id = airflow.api.trigger_run("plain", NEW_YEAR, {"count": 3})
    looks: list[int] = []
    assert airflow.api.wait_for_run("plain", run_id, SECONDS, lambda states: looks.append(len(states))) == "success"
    states = airflow.api.task_instances("plain", run_id)
    assert [(each.task_id, each.map_index, each.state, each.try_number) for each in states] == [
        ("double", 0, "success", 1),
        ("double", 1, "success", 1),
        ("double", 2, "success", 1),
        ("numbers", -1, "success", 1),
    ]
    assert all(0 < (each.seconds or 0) < SECONDS for each in states)
    assert looks[-1] == 4
    assert read_xcom(airflow.api, "plain", run_id, "numbers") == [0, 1, 2]
    assert read_xcom(airflow.api, "plain", run_id, "double", map_index=2) == 4
    assert "Done. Returned value was: 4" in airflow.api.task_log("plain", run_id, "double", map_index=2)


def test_a_failed_run_is_told_from_one_that_takes_too_long(airflow: AirflowServices) -> None:
    airflow.api.wait_for_dag("plain", SECONDS)
    run_id = airflow.api.trigger_run("plain", datetime(2026, 1, 3, tzinfo=UTC), {"count": 0})
    with pytest.raises(
        AirflowApiError, match=rf"run '{re.escape(run_id)}' of dag 'plain' is \w+ after 0 s; expected an end"
    ):
        airflow.api.wait_for_run("plain", run_id, 0)
    assert airflow.api.wait_for_run("plain", run_id, SECONDS) == "failed"
    assert "ValueError" in airflow.api.task_log("plain", run_id, "numbers")
    with pytest.raises(AirflowApiError, match=r"double\[0\] .* is not there \(run: failed\)"):
        wait_for_task(airflow.api, "plain", run_id, "double", {"success"}, SECONDS, map_index=0)


def test_a_dag_file_that_cannot_be_imported_is_named_with_its_error(airflow: AirflowServices) -> None:
    broken = airflow.dags_folder / "broken.py"
    broken.write_text("from airflow.sdk import DAG\nraise RuntimeError('no such mart')\n")
    try:
        with pytest.raises(AirflowApiError, match=r"dag 'broken' is not there(.|\n)*broken\.py(.|\n)*no such mart"):
            airflow.api.wait_for_dag("broken", SECONDS)
    finally:
        broken.unlink()


def test_only_loopback_is_listened_on(airflow: AirflowServices) -> None:
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {row[9]: row[1] for row in listening if row[3] == "0A" and not row[1].startswith("0100007F")}
    ours = [folder for folder in Path("/proc").glob("[0-9]*") if _belongs(folder, airflow.home)]
    sockets = set().union(*(open_sockets(int(folder.name)) for folder in ours))
    assert len(ours) >= 4
    assert {inode: address for inode, address in inodes.items() if inode in sockets} == {}


def test_a_service_that_cannot_start_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    services = AirflowServices(
        tmp_path / "home", tmp_path, env={"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:///x/y"}
    )
    with (
        pytest.raises(ServicesError, match=r"Airflow's db-migrate ended with status 1; the end of (.|\n)*sqlite"),
        services,
    ):
        pass
    assert processes_of(tmp_path / "home") == []


def test_nothing_is_left_when_the_owner_is_killed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (tmp_path / "dags").mkdir()  # nothing to parse: what is started is the point
    command = [sys.executable, "-c", OWNER, str(home), str(tmp_path / "dags")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        assert len(processes_of(home)) >= 4
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 150
    while left := processes_of(home):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def _belongs(folder: Path, home: Path) -> bool:
    try:
        return f"AIRFLOW_HOME={home}".encode() in (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
