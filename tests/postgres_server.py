"""A PostgreSQL server of this host's own programs, for a module of tests or a session."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_abs.demo.bound_child import start_bound, stop_group
from airflow_abs.spark.server.free_ports import choose_free_ports
from testbed.folder import POSTGRES_USER
from testbed.host import search_path

_PATIENCE = 60
_FILES = ("--username", "airflow", "--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync")
_SETTINGS = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=200")


@contextmanager
def running_postgres() -> Iterator[int]:
    """The port on which it listens, with trust for the user ``airflow``; ended and removed with the block."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
    data, environment = folder / "data", {"PATH": search_path(), "LC_ALL": "C.UTF-8"}
    change: tuple[str, ...] = ()
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        change = ("setpriv", "--reuid", POSTGRES_USER, "--regid", POSTGRES_USER, "--init-groups", "--pdeathsig", "INT")
        for path in (folder, data):
            shutil.chown(path, POSTGRES_USER, POSTGRES_USER)
    (port,) = choose_free_ports(1)
    try:
        made = (*change, "initdb", *_FILES, "--pgdata", str(data))
        subprocess.run(made, check=True, capture_output=True, timeout=_PATIENCE, cwd=folder, env=environment)
        settings = (word for setting in (*_SETTINGS, f"port={port}") for word in ("-c", setting))
        with (folder / "log").open("ab") as log:
            command = (*change, "postgres", "-D", str(data), *settings)
            process = start_bound(command, env=environment, log=log, cwd=folder)
        try:
            ready = ("pg_isready", "--quiet", "--host", "127.0.0.1", "--port", str(port), "--timeout", "1")
            subprocess.run(
                ("sh", "-c", f"until {' '.join(ready)}; do sleep 0.1; done"),
                check=True,
                timeout=_PATIENCE,
                env=environment,
            )
            yield port
        finally:
            stop_group(process, 5)
    finally:
        shutil.rmtree(folder)
