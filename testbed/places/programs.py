"""What a place runs, fetched once into a folder: jars by Maven, programs by Go."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from airflow_abs.spark.server.connector_jars import CONNECTORS, JarsMissingError, fetch_jars, fetch_listed, read_list
from testbed.places import compose_images, kubernetes_programs
from testbed.places.place import FOLDER, PlaceError

GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
NEEDS = {
    "kafka": ("mvn", "java"),
    "s3": ("mvn", "java", "go"),
    "yarn": ("mvn", "java"),
}
BRINGS = {
    "kafka": "a Kafka broker of 45 jars (44 MB) and Spark's connector (10 MB), by Maven",
    "s3": "Hadoop's S3 connector (13 MB) by Maven, and the S3 gateway versitygw, which Go builds (3 minutes of CPU)",
    "yarn": "Hadoop's resource manager and node manager, 135 jars (84 MB), by Maven",
    "kubernetes": (
        f"Kubernetes {kubernetes_programs.RELEASE}, which Go builds (10 minutes of CPU), an image of Debian with Java "
        "and this environment's Spark (1.2 GB), and Airflow's provider of Kubernetes"
    ),
    "compose": "two minimal Debians by debootstrap, and of its packages Python, PostgreSQL, Redis, nginx and Compose",
}
_OWN = {
    "kubernetes": (kubernetes_programs.fetch, kubernetes_programs.is_fetched),
    "compose": (compose_images.fetch, compose_images.is_fetched),
}
"""Which make what they need themselves: how, and whether they have."""
_SERVERS = {"kafka": "kafka_broker", "yarn": "yarn"}
"""Of which place a list of jars is the server."""


def fetch(place: str) -> None:
    """Bring what is missing of it.

    Raises:
        PlaceError: a program of this host is missing, or a registry does not give something.
    """
    if place in _OWN:
        _OWN[place][0]()
        return
    missing = [name for name in NEEDS[place] if shutil.which(name) is None]
    if missing:
        raise PlaceError(
            f"{place} cannot run on this host: {', '.join(missing)} not found on PATH; install what brings them "
            "(Debian: apt-get install maven openjdk-17-jre-headless; Go 1.26 or newer for versitygw)"
        )
    try:
        if place in CONNECTORS:
            fetch_jars(place, os.environ, connector_folder(place))
        if place in _SERVERS:
            listed = read_list(Path(__file__).parent / f"{_SERVERS[place]}.txt")
            fetch_listed(f"the servers of {place}", listed, jars_folder(place), os.environ)
    except JarsMissingError as error:
        raise PlaceError(f"{place}: {error}") from error
    if place == "s3" and not gateway().exists():
        _build_gateway()


def is_fetched(place: str) -> bool:
    """Whether its scenes can run without a download."""
    if place in _OWN:
        return _OWN[place][1]()
    wanted = [connector_folder(place)] if place in CONNECTORS else []
    return all(each.exists() for each in [*wanted, gateway() if place == "s3" else jars_folder(place)])


def connector_folder(place: str) -> Path:
    """Of the jars that Spark's server gets."""
    return FOLDER / f"{place}-connector"


def jars_folder(place: str) -> Path:
    """Of the jars of its servers."""
    return FOLDER / f"{place}-servers"


def gateway() -> Path:
    return FOLDER / "versitygw"


def _build_gateway() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=FOLDER) as made:
        # A checkout may lie in a folder with a go.mod, which this program has nothing to do with.
        done = subprocess.run(["go", "install", GATEWAY], cwd=made, env=os.environ | {"GOBIN": made}, check=False)
        if done.returncode != 0:
            raise PlaceError(f"s3: go ended with {done.returncode}; expected it to build {GATEWAY}; see what it says")
        (Path(made) / "versitygw").replace(gateway())
