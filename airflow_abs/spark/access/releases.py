"""Which releases of Spark a server may have, and what was found to be missing on others.

Plans travel as protobuf. A server passes over fields that came after it without a word, and the proof reads the plans
of one release: a server that was not tried as a whole is refused. `make test-spark-versions` tries.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_abs.spark.errors import VersionMismatchError

LACKS: Mapping[str, str] = {
    "4.0": "it has no GetStatus, by which a listener learns that its session was ended, and does not know what came to "
    "plans with 4.1, such as the values of an IN with a subquery",
    "4.1": "it has no GetStatus, by which a listener learns that its session was ended, and Python functions and local "
    "DataFrames of this client failed there",
}
"""By release line, for a client of 4.2.0. How it was found stands in docs/reference/compatibility.md."""


def check_versions(server: str, client: str) -> None:
    """Server and client must be the same release.

    Raises:
        VersionMismatchError: major, minor or patch differ; says what the server lacks, where that is known.
    """
    if _release(server) == _release(client):
        return
    found = LACKS.get(".".join(_release(server)[:2]), "")
    lacks = f": {found}" if found else ""
    raise VersionMismatchError(
        f"Spark Connect server runs Spark {server}, this Airflow has pyspark {client}{lacks}; expected the same "
        f"version; run the server on Spark {'.'.join(_release(client))}"
    )


def _release(version: str) -> tuple[str, ...]:
    return tuple(version.split("-", 1)[0].split("+", 1)[0].split(".")[:3])
