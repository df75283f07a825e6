"""YARN as two daemons of Hadoop on loopback, a resource manager and a node manager, on this host's file system."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin
from xml.sax.saxutils import escape

import requests

from airflow_abs.spark.server.free_ports import choose_free_ports
from airflow_abs.spark.server.java import find_java_home
from testbed.places.place import PlaceError
from testbed.places.programs import jars_folder
from testbed.places.served import LOOPBACK, START_SECONDS, Served

MEMORY_MIB, CORES = 5120, 6
_DAEMONS = {"manager": "resourcemanager.ResourceManager", "node": "nodemanager.NodeManager"}
_SERVER = "org.apache.hadoop.yarn.server"
_OPENS = ("java.base/java.lang", "java.base/java.util", "java.base/java.io")
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")
_LOG = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""
_ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})
_PAGES = 400


@dataclass(frozen=True, slots=True)
class YarnCluster:
    """One in `folder`. `manager` and `node` can be killed and come back; what the manager knows is in `store`."""

    folder: Path
    manager: Served
    node: Served

    @classmethod
    def at(cls, folder: Path) -> YarnCluster:
        """Not started yet."""
        ports = choose_free_ports(9)
        conf = folder / "conf"
        conf.mkdir(parents=True)
        _write(conf / "core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": folder / "tmp"})
        _write(conf / "yarn-site.xml", _yarn_site(folder, ports))
        _write(conf / "capacity-scheduler.xml", _queues())
        (conf / "log4j.properties").write_text(_LOG)
        java = [str(find_java_home() / "bin" / "java"), *_JAVA, *(f"--add-opens={each}=ALL-UNNAMED" for each in _OPENS)]
        path = ["-cp", f"{conf}:{jars_folder('yarn')}/*"]
        daemons = {
            name: Served([*java, *path, f"{_SERVER}.{main}"], port, folder / f"{name}.log", cls._env(conf))
            for (name, main), port in zip(_DAEMONS.items(), (ports[0], ports[5]), strict=True)
        }
        return cls(folder, **daemons)

    @contextmanager
    def started(self) -> Iterator[YarnCluster]:
        """Both are up in the block."""
        with ExitStack() as stack:
            for daemon in (self.manager, self.node):
                stack.enter_context(daemon)
            self.wait_for_node()
            yield self

    def wait_for_node(self) -> None:
        """Raises:
        PlaceError: none offers itself to the manager in time.
        """
        deadline = time.monotonic() + START_SECONDS
        while self._metric("activeNodes") < 1:
            if time.monotonic() > deadline:
                raise PlaceError(
                    f"no node offers itself to YARN's manager at {self.manager.address}; see {self.folder}"
                )
            time.sleep(0.2)

    @property
    def store(self) -> Path:
        """Without it, a restarted manager knows no application."""
        return self.folder / "store"

    @property
    def staging(self) -> Path:
        """Where Spark puts what an application is started with."""
        return self.folder / "staging"

    @property
    def environment(self) -> Mapping[str, str]:
        """Of whatever submits to it."""
        return {"HADOOP_CONF_DIR": str(self.folder / "conf")}

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection to it."""
        extra = {"yarn_resourcemanager_webapp_address": f"http://{self.manager.address}"}
        return {"conn_type": "spark", "host": "yarn", "extra": extra}

    def applications(self, *states: str) -> list[dict[str, Any]]:
        """What the manager says of those in one of these states, or of all."""
        which = f"?states={','.join(states)}" if states else ""
        found = self._ask(f"/apps{which}")["apps"]
        return list((found or {}).get("app") or [])

    def active(self) -> list[str]:
        """Ids of applications that have not ended."""
        return [each["id"] for each in self.applications() if each["state"] not in _ENDED]

    def pages(self) -> dict[str, str]:
        """Everything that both show without a login, by address: what links lead to, and the REST interfaces."""
        roots = [f"http://{each.address}" for each in (self.manager, self.node)]
        rest = [f"{roots[0]}/ws/v1/cluster/apps", f"{roots[1]}/ws/v1/node/apps", f"{roots[1]}/ws/v1/node/containers"]
        new = [*rest, f"{roots[0]}/conf", f"{roots[1]}/conf", f"{roots[0]}/cluster", f"{roots[1]}/node"]
        seen: dict[str, str] = {}
        while new and len(seen) < _PAGES:
            url = new.pop(0)
            if url in seen:
                continue
            seen[url] = text = _read(url)
            links = re.findall(r"""(?:href|src)=["']([^"']+)["']|"(http://[^"]+)"|url=([^"']+)["']""", text)
            found = (urldefrag(urljoin(url, unescape(next(filter(None, each)))))[0] for each in links)
            new += [each for each in found if each.startswith(tuple(roots)) and "/static/" not in each]
        return seen

    @staticmethod
    def _env(conf: Path) -> dict[str, str]:
        return {"HADOOP_CONF_DIR": str(conf), "HADOOP_HOME": str(conf)}

    def _metric(self, name: str) -> int:
        try:
            return int(self._ask("/metrics")["clusterMetrics"][name])
        except requests.RequestException:
            return 0

    def _ask(self, path: str) -> dict[str, Any]:
        return dict(requests.get(f"http://{self.manager.address}/ws/v1/cluster{path}", timeout=30).json())


def _yarn_site(folder: Path, ports: list[int]) -> dict[str, object]:
    at = [f"{LOOPBACK}:{port}" for port in ports]
    names = {
        "resourcemanager": ("webapp", "", "scheduler", "resource-tracker", "admin"),
        "nodemanager": ("webapp", "", "localizer", "collector-service"),
    }
    addresses = [f"yarn.{who}.{f'{what}.' if what else ''}address" for who, each in names.items() for what in each]
    return {
        **dict(zip(addresses, at, strict=True)),
        "yarn.resourcemanager.hostname": LOOPBACK,
        "yarn.nodemanager.hostname": LOOPBACK,
        "yarn.nodemanager.bind-host": LOOPBACK,
        "yarn.nodemanager.local-dirs": folder / "local",
        "yarn.nodemanager.log-dirs": folder / "logs",
        "yarn.nodemanager.resource.memory-mb": MEMORY_MIB,
        "yarn.nodemanager.resource.cpu-vcores": CORES,
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
        "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH,LANG,JDK_JAVA_OPTIONS",
        "yarn.scheduler.minimum-allocation-mb": 128,
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.store.class": f"{_SERVER}.resourcemanager.recovery.FileSystemRMStateStore",
        "yarn.resourcemanager.fs.state-store.uri": f"file://{folder}/store",
    }


def _queues() -> dict[str, object]:
    """One, in which one driver has room and a second waits."""
    return {
        "yarn.scheduler.capacity.root.queues": "default",
        "yarn.scheduler.capacity.root.default.capacity": 100,
        "yarn.scheduler.capacity.maximum-am-resource-percent": 0.3,
    }


def _write(path: Path, settings: Mapping[str, object]) -> None:
    row = "<property><name>{}</name><value>{}</value></property>"
    rows = (row.format(name, escape(str(value))) for name, value in settings.items())
    path.write_text("<configuration>\n" + "\n".join(rows) + "\n</configuration>\n")


def _read(url: str) -> str:
    try:
        return requests.get(url, timeout=30).text
    except requests.RequestException as error:
        return str(error)
