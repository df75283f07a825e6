"""What the scenes of YARN and Kubernetes share: a day on a server of its own, which can be stopped in its middle."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from airflow_abs.demo.services import AirflowServices, example_environment
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.server_record import RunServer, read_server
from airflow_abs.spark.server.application import derive_token
from tests.airflow_settings import FOR_TESTS
from tests.places.daily import JOIN, SECONDS, TARGET_BYTES, Daily, generate_days
from tests.standalone import RUN_CONNECTION, RUN_SECRET
from tests.task_instances import clear_task
from tests.waiting import wait_until

START = "revenue.start_server"
_DAG = "revenue_on_cluster"


@dataclass(frozen=True, slots=True)
class OnCluster(Daily):
    """`folder` holds everything; both sides see what is in `shared` under the same name."""

    folder: Path = field(kw_only=True)

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    @classmethod
    @contextmanager
    def started(
        cls, folder: Path, connections: Mapping[str, Any], conf: Mapping[str, str], env: Mapping[str, str], **more: Any
    ) -> Iterator[Self]:
        """Airflow is up in the block.

        Args:
            connections: of Airflow, by the name of their variable.
            conf: of the run's Spark server.
            env: further environment of Airflow's services.
            more: what `cls` has beside these.
        """
        shared, dags = folder / "shared", folder / "dags"
        for path in (dags, *(shared / name for name in ("data", "mart", "exchange", "gates"))):
            path.mkdir(parents=True)
        generate_days(shared / "data")
        shutil.copy(Path(__file__).parent / "dags" / f"{_DAG}.py", dags)
        environment = {
            **example_environment(shared, TARGET_BYTES),
            **FOR_TESTS,
            **{f"AIRFLOW_CONN_{name}": json.dumps(each) for name, each in connections.items()},
            "AIRFLOW_CONN_RUN_SPARK": RUN_CONNECTION,
            "AIRFLOW_ABS_PLACE_CONF": json.dumps(dict(conf)),
            "AIRFLOW_ABS_PLACE_GATES": str(shared / "gates"),
            # A killed task is noticed after seconds instead of minutes.
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            **env,
        }
        with AirflowServices(folder / "airflow", dags, env=environment, start_seconds=SECONDS) as airflow:
            yield cls(airflow, shared / "data", shared / "mart", _DAG, folder=folder, **more)

    @contextmanager
    def held(self, day: int) -> Iterator[str]:
        """A run of the day, whose join is under way on an executor and waits there until the block ends."""
        gate = self._gate(f"day-{day}")
        gate.touch()
        try:
            run_id = self.start(day)
            self.wait_until_held(run_id)
            yield run_id
        finally:
            gate.unlink()

    def wait_until_held(self, run_id: str) -> None:
        reached = Path(f"{self._gate(run_id)}.reached")
        wait_until(lambda: reached.exists() or self._is_over(run_id), SECONDS)
        assert reached.exists(), self.told(run_id)
        reached.unlink()

    def job(self, run_id: str) -> JobFolder:
        return JobFolder(self.shared / "exchange", self.dag_id, run_id, "revenue")

    def server(self, run_id: str) -> RunServer:
        found = read_server(self.job(run_id))
        assert found is not None
        return found

    def replace_server(self, run_id: str) -> None:
        """Once a subtask says that the server is gone, do what it says."""
        told = f"it was started for this run as {self.server(run_id).application}, whose log says why it ended; clear"
        wait_until(lambda: told in self.log(run_id, JOIN, 0), SECONDS, seen=lambda: self.log(run_id, JOIN, 0))
        clear_task(self.api, self.dag_id, run_id, START)
        print(f"{run_id}: a subtask says: {told} {START.partition('.')[2]} of the run ...", flush=True)

    def kill_task(self, run_id: str, task_id: str) -> list[int]:
        """The task's process and all that it has started, at once; the one that watches over it stays."""
        (task,) = (each for each in self.api.task_instances(self.dag_id, run_id) if each.task_id == task_id)
        found = processes()
        pids = {each.pid for each in found if task.id in each.command}
        assert pids, (task, found)
        killed: set[int] = set()
        while pids := {each.pid for each in found if each.parent in pids} - killed:
            killed |= pids
        for pid in killed:
            with suppress(ProcessLookupError):  # spark-submit ends with the task
                os.kill(pid, signal.SIGKILL)
        return sorted(killed)

    def log(self, run_id: str, task_id: str, map_index: int = -1) -> str:
        """Of all its tries."""
        instances = self.api.task_instances(self.dag_id, run_id)
        tries = [each.try_number for each in instances if (each.task_id, each.map_index) == (task_id, map_index)]
        logs = (self.api.task_log(self.dag_id, run_id, task_id, map_index, each + 1) for each in range(max(tries)))
        return "\n".join(logs)

    def look_for_token(self, run_id: str, shown: Mapping[str, str], *private: str, held: str = "") -> None:
        """It must be in nothing that somebody without rights sees: `shown`, by what it is, files, command lines.

        Args:
            private: patterns of files that hold it, and that nobody but their owner may read.
            held: what only those with rights are shown.
        """
        token = derive_token(RUN_SECRET, self.server(run_id).key)
        lines = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        seen, kept = {**shown, "command lines": lines}, held
        for path in filter(Path.is_file, self.folder.rglob("*")):
            with suppress(FileNotFoundError):
                text = path.read_bytes().decode(errors="replace")
                if any(re.search(each, str(path)) for each in private) and _is_private(path, self.folder):
                    kept += text
                else:
                    seen[str(path)] = text
        assert token in kept  # else this looks for something that was nowhere
        assert any("plan.json" in each for each in seen)
        encoded = base64.b64encode(token.encode()).decode()  # as Kubernetes shows secrets
        assert [each for each, text in seen.items() if token in text or encoded in text] == []
        characters = sum(map(len, seen.values()))
        print(f"{run_id}: its token is in none of {len(seen)} texts of {characters / 1e6:.0f} MB", flush=True)

    def environments(self) -> dict[str, str]:
        """Of the processes that belong to this place."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                found[str(path)] = path.read_bytes().decode(errors="replace")
        return {name: text for name, text in found.items() if str(self.folder) in text}

    def _gate(self, run_id: str) -> Path:
        return self.shared / "gates" / run_id

    def _is_over(self, run_id: str) -> bool:
        return self.api.run_state(self.dag_id, run_id) in {"failed", "success"}


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    command: str


def processes() -> list[Process]:
    """All of this host."""
    told = subprocess.run(["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = (row.split(maxsplit=2) for row in told.splitlines())
    return [Process(int(pid), int(parent), "".join(command)) for pid, parent, *command in rows]


def _is_private(path: Path, below: Path) -> bool:
    """Whether a mode on its way from there keeps others out."""
    way = [path, *(each for each in path.parents if each != below and each.is_relative_to(below))]
    return any(each.stat().st_mode & 0o077 == 0 for each in way)
