"""What describes the cluster: a `Service` is one program of it, a `Place` where the whole runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Condition = Literal["service_healthy", "service_completed_successfully"]
HEALTHY: Condition = "service_healthy"
DONE: Condition = "service_completed_successfully"

WORKERS = ("spark-worker-1", "spark-worker-2")
TRIGGERERS = ("triggerer-1", "triggerer-2")
AIRFLOW = ("api-server", "scheduler", "dag-processor", *TRIGGERERS, "worker")
# Folders that services write to and share.
WRITTEN = ("postgres", "shared", "airflow")
# Ports inside containers, where every service has an address of its own. Processes get free ones.
PORTS = {
    "postgres": 5432,
    "redis": 6379,
    "api-server": 8080,
    "spark-master": 7077,
    "spark-master-ui": 8080,
    "spark-worker-1": 7078,
    "spark-worker-1-ui": 8081,
    "spark-worker-2": 7078,
    "spark-worker-2-ui": 8081,
    "spark-connect": 15002,
    "spark-connect-ui": 4040,
    "connect-tls": 15003,
}
# Hexadecimal random numbers, so that none needs quoting in a URL, a file or an environment; see `secrets.py`.
SECRETS = (
    "POSTGRES_PASSWORD",
    "REDIS_PASSWORD",
    "AIRFLOW_FERNET_KEY",
    "AIRFLOW_API_SECRET",
    "AIRFLOW_JWT_SECRET",
    "SPARK_CONNECT_TOKEN",
    "SPARK_RPC_SECRET",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one cluster runs. `hosts` and `ports` by service, `folders` by what lies in them.

    `hosts` are names under which the others reach a service, `bind` the address that it listens on.
    Folders: config (nginx.conf), secrets (files of `secrets.py`), shared (lake, mart, exchange), dags, airflow
    (its home), postgres (its data), work (Spark's own files), spark (SPARK_HOME), python (an interpreter's path).
    """

    bind: str
    hosts: Mapping[str, str]
    ports: Mapping[str, int]
    folders: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    # Without a login, anyone who reaches the UI is an admin: for loopback only.
    login: bool = True

    def address(self, service: str) -> str:
        """host:port under which the others reach it; a worker's or the master's own pages as `<service>-ui`."""
        return f"{self.hosts[service.removesuffix('-ui')]}:{self.ports[service]}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a container of the service may use at most. Memory in MiB."""

    cpus: float
    memory: int


@dataclass(frozen=True, slots=True)
class Service:
    """One program. `health` is a command that succeeds once it can be used; empty for one that does its work and ends.

    `mounts` are folders of the place, or files in one (`secrets/ca.crt`), that the service sees; of them it writes to
    those in `WRITTEN`.
    `publishes` are ports that the host's own users may reach. `start_seconds` is how long it may take to be healthy.
    `scratch` is a folder of a container that is gone with it.
    """

    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    limits: Limits
    depends_on: Mapping[str, Condition] = field(default_factory=dict)
    health: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    networks: tuple[str, ...] = ("airflow",)
    publishes: tuple[int, ...] = ()
    start_seconds: int = 60
    scratch: str = ""


OUR_IMAGE = "airflow-abs"
# The processes run Debian 12's PostgreSQL 15, Redis 7.0 and nginx 1.22: the same or nearest releases with a container.
IMAGES = {"postgres": "postgres:15-bookworm", "redis": "redis:7-bookworm", "nginx": "nginx:1.28-bookworm"}


def curl(url: str) -> tuple[str, ...]:
    """A health check: whether something answers there without an error."""
    return ("curl", "-fsS", "-o", "/dev/null", url)
