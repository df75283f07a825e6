"""The cluster of docker-compose.yaml in real containers, from a copy of this tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from airflow_abs.demo.airflow_api import AirflowApi
from testbed.places.container_engine import Engine
from testbed.places.place import PlaceError

TREE = Path(__file__).parents[2]
URL = "http://127.0.0.1:8080"
MASTER_URL = "http://127.0.0.1:8081"
PROJECT = "airflow-abs"
_COPIED = ("airflow_abs", "dags", "docker", "testbed", "docker-compose.yaml", "pyproject.toml", "requirements.lock")
_COPIED_TEXTS = ("README.md", "LICENSE", ".dockerignore")
_HEALTHY_SECONDS = 600.0
_NOTICED_SECONDS = 60.0
_PASSWORDS = "/opt/airflow/simple_auth_manager_passwords.json.generated"


@dataclass(frozen=True, slots=True)
class ComposeProject:
    """One in `folder`, which holds what a clone would."""

    engine: Engine
    folder: Path

    @classmethod
    def at(cls, engine: Engine, folder: Path) -> ComposeProject:
        """A copy of this tree without secrets; nothing of it runs yet."""
        folder.mkdir(parents=True)
        for name in (*_COPIED, *_COPIED_TEXTS):
            if (TREE / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", *(["secrets"] if name == "docker" else []))
                shutil.copytree(TREE / name, folder / name, ignore=ignored)
            else:
                shutil.copy(TREE / name, folder / name)
        return cls(engine, folder)

    def make_secrets(self) -> None:
        """As `make secrets`, which has no need of an environment."""
        subprocess.run([sys.executable, "-m", "testbed.secrets"], cwd=self.folder, check=True, capture_output=True)

    def run(self, *arguments: str) -> str:
        """What `docker compose` printed.

        Raises:
            PlaceError: it failed; with what it says.
        """
        return self.engine.run("compose", *arguments, cwd=self.folder)

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.engine.ask("compose", *arguments, cwd=self.folder)

    def wait_until_healthy(self, *names: str) -> float:
        """Seconds until these services, or all that are meant to run, were.

        Raises:
            PlaceError: not in time; with what they are and the end of their logs.
        """
        started, wanted = time.monotonic(), names or self.lasting()
        while ill := sorted({*wanted} - {name for name, state in self.states().items() if state == "healthy"}):
            if time.monotonic() - started > _HEALTHY_SECONDS:
                logs = self.ask("logs", "--tail", "30", *ill).stdout
                raise PlaceError(f"compose: {', '.join(ill)} not healthy after {_HEALTHY_SECONDS:g} s: {logs[-6000:]}")
            time.sleep(1.0)
        return time.monotonic() - started

    def states(self) -> dict[str, str]:
        """Of each container by its service: its health while it runs, or its status where none is checked."""
        of_project = f"label=com.docker.compose.project={PROJECT}"
        found = self._inspect(self.engine.run("ps", "--all", "--quiet", "--filter", of_project).split())
        states = {each["Config"]["Labels"]["com.docker.compose.service"]: each["State"] for each in found}
        return {
            name: str(state.get("Health", state)["Status"] if state["Running"] else state["Status"])
            for name, state in states.items()
        }

    def lasting(self) -> list[str]:
        """The services that are meant to run on."""
        services = json.loads(self.run("config", "--format", "json"))["services"]
        return [name for name, each in services.items() if "healthcheck" in each]

    def container(self, service: str) -> dict[str, Any]:
        """As the engine describes it."""
        (found,) = self._inspect(self.run("ps", "--all", "--quiet", service).split())
        return dict(found)

    def kill(self, service: str) -> None:
        """As a crash would end it; returns once the engine, which starts it again, has noticed.

        Raises:
            PlaceError: that took too long.
        """
        killed = int(self.container(service)["State"]["Pid"])
        if killed == 0:  # down already, because another one was; as a process, 0 would be this program's whole group
            return
        self.engine.kill(killed)
        deadline = time.monotonic() + _NOTICED_SECONDS
        while int(self.container(service)["State"]["Pid"]) == killed:
            if time.monotonic() > deadline:
                raise PlaceError(f"compose: {service} was killed {_NOTICED_SECONDS:g} s ago and still has its process")
            time.sleep(0.1)

    def restart(self, service: str) -> None:
        """As somebody does who has changed something."""
        self.run("restart", "--timeout", "5", service)

    def network(self, name: str) -> str:
        """Its name in the engine."""
        return f"{PROJECT}_{name}"

    def address(self, service: str, network: str) -> str:
        return str(self.container(service)["NetworkSettings"]["Networks"][self.network(network)]["IPAddress"])

    def volume(self, name: str) -> Path:
        """Where the host has its files."""
        return Path(self.engine.run("volume", "inspect", "--format", "{{.Mountpoint}}", f"{PROJECT}_{name}").strip())

    def api(self) -> AirflowApi:
        """As the admin, whose password is where docs/cluster.md says."""
        passwords = json.loads(self.run("exec", "-T", "api-server", "cat", _PASSWORDS))
        login = {"username": "admin", "password": passwords["admin"]}
        answer = httpx.post(f"{URL}/auth/token", json=login, timeout=60.0, trust_env=False).raise_for_status()
        return AirflowApi(URL, token=answer.json()["access_token"])

    def cores_in_use(self) -> int:
        """Of Spark's workers, as the master has them."""
        answer = httpx.get(f"{MASTER_URL}/json/", timeout=60.0, trust_env=False)
        return int(answer.raise_for_status().json()["coresused"])

    def left(self) -> list[str]:
        """What the engine has of it: containers, networks, volumes, also those without a name."""
        containers = self.engine.run("ps", "--all", "--quiet").split()
        networks = self.engine.run("network", "ls", "--filter", "type=custom", "--quiet").split()
        return containers + networks + self.engine.run("volume", "ls", "--quiet").split()

    def _inspect(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        return list(json.loads(self.engine.run("inspect", *ids))) if ids else []
