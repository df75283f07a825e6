"""A Spark standalone master with REST submission and one worker, on loopback and free ports."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_abs.demo.bound_child import start_bound, stop_group
from airflow_abs.spark.connect.protocol import pyspark_folder
from airflow_abs.spark.server.free_ports import choose_free_ports
from testbed.processes import base_environment

SECONDS = 200.0
RUN_SECRET = "a long random text"
RUN_CONNECTION = json.dumps({"conn_type": "spark_connect", "password": RUN_SECRET})
"""Of a job with a server per run."""


@dataclass(frozen=True, slots=True)
class Standalone:
    """Where one is, or is to be."""

    port: int
    rest_port: int
    page_port: int

    @property
    def connection(self) -> str:
        """An Airflow connection to it, as JSON."""
        extra = {"rest-port": self.rest_port}
        return json.dumps({"conn_type": "spark", "host": "spark://127.0.0.1", "port": self.rest_port, "extra": extra})

    def drivers(self, kind: str = "active") -> list[dict[str, Any]]:
        """What the master says of drivers: `active`, or `completed` with the state in which they ended."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page_port}/json/", timeout=60) as answer:
            return list(json.load(answer)[f"{kind}drivers"])

    def workers(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page_port}/json/", timeout=60) as answer:
            return int(json.load(answer)["aliveworkers"])


def choose_ports() -> Standalone:
    return Standalone(*choose_free_ports(3))


@contextmanager
def started(place: Standalone, folder: Path) -> Iterator[Standalone]:
    """Both are up in the block and gone after it, with whatever runs on them; `folder` holds logs and work."""
    with master_started(place, folder), worker_started(place, folder):
        yield place


@contextmanager
def master_started(place: Standalone, folder: Path) -> Iterator[None]:
    arguments = ["--port", str(place.port), "--webui-port", str(place.page_port)]
    with _started(place, folder, "master", arguments):
        _await_workers(place, folder, "master", 0)
        yield


@contextmanager
def worker_started(place: Standalone, folder: Path, cores: int = 3, count: int = 1) -> Iterator[None]:
    """With which the cluster has `count` of them."""
    arguments = ["--cores", str(cores), "--memory", "3g", "--work-dir", str(folder / "work")]
    with _started(place, folder, "worker", [*arguments, f"spark://127.0.0.1:{place.port}"]):
        _await_workers(place, folder, "worker", count)
        yield


@contextmanager
def _started(place: Standalone, folder: Path, name: str, arguments: list[str]) -> Iterator[None]:
    environment = base_environment() | {
        "SPARK_HOME": str(pyspark_folder()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "JDK_JAVA_OPTIONS": os.environ["JDK_JAVA_OPTIONS"],  # tests/java_options.py
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    rest = {"enabled": "true", "host": "127.0.0.1", "port": place.rest_port}
    options = " ".join(f"-Dspark.master.rest.{name}={value}" for name, value in rest.items())
    main = f"org.apache.spark.deploy.{name}.{name.capitalize()}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.log").open("wb") as log:
        command = ["spark-class", main, "--host", "127.0.0.1", *arguments]
        process = start_bound(command, env=environment | {"SPARK_DAEMON_JAVA_OPTS": options}, log=log, cwd=folder)
        try:
            yield
        finally:
            stop_group(process, 15)


def _await_workers(place: Standalone, folder: Path, name: str, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            if place.workers() == count:
                return
        except (OSError, ValueError):  # its page comes before what it has to say
            pass
        assert time.monotonic() < deadline, (folder / f"{name}.log").read_text()
        time.sleep(0.2)
