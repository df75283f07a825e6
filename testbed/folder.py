"""The folder of a cluster of processes: where everything lies, on which ports it listens, what it needs of the host.

<folder>/               0711: PostgreSQL's and nginx's own users pass through, and see nothing but what is theirs
    cluster.lock        held by the process that owns the services
    cluster.json        0600, its process id, the ports, whether all is up
    secrets.env         0600, and secrets/: see `secrets.py`
    config/nginx.conf
    postgres/ airflow/ work/ shared/    data of each; shared/ has data, mart and exchange
    logs/               what each service prints
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from airflow_abs.cli.output.connect_proxy import proxy_configuration
from airflow_abs.spark.server.free_ports import choose_free_ports
from testbed.host import CLUSTER_PROGRAMS, search_path
from testbed.secrets import ensure_secrets
from testbed.topology.place import PORTS, Place

LOOPBACK = "127.0.0.1"
POSTGRES_USER = "postgres"
_MODULES = ("airflow.providers.celery", "psycopg2", "asyncpg", "pyiceberg", "pyspark")


class ClusterError(RuntimeError):
    """The cluster cannot be started or used; the message says why."""


def default_folder() -> Path:
    """Of this user: root's is where PostgreSQL's user can reach it, which no home of root is."""
    if os.geteuid() == 0:
        return Path("/var/lib/airflow-abs/cluster")
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "airflow-abs" / "cluster"


def check_host(environment: Mapping[str, str] | None = None) -> None:
    """Raises:
    ClusterError: a program or a Python package is missing; names all of them and how to get them.
    """
    path = search_path(environment)
    programs = [name for name in CLUSTER_PROGRAMS if shutil.which(name, path=path) is None]
    modules = [name for name in _MODULES if not _has_module(name)]
    told = []
    if programs:
        packages = " ".join(sorted({CLUSTER_PROGRAMS[name] for name in programs}))
        told.append(f"{', '.join(programs)} not found on PATH; install them (Debian: apt-get install {packages})")
    if modules:
        told.append(f"Python has no {', '.join(modules)}; pip install 'airflow-abs[cluster,iceberg]'")
    if told:
        raise ClusterError(f"a cluster cannot run on this host: {'; '.join(told)}")


def prepare_folder(folder: Path, dags_folder: Path) -> Place:
    """A place on loopback with free ports, and its folders, secrets and configuration on the disk.

    Raises:
        ClusterError: the folder belongs to another user, or PostgreSQL's user cannot reach it.
    """
    for name in ("config", "logs", "work", "shared", "airflow"):
        (folder / name).mkdir(parents=True, exist_ok=True, mode=0o711 if name == "config" else 0o700)
    if _owner(folder) != os.geteuid():
        raise ClusterError(f"{folder} belongs to user {_owner(folder)}; expected one of this user's; name another")
    folder.chmod(0o711)
    if os.geteuid() == 0:
        _check_reachable(folder)
    place = place_of(folder, dags_folder, dict(zip(PORTS, choose_free_ports(len(PORTS)), strict=True)))
    configuration = proxy_configuration(
        bind=LOOPBACK,
        port=place.ports["connect-tls"],
        upstream=place.address("spark-connect"),
        secrets=place.folders["secrets"],
        run=place.folders["config"],
    )
    (folder / "config" / "nginx.conf").write_text(configuration)
    return place


def place_of(folder: Path, dags_folder: Path, ports: Mapping[str, int]) -> Place:
    """The place of a cluster of processes in `folder`; its secrets are made if they are not there."""
    from airflow_abs.spark.connect.protocol import pyspark_folder

    secrets = ensure_secrets(folder / "secrets.env", folder / "secrets", ("localhost", LOOPBACK))
    names = ("config", "secrets", "shared", "airflow", "postgres", "work")
    return Place(
        bind=LOOPBACK,
        hosts=dict.fromkeys((name.removesuffix("-ui") for name in ports), LOOPBACK),
        ports=ports,
        folders={name: str(folder / name) for name in names}
        | {"dags": str(dags_folder), "spark": str(pyspark_folder()), "python": sys.executable},
        secrets=secrets,
        login=False,
    )


def _check_reachable(folder: Path) -> None:
    closed = [parent for parent in folder.parents if not parent.stat().st_mode & 0o001]
    if closed:
        raise ClusterError(
            f"PostgreSQL does not run as root, and its user {POSTGRES_USER!r} may not enter {closed[-1]}; "
            f"choose a folder elsewhere than {folder}"
        )


def _owner(folder: Path) -> int:
    return folder.stat().st_uid


def _has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
