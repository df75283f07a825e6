"""Kubernetes as one node of this host: its own programs, real pods, in namespaces that vanish with it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import requests

from airflow_abs.spark.server.embedded_state import write_private
from testbed.host import search_path
from testbed.places.kubernetes_programs import IMAGES, PAUSE_IMAGE, PROGRAMS, SCRIPTS
from testbed.places.place import PlaceError
from testbed.places.served import START_SECONDS, Served

NODE = "node-1"
NAMESPACE, DRIVER = "spark", "spark"
"""Of the runs' servers, and the account of their pods."""
_API_PORT = 6443
_LINK, _CGROUP = "airflow-abs-k8s", "airflow-abs-kubernetes"
_NETWORK = {
    "ROUTES": "10.219.0.0/16",
    "NODE_IP": "10.219.0.1",
    "POD_CIDR": "10.219.0.0/24",
    "SERVICE_CIDR": "10.220.0.0/16",
    "API_SERVICE_IP": "10.220.0.1",
    "HOST_IP": "10.219.255.1",
    "UPLINK_IP": "10.219.255.2",
}
_ANSWER_SECONDS = 60


@dataclass(frozen=True, slots=True)
class KubernetesCluster:
    """One in `folder`. The host reaches its API and its pods by a link; pods reach the host, and nothing beyond."""

    folder: Path
    node: Served

    @classmethod
    def at(cls, folder: Path) -> KubernetesCluster:
        """Not started yet.

        Raises:
            PlaceError: another one runs, or the host uses the addresses that the pods are to have.
        """
        path = search_path()
        show = ["ip", "route", "show", "root", _NETWORK["ROUTES"]]
        routes = subprocess.run(show, env={"PATH": path}, capture_output=True, text=True, check=True).stdout.strip()
        if routes:
            raise PlaceError(
                f"kubernetes cannot run on this host: it has a route to addresses that the pods need ({routes}); end "
                "the other Kubernetes of this testbed, or remove the route"
            )
        folder.mkdir(parents=True)
        env = {
            **_NETWORK,
            "PATH": path,
            "FOLDER": str(folder),
            "BINARIES": str(PROGRAMS),
            "IMAGES": str(IMAGES),
            "NAMES": str(SCRIPTS / "names.py"),
            "PYTHON": sys.executable,
            "NODE": NODE,
            "PAUSE_IMAGE": PAUSE_IMAGE,
            "LINK": _LINK,
            "CGROUP": _CGROUP,
        }
        configure = ["bash", str(SCRIPTS / "configure.sh")]
        done = subprocess.run(configure, env={**os.environ, **env}, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PlaceError(f"kubernetes: its certificates were not made: {done.stderr[-2000:]}")
        command = ["bash", str(SCRIPTS / "node.sh")]
        return cls(folder, Served(command, _API_PORT, folder / "node.log", env, host=_NETWORK["NODE_IP"]))

    @contextmanager
    def started(self) -> Iterator[KubernetesCluster]:
        """The node is ready in the block; nothing of it runs after it."""
        _make_cgroups()
        try:
            with self.node:
                self.wait_for_node()
                yield self
        finally:
            _remove_cgroups()
            shutil.rmtree(self.folder / "run")  # images, unpacked; the logs stay

    def wait_for_node(self) -> None:
        """Raises:
        PlaceError: it is not ready in time.
        """
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if time.monotonic() > deadline or not self.node.runs():
                log = (self.folder / "node.log").read_text(errors="replace")[-2000:]
                raise PlaceError(f"the node of Kubernetes is not ready; see the logs in {self.folder}: {log}")
            time.sleep(0.5)

    @property
    def url(self) -> str:
        return f"https://{self.node.address}"

    @property
    def host_ip(self) -> str:
        """Of this host, as pods see it."""
        return _NETWORK["HOST_IP"]

    @property
    def pod_addresses(self) -> list[str]:
        """All that a pod may get."""
        return [str(each) for each in ip_network(_NETWORK["POD_CIDR"]).hosts()]

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """What the API answers an administrator; None for what is not there.

        Raises:
            requests.RequestException: it refuses, or does not answer.
        """
        pki = self.folder / "pki"
        answer = requests.request(
            method,
            f"{self.url}{path}",
            json=body,
            cert=(str(pki / "admin.crt"), str(pki / "admin.key")),
            verify=str(pki / "ca.crt"),
            timeout=_ANSWER_SECONDS,
        )
        if answer.status_code == requests.codes.not_found:
            return None
        if not answer.ok:
            raise requests.HTTPError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if "json" in answer.headers.get("Content-Type", "") else answer.text

    def create(self, *manifests: Mapping[str, Any]) -> None:
        """Objects of a namespace; those that are there are replaced."""
        for each in manifests:
            self.delete(each)
            self.ask(_path(each), "POST", each)

    def delete(self, manifest: Mapping[str, Any]) -> None:
        """The object of this kind and name, and what it owns."""
        self.ask(f"{_path(manifest)}/{manifest['metadata']['name']}?propagationPolicy=Background", "DELETE")

    def find(self, kinds: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        """All objects of a kind in the core of the API, such as `pods`."""
        return list(self.ask(f"/api/v1/namespaces/{namespace}/{kinds}")["items"])

    def everything(self) -> dict[str, str]:
        """Every object that the API lists and that is no secret, and what each container has printed, as texts."""
        found = {}
        groups = self.ask("/apis")["groups"]
        for version in ("/api/v1", *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups)):
            for resource in self.ask(version)["resources"]:
                if "list" in resource["verbs"] and resource["name"] != "secrets":
                    path = f"{version}/{resource['name']}"
                    found[path] = json.dumps(self.ask(path))
        for pod in json.loads(found["/api/v1/pods"])["items"]:
            if pod["status"]["phase"] == "Pending":
                continue
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/log?container="
            for container in pod["spec"]["containers"]:
                found[f"{path}{container['name']}"] = str(self.ask(f"{path}{container['name']}"))
        return found

    def account_token(self, account: str) -> str:
        """With which somebody is this account of `NAMESPACE` for a day."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        return str(self.ask(path, "POST", {"spec": {"expirationSeconds": 86_400}})["status"]["token"])

    def write_kubeconfig(self, account: str) -> Path:
        """Of an account of `NAMESPACE`."""
        ca = base64.b64encode((self.folder / "pki" / "ca.crt").read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "k", "cluster": {"server": self.url, "certificate-authority-data": ca}}],
            "users": [{"name": "u", "user": {"token": self.account_token(account)}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": NAMESPACE}}],
            "current-context": "c",
        }
        path = self.folder / "etc" / f"{account}.json"
        write_private(path, json.dumps(config))
        return path

    def _is_ready(self) -> bool:
        with suppress(requests.RequestException):
            nodes = self.ask("/api/v1/nodes")["items"]
            conditions = {
                each["type"]: each["status"] for node in nodes for each in node["status"].get("conditions", ())
            }
            return conditions.get("Ready") == "True"
        return False


def _path(manifest: Mapping[str, Any]) -> str:
    """Of its kind, in its namespace."""
    version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace")
    kind = manifest["kind"].lower()
    kinds = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    path = f"/{'apis' if '/' in version else 'api'}/{version}"
    return f"{path}/namespaces/{namespace}/{kinds}" if namespace else f"{path}/{kinds}"


def _cgroups() -> list[Path]:
    """One per hierarchy."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return [root / _CGROUP]
    return sorted({each.resolve() / _CGROUP for each in root.iterdir() if each.is_dir()})


def _make_cgroups() -> None:
    _remove_cgroups()
    for each in _cgroups():
        each.mkdir(exist_ok=True)
        if (cpus := each / "cpuset.cpus").exists() and not cpus.read_text().strip():  # else no process may enter it
            for name in ("cpuset.cpus", "cpuset.mems"):
                (each / name).write_text((each.parent / name).read_text())


def _remove_cgroups() -> None:
    """Those of a node whose processes have ended."""
    deadline = time.monotonic() + 10
    for each in _cgroups():
        below = sorted(filter(Path.is_dir, each.rglob("*")), key=lambda path: len(path.parts), reverse=True)
        for path in [*below, each]:
            while path.exists() and time.monotonic() < deadline:
                with suppress(OSError):
                    path.rmdir()
