"""Which releases of Spark a server may have."""

from __future__ import annotations

from airflow_abs.spark.errors import VersionMismatchError


def check_versions(server: str, client: str) -> None:
    """Plans travel as protobuf between the two: they must be the same release.

    Raises:
        VersionMismatchError: major, minor or patch differ.
    """
    if _release(server) != _release(client):
        raise VersionMismatchError(
            f"Spark Connect server runs Spark {server}, this Airflow has pyspark {client}; expected the same version; "
            f"install pyspark and pyspark-client {'.'.join(_release(server))} here, or upgrade the server"
        )


def _release(version: str) -> tuple[str, ...]:
    return tuple(version.split("-", 1)[0].split("+", 1)[0].split(".")[:3])
