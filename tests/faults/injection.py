"""Faults that are caused for real: processes killed and stopped, files damaged, a disk filled."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_abs.demo.services import AirflowServices
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import Manifest, ResultFile
from airflow_abs.exchange.storage.whole_files import read_json
from airflow_abs.spark.server.embedded import embedded_status
from tests.faults.damage import DAMAGES

STOP_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault that was caused. `bytes` are those of a damaged file; `target` is what was hit."""

    kind: str
    target: str
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """How many faults hit one run, spread over about two thirds of the seconds that it takes without any.

    Those are found by a first run, unless they are given.
    """

    per_run: int = 12
    quiet_seconds: float | None = None


DEFAULT_PACE = Pace()


@dataclass(slots=True)
class Injector:
    """Causes faults in one Airflow and its Spark; `chance` decides which of several targets."""

    airflow: AirflowServices
    exchange: Path
    chance: random.Random

    def kinds(self) -> dict[str, Callable[[JobFolder], Fault | None]]:
        """Every kind by name; each gives None if there is nothing to hit right now."""
        damages = {f"file: {name}": self._damage(name) for name in DAMAGES}
        return {
            "kill triggerer": self._restart("triggerer"),
            "kill scheduler": self._restart("scheduler"),
            "kill worker": self._kill_worker,
            "kill Spark worker": self._kill_executor,
            "kill Connect server": self._kill_server,
            "stop Connect server": self._stop_server,
            "stop triggerer": self._stop_triggerer,
            "disk full": self._fill_disk,
            **damages,
        }

    def _restart(self, service: str) -> Callable[[JobFolder], Fault | None]:
        def cause(_: JobFolder) -> Fault | None:
            self.airflow.kill(service)
            self.airflow.start(service, wait=False)
            return Fault(f"kill {service}", service)

        return cause

    def _kill_worker(self, _: JobFolder) -> Fault | None:
        workers = sorted(self._task_processes())
        if not workers:
            return None
        pid = self.chance.choice(workers)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return Fault("kill worker", str(pid))
        return None

    def _kill_executor(self, _: JobFolder) -> Fault | None:
        """A JVM that runs Spark tasks for the server; there is none unless the server runs as a local cluster."""
        executors = executors_of(embedded_status(self.airflow.spark_folder).jvm_pid)
        if not executors:
            return None
        pid = self.chance.choice(executors)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return Fault("kill Spark worker", str(pid))
        return None

    def _kill_server(self, _: JobFolder) -> Fault | None:
        pid = embedded_status(self.airflow.spark_folder).jvm_pid
        if pid is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return Fault("kill Connect server", str(pid))
        return None

    def _stop_server(self, _: JobFolder) -> Fault | None:
        pid = embedded_status(self.airflow.spark_folder).jvm_pid
        return self._stopped("stop Connect server", pid) if pid else None

    def _stop_triggerer(self, _: JobFolder) -> Fault | None:
        return self._stopped("stop triggerer", self.airflow._processes["triggerer"].pid)

    def _stopped(self, kind: str, pid: int) -> Fault | None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STOP_SECONDS)
            os.kill(pid, signal.SIGCONT)
            return Fault(kind, str(pid))
        return None

    def _fill_disk(self, _: JobFolder) -> Fault | None:
        """Only where the exchange is a small file system of its own."""
        if not os.path.ismount(self.exchange):
            return None
        filler = self.exchange / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(b"\0" * (1 << 20))
        time.sleep(STOP_SECONDS)
        filler.unlink()
        return Fault("disk full", str(self.exchange))

    def _damage(self, name: str) -> Callable[[JobFolder], Fault | None]:
        def cause(folder: JobFolder) -> Fault | None:
            files = sorted(blocking_files(folder), key=lambda entry: str(entry[0]))
            if not files:
                return None
            path, file = self.chance.choice(files)
            try:
                DAMAGES[name](path, file, self.chance)
            except OSError:  # it was released, or damaged before
                return None
            return Fault(f"file: {name}", path.name, file.bytes)

        return cause

    def _task_processes(self) -> Iterator[int]:
        """Processes that run a task: children of the executor's workers, which are children of the scheduler."""
        parents = _parents()
        scheduler = self.airflow._processes["scheduler"].pid
        for pid, parent in parents.items():
            if parents.get(parent) == scheduler:
                yield pid


def executors_of(server: int | None) -> list[int]:
    """Processes that run tasks for a server, by that of its JVM."""
    return sorted(pid for pid, parent in _parents().items() if parent == server and _is_executor(pid))


def _parents() -> dict[int, int]:
    """The parent of every process of this machine."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    return {int(pid): int(parent) for pid, parent in (line.split() for line in listed.stdout.splitlines())}


def _is_executor(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def blocking_files(folder: JobFolder) -> Iterator[tuple[Path, ResultFile]]:
    """Committed, whole files with rows of results that other regions read."""
    root = Path(str(folder.path))
    for path in root.glob("*/subtask-*/manifest.json"):
        with contextlib.suppress(ExchangeError):
            manifest = Manifest.from_json(read_json(path))
            for name, result in manifest.results.items():
                for file in result.files if not name.endswith(".sink") else ():
                    place = root / file.path
                    if file.rows and place.exists() and place.stat().st_size == file.bytes:
                        yield place, file
