"""The cluster as processes of this host: PostgreSQL, Redis, Spark, a TLS proxy and Airflow, all on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from airflow_abs.demo.bound_child import start_bound, stop_group
from airflow_abs.demo.services import AirflowServices, Report
from testbed.folder import (
    LOOPBACK,
    POSTGRES_USER,
    ClusterError,
    check_host,
    prepare_folder,
)
from testbed.host import search_path
from testbed.spread import has_all_executors
from testbed.topology.place import AIRFLOW, WORKERS, Place, Service
from testbed.topology.services import services
from testbed.topology.spark import RECOVERY_FOLDER

HEALTH_SECONDS = 180.0
_STOP_SECONDS = 8.0
_POLL_SECONDS = 0.2
_LOG_TAIL = 30
# Ends PostgreSQL without waiting for its clients.
_STOP_SIGNALS = {"postgres": signal.SIGINT}


class ClusterProcesses:
    """Every service of the topology, started by `with` and gone after it, however it is left.

    `folder` must be its own: data in it are kept and used again, processes that live in it are ended.
    `env` adds to the environment of Airflow's services.
    """

    def __init__(
        self,
        folder: Path,
        dags_folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        report: Report = lambda line: None,
    ) -> None:
        check_host()
        self.folder = folder.absolute()
        self.place = prepare_folder(self.folder, dags_folder.absolute())
        self._base = base_environment()
        self._work = Path(self.place.folders["work"])
        self.services = services(self.place)
        self.airflow = self._airflow(dags_folder, env or {}, report)
        self._report = report
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._start_all()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, name: str, *, wait: bool = True) -> None:
        """Start a service that is not running; with `wait`, returns when it is healthy.

        Raises:
            ClusterError: it ended, or is not healthy in its time; with the end of its log.
        """
        if name in AIRFLOW:
            self.airflow.start(name, wait=wait)
        else:
            service = self.services[name]
            command = self._as_its_user(name, service.command)
            with self.log_file(name).open("ab") as log:
                self._processes[name] = start_bound(command, env=self._environment(service), log=log, cwd=self._work)
        if wait:
            self.wait_until_healthy([name])

    def wait_until_healthy(self, names: Sequence[str]) -> None:
        """As `start` waits, for services that have been started without."""
        for name in names:
            if name not in AIRFLOW or name == "worker":  # Airflow itself knows the others' health
                self._await_health(self.services[name])

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End one service and every process of its group at once, as a crash would."""
        if name in AIRFLOW:
            self.airflow.kill(name, number)
            return
        if (process := self._processes.pop(name, None)) is not None:
            with suppress(ProcessLookupError):  # it had ended by itself
                os.killpg(process.pid, number)
            process.wait(HEALTH_SECONDS)

    def revive(self) -> list[str]:
        """Start again what was killed or has ended by itself, as containers are that run `unless-stopped`; its names.

        Whether that is healthy is not awaited: what depends on another service may end, and be started, several times.
        """
        ended = [name for name, service in self.services.items() if service.health and not self._is_running(name)]
        for name in ended:
            self.kill(name)  # what it may have left
            self.start(name, wait=False)
        return ended

    def stop(self) -> None:
        """End everything, what depends on others first. Calling it again does nothing."""
        self.airflow.stop()
        for name in reversed(self.services):
            process = self._processes.pop(name, None)
            if process is not None:
                with suppress(ProcessLookupError):
                    process.send_signal(_STOP_SIGNALS.get(name, signal.SIGTERM))
                stop_group(process, _STOP_SECONDS)

    def run(self, name: str) -> None:
        """Run a service that does its work and ends.

        Raises:
            ClusterError: it ended with an error; with the end of its log.
        """
        self._run(name, self.services[name].command)

    def log_file(self, name: str) -> Path:
        return self.airflow.log_file(name) if name in AIRFLOW else self.folder / "logs" / f"{name}.log"

    def _is_running(self, name: str) -> bool:
        if name in AIRFLOW:
            return self.airflow.is_running(name)
        return name in self._processes and self._processes[name].poll() is None

    def _start_all(self) -> None:
        self._report("PostgreSQL, Redis")
        self._create_database_files()
        self.start("postgres")
        self._create_database()
        self.start("redis")
        self._report("Spark: master, two workers, Connect server, TLS in front of it")
        shutil.rmtree(self._work / RECOVERY_FOLDER, ignore_errors=True)  # what an earlier cluster had is gone
        for name in ("spark-master", *WORKERS):
            self.start(name, wait=False)
        self.wait_until_healthy(["spark-master", *WORKERS])
        for name in ("spark-connect", "connect-tls"):  # they come up while Airflow makes its tables
            self.start(name, wait=False)
        self.airflow.start_all()
        self.wait_until_healthy(["spark-connect", "connect-tls", "worker"])
        self._await_executors()
        self._report(f"Spark: up, sc://{self.place.address('connect-tls')}")

    def _airflow(self, dags_folder: Path, env: Mapping[str, str], report: Report) -> AirflowServices:
        ours = dict(self.services["api-server"].environment) | {"PATH": search_path()}
        return AirflowServices(
            Path(self.place.folders["airflow"]),
            dags_folder,
            env={**ours, **env},
            report=report,
            commands={name: self.services[name].command for name in ("airflow-init", *AIRFLOW)},
            port=self.place.ports["api-server"],
        )

    def _environment(self, service: Service) -> dict[str, str]:
        return self._base | dict(service.environment)

    def _await_health(self, service: Service) -> None:
        """First its port, which costs nothing to ask for, then its own health check."""
        deadline = time.monotonic() + HEALTH_SECONDS + service.start_seconds
        environment = self.airflow.env if service.name in AIRFLOW else self._environment(service)
        port = self.place.ports.get(service.name)
        while True:
            if (port is None or _accepts(port)) and (told := check_health(service, environment)) is None:
                return
            process = self._processes.get(service.name)
            if process is not None and process.poll() is not None:
                raise ClusterError(self._story(service.name, f"ended with status {process.returncode}"))
            if time.monotonic() > deadline:
                found = f"is not healthy after {HEALTH_SECONDS + service.start_seconds:g} s"
                raise ClusterError(self._story(service.name, f"{found}: {told}" if port is None else found))
            time.sleep(_POLL_SECONDS)

    def _await_executors(self) -> None:
        deadline = time.monotonic() + HEALTH_SECONDS
        while not has_all_executors(self.place):
            if time.monotonic() > deadline:
                raise ClusterError(
                    self._story("spark-connect", f"has not every worker's cores after {HEALTH_SECONDS:g} s")
                )
            time.sleep(_POLL_SECONDS)

    def _create_database_files(self) -> None:
        data = Path(self.place.folders["postgres"])
        if (data / "PG_VERSION").exists():
            return
        data.mkdir(mode=0o700, exist_ok=True)
        password = self.folder / "postgres.password"
        password.touch(mode=0o600)
        password.write_text(self.place.secrets["POSTGRES_PASSWORD"])
        if os.geteuid() == 0:
            shutil.chown(data, POSTGRES_USER, POSTGRES_USER)
            shutil.chown(password, POSTGRES_USER)
        command = (
            *("initdb", "--username", "airflow", "--pwfile", str(password), "--auth", "scram-sha-256"),
            *("--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync", "--pgdata", str(data)),
        )
        try:
            self._run("initdb", self._as_its_user("postgres", command))
        finally:
            password.unlink()

    def _create_database(self) -> None:
        connection = ("--host", LOOPBACK, "--port", str(self.place.ports["postgres"]), "--username", "airflow")
        environment = self._base | {"PGPASSWORD": self.place.secrets["POSTGRES_PASSWORD"]}
        listed = ("psql", *connection, "--dbname", "postgres", "--tuples-only", "--no-align", "--command")
        query = (*listed, "SELECT count(*) FROM pg_database WHERE datname = 'airflow'")
        done = subprocess.run(query, env=environment, capture_output=True, text=True, timeout=60, check=True)
        if done.stdout.strip() == "0":
            subprocess.run(("createdb", *connection, "airflow"), env=environment, timeout=60, check=True)

    def _run(self, name: str, command: Sequence[str]) -> None:
        with self.log_file(name).open("ab") as log:
            process = start_bound(command, env=self._base, log=log, cwd=self.folder)
        try:
            status = process.wait(HEALTH_SECONDS)
        finally:
            stop_group(process, 1)
        if status != 0:
            raise ClusterError(self._story(name, f"ended with status {status}"))

    def _as_its_user(self, name: str, command: Sequence[str]) -> tuple[str, ...]:
        """PostgreSQL refuses to run as root. Changing the user forgets that it should end with us: said again."""
        if name != "postgres" or os.geteuid() != 0:
            return tuple(command)
        change = ("setpriv", "--reuid", POSTGRES_USER, "--regid", POSTGRES_USER, "--init-groups", "--pdeathsig", "INT")
        return (*change, *command)

    def _story(self, name: str, what: str) -> str:
        path = self.log_file(name)
        tail = path.read_text(errors="replace").splitlines()[-_LOG_TAIL:] if path.exists() else []
        return f"the cluster's {name} {what}; the end of {path}:\n" + "\n".join(tail)


def base_environment() -> dict[str, str]:
    """Of services that are not Airflow's: nothing of the caller's but where programs, Java and the home are."""
    from airflow_abs.spark.server.java import find_java_home

    return {
        "PATH": search_path(),
        "JAVA_HOME": str(find_java_home()),
        "HOME": os.environ.get("HOME", "/"),
        "LANG": "C.UTF-8",
    }


def check_health(service: Service, environment: Mapping[str, str]) -> str | None:
    """Run the health check of the service; None if it is healthy, else what the check said."""
    try:
        done = subprocess.run(
            service.health,
            env={**environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HEALTH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"its health check took more than {HEALTH_SECONDS:g} s"
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).strip().splitlines()
    return said[-1] if said else f"its health check ended with status {done.returncode}"


def check_all(place: Place) -> dict[str, str | None]:
    """What each service's own health check says, by name; None where all is well."""
    ours = base_environment()
    asked = [service for service in services(place).values() if service.health]
    with ThreadPoolExecutor(4) as threads:
        said = threads.map(lambda service: check_health(service, ours | dict(service.environment)), asked)
    return dict(zip((service.name for service in asked), said, strict=True))


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0
