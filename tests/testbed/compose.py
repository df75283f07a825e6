"""What docker-compose.yaml has to say, made from the topology."""

from __future__ import annotations

from typing import Any

from testbed.topology.place import OUR_IMAGE, PORTS, SECRETS, WRITTEN, Place, Service
from testbed.topology.services import services

BUILT = "spark-master"
"""The one service that has `build`: all others use its image."""
SECRETS_HINT = "run `make secrets` first"
# Folder of a place: what it is on the host (a path, or the name of a volume).
SOURCES = {"config": "./docker", "secrets": "./docker/secrets", "dags": "./dags"}
FOLDERS = {
    "config": "/opt/config",
    "secrets": "/run/secrets",
    "dags": "/opt/dags",
    "shared": "/shared",
    "airflow": "/opt/airflow",
    "postgres": "/var/lib/postgresql/data",
    "work": "/work",
    "spark": "/usr/local/lib/python3.11/site-packages/pyspark",
    "python": "/usr/local/bin/python",
}
# Of published ports: where on the host's loopback.
PUBLISHED = {"api-server": 8080, "spark-master": 8081}


def compose_place() -> Place:
    """Containers: a service is reached by its name, its secrets are variables without a default."""
    return Place(
        bind="0.0.0.0",  # noqa: S104
        hosts={name.removesuffix("-ui"): name.removesuffix("-ui") for name in PORTS},
        ports=PORTS,
        folders=FOLDERS,
        secrets={name: f"${{{name}:?{SECRETS_HINT}}}" for name in SECRETS},
    )


def compose_services() -> dict[str, dict[str, Any]]:
    """The `services` of the file as far as the topology decides them."""
    return {name: compose_service(service) for name, service in services(compose_place()).items()}


def compose_service(service: Service) -> dict[str, Any]:
    told: dict[str, Any] = {
        "image": service.image,
        "command": list(service.command),
        "environment": dict(service.environment),
        "networks": list(service.networks),
        "restart": "unless-stopped" if service.health else "no",
        "deploy": {
            "resources": {"limits": {"cpus": f"{service.limits.cpus:g}", "memory": f"{service.limits.memory}M"}}
        },
    }
    if service.image == OUR_IMAGE:
        told |= {"pull_policy": "never", "init": True}
    if service.name == BUILT:
        told["build"] = {"context": ".", "dockerfile": "docker/Dockerfile"}
    if service.scratch:
        told["tmpfs"] = [service.scratch]
    if service.depends_on:
        told["depends_on"] = {name: {"condition": condition} for name, condition in service.depends_on.items()}
    if service.mounts:
        told["volumes"] = [compose_mount(mount) for mount in service.mounts]
    if service.health:
        told["healthcheck"] = {"test": ["CMD", *service.health], "start_period": f"{service.start_seconds}s"}
    if service.publishes:
        told["ports"] = [f"127.0.0.1:{PUBLISHED[service.name]}:{port}" for port in service.publishes]
    return told


def compose_mount(mount: str) -> str | dict[str, Any]:
    folder, _, file = mount.partition("/")
    inside = f"/{file}" if file else ""
    if folder == "secrets":  # without the file the engine would make a folder there, and Redis let everybody in
        return {
            "type": "bind",
            "source": f"{SOURCES[folder]}{inside}",
            "target": f"{FOLDERS[folder]}{inside}",
            "read_only": True,
            "bind": {"create_host_path": False},
        }
    access = "" if folder in WRITTEN else ":ro"
    return f"{SOURCES.get(folder, folder)}{inside}:{FOLDERS[folder]}{inside}{access}"
