"""A real Airflow on this machine: api-server, scheduler, dag-processor and triggerer, in a home of their own.

Linux, SQLite and LocalExecutor unless told otherwise, loopback only. Used by `airflow-abs demo`, by the cluster and by
the tests that need real services.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from airflow_abs.demo.airflow_api import AirflowApi, AirflowApiError
from airflow_abs.demo.bound_child import start_bound, stop_group
from airflow_abs.demo.signals import uninterrupted
from airflow_abs.spark.server.free_ports import choose_free_ports

SERVICES = ("api-server", "scheduler", "dag-processor", "triggerer")
# What the health endpoint calls them; the api-server is what answers. Of triggerers there may be several.
HEALTH_KEYS = {"scheduler": "scheduler", "dag-processor": "dag_processor"}
STOP_SECONDS = 6.0
LOG_TAIL = 30

Report = Callable[[str], None]


class ServicesError(RuntimeError):
    """A service did not come up, or ended by itself; with the end of its log."""


class AirflowServices:
    """Airflow's services, started by `with` and gone after it, also after an error, Ctrl-C or a kill of this process.

    `home` must be private: whatever runs with it as its AIRFLOW_HOME is ended with the services.
    `env` adds to the environment of the services (and of the tasks they run); it takes precedence over what is set
    here.
    `report` gets a line for each thing done, `waiting` again and again what is waited for.
    `commands` are run instead of `SERVICES`, by name: an api-server on `port`, triggerers (`triggerer-1`, ...),
    `airflow-init`, which makes the tables. What Airflow's health page does not know counts as healthy at once.
    """

    def __init__(
        self,
        home: Path,
        dags_folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        start_seconds: float = 400.0,
        report: Report = lambda line: None,
        waiting: Report = lambda line: None,
        commands: Mapping[str, Sequence[str]] | None = None,
        port: int | None = None,
    ) -> None:
        self.home = home.absolute()
        self.dags_folder = dags_folder.absolute()
        self.port = port or choose_free_ports(1)[0]
        self.env = _environment(self.home, self.dags_folder, self.port) | dict(env or {})
        self.api = AirflowApi(f"http://127.0.0.1:{self.port}")
        self._commands = dict(commands) if commands else {service: self._command(service) for service in SERVICES}
        self._migration = self._commands.pop("airflow-init", _airflow("db", "migrate"))
        self._start_seconds, self._report, self._tell_waiting = start_seconds, report, waiting
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._started: dict[str, datetime] = {}

    @property
    def url(self) -> str:
        """Where the UI is."""
        return self.api.url

    @property
    def spark_folder(self) -> Path:
        """Where the tasks' embedded Spark server keeps its state and log; ended with the services."""
        return Path(self.env["AIRFLOW__ADAPTIVE_SPARK__EMBEDDED_FOLDER"])

    def __enter__(self) -> Self:
        try:
            self.start_all()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_all(self) -> None:
        """What `with` does on entry; the caller must call `stop`."""
        self.log_file("db-migrate").parent.mkdir(parents=True, exist_ok=True)
        self._write_local_settings()
        self._report("Airflow: database")
        self._migrate()
        self._report(f"Airflow: {', '.join(self._commands)}")
        for service in self._commands:
            self.start(service, wait=False)
        self.wait_until_healthy(list(self._commands))
        self._report(f"Airflow: up at {self.url}")

    def start(self, service: str, *, wait: bool = True) -> None:
        """Start a service that is not running; with `wait`, returns when Airflow calls it healthy."""
        self._started[service] = datetime.now(UTC)
        with self.log_file(service).open("ab") as log:
            self._processes[service] = start_bound(self._commands[service], env=self.env, log=log, cwd=self.home)
        if wait:
            self.wait_until_healthy([service])

    def kill(self, service: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End one service and every process of its group at once, as a crash would; Airflow is not told."""
        if (process := self._processes.pop(service, None)) is not None:
            with suppress(ProcessLookupError):  # it had ended by itself
                os.killpg(process.pid, number)
            process.wait(STOP_SECONDS)

    def is_running(self, service: str) -> bool:
        """Whether its process is there, healthy or not."""
        return service in self._processes and self._processes[service].poll() is None

    def stop(self) -> None:
        """End everything that belongs to this home. Ctrl-C does not cut it short; calling it again does nothing."""
        with uninterrupted():
            running = {
                name: self._processes.pop(name) for name in reversed(list(self._commands)) if name in self._processes
            }
            for process in running.values():
                process.send_signal(signal.SIGTERM)
            for process in running.values():
                stop_group(process, STOP_SECONDS)
            self._stop_spark()
            _end_home(self.home)
            self.api.close()

    def log_file(self, service: str) -> Path:
        """Output of a service, or of `db-migrate`."""
        return self.home / "services" / f"{service}.log"

    def wait_until_healthy(self, services: list[str]) -> None:
        """Raises:
        ServicesError: a service ended, or the start's time is over; with the end of its log.
        """
        deadline = time.monotonic() + self._start_seconds
        while waiting := self._not_healthy(services):
            self._tell_waiting(f"Airflow: waiting until {' and '.join(waiting)} say that they are healthy")
            for service in waiting:
                status = self._processes[service].poll()
                if status is not None:
                    raise ServicesError(self._story(service, f"ended with status {status} while it was starting"))
            if time.monotonic() > deadline:
                raise ServicesError(self._story(waiting[0], f"is not healthy after {self._start_seconds:g} s"))
            time.sleep(0.2)

    def _stop_spark(self) -> None:
        from airflow_abs.spark.server.embedded import stop_embedded_server

        stop_embedded_server(self.spark_folder)

    def _write_local_settings(self) -> None:
        """Import what tasks import once, as docs/limits.md advises."""
        settings = self.home / "config" / "airflow_local_settings.py"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text("import airflow_abs.preload  # noqa: F401\n")

    def _migrate(self) -> None:
        with self.log_file("db-migrate").open("ab") as log:
            process = start_bound(self._migration, env=self.env, log=log, cwd=self.home)
        try:
            status: int | None = process.wait(self._start_seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            stop_group(process, 1)
        if status != 0:
            ended = "is not done" if status is None else f"ended with status {status}"
            raise ServicesError(self._story("db-migrate", ended))

    def _command(self, service: str) -> Sequence[str]:
        match service:
            case "api-server":
                return _airflow(service, "--host", "127.0.0.1", "--port", str(self.port))
            case "scheduler" | "triggerer":
                # The API server reads the log files itself; their log servers would listen on all interfaces.
                return _airflow(service, "--skip-serve-logs")
            case "dag-processor":
                return _airflow(service)
            case _:
                raise ValueError(f"services: {service!r} is none of {', '.join(SERVICES)}")

    def _not_healthy(self, services: list[str]) -> list[str]:
        import httpx

        try:
            health = self.api.health()
        except httpx.HTTPError:
            return services
        return [
            each
            for each in services
            if (each in HEALTH_KEYS and not _has_heartbeat(health.get(HEALTH_KEYS[each], {}), self._started[each]))
            or (each.startswith("triggerer") and not self._triggerer_is_alive(each))
        ]

    def _triggerer_is_alive(self, service: str) -> bool:
        """As many live ones have started since as we have started. The health page tells of the newest only."""
        since = self._started[service]
        try:
            jobs = self.api.request("GET", "/jobs", params={"job_type": "TriggererJob", "is_alive": True})["jobs"]
        except AirflowApiError:
            return False
        ours = [each for each in self._processes if each.startswith("triggerer") and self._started[each] >= since]
        return sum(datetime.fromisoformat(job["start_date"]) >= since for job in jobs) >= len(ours)

    def _story(self, service: str, what: str) -> str:
        path = self.log_file(service)
        tail = path.read_text(errors="replace").splitlines()[-LOG_TAIL:] if path.exists() else []
        return f"Airflow's {service} {what}; the end of {path}:\n" + "\n".join(tail)


def _has_heartbeat(health: Mapping[str, str | None], since: datetime) -> bool:
    """Healthy by a heartbeat of this start: for a while Airflow also calls one healthy that was killed."""
    beats = [value for key, value in health.items() if key.startswith("latest_") and value is not None]
    return health.get("status") == "healthy" and any(datetime.fromisoformat(beat) >= since for beat in beats)


def example_environment(folder: Path, target_bytes: int | None) -> dict[str, str]:
    """Settings by which the example DAGs and the embedded Spark stay inside `folder`; all others are the defaults
    if `target_bytes` is None."""
    places = {
        "AIRFLOW_ABS_DEMO_DATA": str(folder / "data"),
        "AIRFLOW_ABS_DEMO_OUT": str(folder / "mart"),
        "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE": f"file://{folder}/exchange",
    }
    if target_bytes is None:
        return places
    return places | {
        "AIRFLOW__ADAPTIVE_SPARK__TARGET_BYTES": str(target_bytes),
        # The examples' data are so small that each day would be one operation, and nothing would be left to decide.
        "AIRFLOW__ADAPTIVE_SPARK__DURABILITY": "always",
        "AIRFLOW__ADAPTIVE_SPARK__SHARE_TASKS": "False",
    }


def _airflow(*arguments: str) -> Sequence[str]:
    return [sys.executable, "-m", "airflow", *arguments]


def _environment(home: Path, dags_folder: Path, port: int) -> dict[str, str]:
    """The caller's environment without its Airflow settings, plus a complete set of our own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    url = f"http://127.0.0.1:{port}"
    settings = {
        "CORE__DAGS_FOLDER": str(dags_folder),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        # A subtask's worker mostly starts up and waits for Spark: more of them than this only slow each other down.
        "CORE__PARALLELISM": str(2 * (os.cpu_count() or 1)),
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        # A fernet key is 32 random bytes in URL-safe base64, with its padding.
        "CORE__FERNET_KEY": secrets.token_urlsafe(32) + "=",
        # Five seconds, the defaults, are soon over on a busy machine: a service that waits longer for SQLite's only
        # writer ends, and a task fails that waits longer for the API, which is set up at the first request.
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout=60",
        "WORKERS__EXECUTION_API_TIMEOUT": "60",
        "LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "API__BASE_URL": url,
        "API__SECRET_KEY": secrets.token_hex(32),
        "API_AUTH__JWT_SECRET": secrets.token_hex(32),
        # At 0.3 s, looking at its runs takes a tenth of a core, and saves a tenth of a second between two tasks.
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        # Only the runs that are asked for: the example DAGs are @daily, today's data does not exist.
        "SCHEDULER__USE_JOB_SCHEDULE": "False",
        "ADAPTIVE_SPARK__EMBEDDED_FOLDER": str(home / "spark"),
        "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        # New and changed files are parsed at once; the others not again and again, which took a fifth of two cores.
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        "DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "2",
    }
    return {
        **inherited,
        "NO_PROXY": "localhost,127.0.0.1",
        "no_proxy": "localhost,127.0.0.1",
        "AIRFLOW_HOME": str(home),
        # A connection without a host: the embedded Spark server. It ends by itself should all of this be killed.
        "AIRFLOW_CONN_SPARK_CONNECT_DEFAULT": '{"conn_type": "spark_connect", "extra": {"idle_seconds": 120}}',
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
    }


def _end_home(home: Path) -> None:
    """Kill what still runs with `home` as its AIRFLOW_HOME: tasks have groups of their own."""
    mark = b"AIRFLOW_HOME=" + os.fsencode(home)
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended while we looked, or belongs to another user
            if mark in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                os.kill(int(folder.name), signal.SIGKILL)
