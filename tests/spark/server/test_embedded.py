"""The embedded server: one per host whoever asks, private, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import Operation, derive_id
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.server.embedded import (
    embedded_status,
    ensure_embedded_server,
    stop_embedded_server,
)
from airflow_abs.spark.server.embedded_keeper import has_connection
from airflow_abs.spark.server.embedded_state import (
    EmbeddedSettings,
    EmbeddedSparkError,
    open_state_folder,
    process_start,
)
from tests.open_sockets import open_sockets
from tests.spark.connect_plans import sleep

SMALL = EmbeddedSettings(cores=1, driver_memory="600m", idle_seconds=60)
ASK = """
import sys
from airflow_abs.spark.server.embedded import ensure_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
print(ensure_embedded_server(sys.argv[1], settings=EmbeddedSettings(1, "600m", 60)))
"""
LISTENING = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}  # 127.0.0.1, alone or mapped into IPv6


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A state folder whose server, if any, is ended after the test."""
    state = tmp_path / "state"
    yield state
    stop_embedded_server(state)


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def ask_in_new_processes(folder: Path, count: int) -> set[str]:
    """What that many processes print that ask for the server at the same moment, and are gone then."""
    processes = [
        subprocess.Popen([sys.executable, "-c", ASK, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    answers = [process.communicate(timeout=400) for process in processes]
    assert [process.returncode for process in processes] == [0] * count, answers
    return {output for output, _ in answers}


def listening_addresses(pid: int) -> set[str]:
    """Local addresses, as the kernel writes them, on which a process listens."""
    inodes, found = open_sockets(pid), set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == LISTENING and columns[9] in inodes:
                found.add(columns[1].rpartition(":")[0])
    return found


def private(path: Path) -> bool:
    return stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


@pytest.mark.spark
def test_one_server_for_all_who_ask_at_once_private_and_never_left_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One start, many questions: a start takes seconds.
    assert len(ask_in_new_processes(folder, 4)) == 1

    status = embedded_status(folder)
    assert status.running
    assert status.keeper_pid is not None
    assert status.jvm_pid is not None
    # It outlived those who asked, in a session of its own, and who asks now gets the same.
    assert os.getsid(status.keeper_pid) != os.getsid(0)
    started = time.monotonic()
    endpoint = ensure_embedded_server(folder, settings=EmbeddedSettings(cores=2))
    assert time.monotonic() - started < 30
    assert endpoint.address == status.address
    assert embedded_status(folder).jvm_pid == status.jvm_pid

    # On loopback only, with a token that nobody else can see.
    assert listening_addresses(status.jvm_pid) <= LOOPBACK
    assert endpoint.token is not None
    for pid in (status.keeper_pid, status.jvm_pid):
        assert endpoint.token not in Path(f"/proc/{pid}/cmdline").read_text()
        assert endpoint.token not in Path(f"/proc/{pid}/environ").read_text()
    assert private(folder)
    assert all(private(file) for file in (folder / "state.json", folder / "conf" / "spark.properties"))
    assert endpoint.token not in f"{status} {endpoint} {endpoint!r} {open_state_folder(folder).read_state()}"

    # Its JVM is killed under an operation: a named error, not a hang; its keeper ends with it.
    monkeypatch.setattr("airflow_abs.spark.connect.response_stream._LOSSES", 2)
    with pytest.raises(ConnectServerUnreachableError):
        asyncio.run(execute_and_kill(endpoint, status.jvm_pid))
    until(lambda: not embedded_status(folder).running)
    assert process_start(status.keeper_pid) == ""

    # The next who asks gets a new one. When its keeper is killed, however, the kernel takes the JVM along.
    second = ensure_embedded_server(folder, settings=SMALL)
    assert second.token != endpoint.token
    status = embedded_status(folder)
    assert status.keeper_pid is not None
    assert status.jvm_pid is not None
    os.kill(status.keeper_pid, signal.SIGKILL)
    until(lambda: process_start(status.jvm_pid or 0) == "")
    assert not embedded_status(folder).running

    # The third is told to stop.
    ensure_embedded_server(folder, settings=SMALL)
    status = embedded_status(folder)
    assert stop_embedded_server(folder)
    assert process_start(status.jvm_pid or 0) == process_start(status.keeper_pid or 0) == ""
    assert not stop_embedded_server(folder)
    assert not (folder / "state.json").exists()
    assert list((folder / "work").iterdir()) == []


async def execute_and_kill(endpoint: ConnectEndpoint, jvm_pid: int) -> None:
    async with open_connection(endpoint) as connection:
        operation = Operation(derive_id("kill"), str(uuid.uuid4()), sleep(60))
        listener = asyncio.create_task(execute_operation(connection, operation))
        done, _ = await asyncio.wait([listener], timeout=3)
        assert not done
        os.kill(jvm_pid, signal.SIGKILL)
        await asyncio.wait_for(listener, 120)


@pytest.mark.spark
def test_nobody_needs_it_any_more_so_it_ends(folder: Path) -> None:
    endpoint = ensure_embedded_server(folder, settings=EmbeddedSettings(1, "600m", idle_seconds=6, ui=True))
    status = embedded_status(folder)
    jvm = status.jvm_pid or 0
    with socket.create_connection(("127.0.0.1", endpoint.port)):  # in use without a lease
        # Its user interface, off unless asked for, is on loopback too.
        host, _, port = status.ui_address.rpartition(":")
        with urllib.request.urlopen(f"http://{host}:{port}/api/v1/applications", timeout=120) as answer:
            assert "embedded Spark" in answer.read().decode()
        assert listening_addresses(jvm) <= LOOPBACK
        assert has_connection(endpoint.port)
        time.sleep(7)  # the time that would have ended it
        assert embedded_status(folder).running
    until(lambda: process_start(jvm) == "", 120)
    assert not embedded_status(folder).running


@pytest.mark.spark
def test_a_start_that_fails_quotes_the_log(folder: Path) -> None:
    settings = EmbeddedSettings(driver_memory="600m", conf=(("spark.driver.cores", "many"),))
    with pytest.raises(EmbeddedSparkError) as caught:
        ensure_embedded_server(folder, settings=settings)
    message = str(caught.value)
    assert message.startswith(
        f"embedded Spark in {folder} did not start: its JVM ended; expected a Spark Connect server; fix what its log "
        f"reports\n--- end of {folder}/server."
    )
    assert message.endswith("SparkException: Driver cores must be a positive number")
    assert not embedded_status(folder).running
