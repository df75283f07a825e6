"""The cluster: which services there are, how each is started, where it listens, when it is healthy.

The one description of it. `python -m testbed cluster` runs these services as processes of one host;
`docker-compose.yaml` says the same of containers, and a test holds the two together.
"""

from __future__ import annotations

from testbed.topology.airflow import airflow_services
from testbed.topology.place import HEALTHY, IMAGES, OUR_IMAGE, Limits, Place, Service
from testbed.topology.spark import spark_services


def services(place: Place) -> dict[str, Service]:
    """Every service by name, in an order in which each comes after what it depends on."""
    found = [
        _postgres(place),
        _redis(place),
        *spark_services(place),
        _connect_tls(place),
        _example_data(place),
        *airflow_services(place),
    ]
    return {service.name: service for service in found}


def _postgres(place: Place) -> Service:
    port = str(place.ports["postgres"])
    contained = place.bind == "0.0.0.0"  # noqa: S104 -- a container's own network
    settings = {
        "listen_addresses": "*" if contained else place.bind,
        "port": port,
        "max_connections": "200",
        "unix_socket_directories": "/var/run/postgresql" if contained else "",  # the image's setup uses it
        "password_encryption": "scram-sha-256",
    }
    return Service(
        "postgres",
        IMAGES["postgres"],
        ("postgres", *(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))),
        {
            "POSTGRES_USER": "airflow",
            "POSTGRES_DB": "airflow",
            "POSTGRES_PASSWORD": place.secrets["POSTGRES_PASSWORD"],
            "PGDATA": place.folders["postgres"],
        },
        Limits(1, 1024),
        health=("pg_isready", "--quiet", "--host", "127.0.0.1", "--port", port, "--username", "airflow"),
        mounts=("postgres",),
    )


def _redis(place: Place) -> Service:
    port = str(place.ports["redis"])
    return Service(
        "redis",
        IMAGES["redis"],
        (
            *("redis-server", "--bind", place.bind, "--port", port, "--save", "", "--appendonly", "no"),
            # The password's hash only: command lines are public.
            *("--aclfile", f"{place.folders['secrets']}/redis.acl"),
            # If that is no file, its default user has no password: then no one else gets in.
            *("--protected-mode", "yes"),
        ),
        {"REDISCLI_AUTH": place.secrets["REDIS_PASSWORD"]},
        Limits(0.5, 256),
        health=("redis-cli", "-e", "-h", "127.0.0.1", "-p", port, "ping"),
        mounts=("secrets/redis.acl",),
        scratch="/data",  # which the image declares a volume
    )


def _connect_tls(place: Place) -> Service:
    """Spark Connect 4.2 has no TLS of its own: this is the only way to it from outside Spark's network."""
    return Service(
        "connect-tls",
        IMAGES["nginx"],
        ("nginx", "-e", "stderr", "-c", f"{place.folders['config']}/nginx.conf", "-g", "daemon off;"),
        {},
        Limits(0.5, 128),
        {"spark-connect": HEALTHY},
        health=("curl", "-fsSk", "-o", "/dev/null", f"https://127.0.0.1:{place.ports['connect-tls']}/healthy"),
        mounts=("config/nginx.conf", "secrets/connect.crt", "secrets/connect.key"),
        networks=("airflow", "spark"),
    )


def _example_data(place: Place) -> Service:
    """What the example DAGs read: made once, ends at once when it is there."""
    return Service(
        "example-data",
        OUR_IMAGE,
        (
            *("airflow-abs", "generate", "--out", f"{place.folders['shared']}/data"),
            *("--dates", "2026-01-01,2026-01-02,2026-01-03", "--scale", "0.1"),
        ),
        {},
        Limits(1, 1024),
        mounts=("shared",),
    )
