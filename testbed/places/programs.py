"""What a place runs, fetched once into a folder: jars by Maven, programs by Go."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from airflow_abs.spark.server.connector_jars import JarsMissingError, fetch_jars, fetch_listed, read_list

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "places"
GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
_BROKER = Path(__file__).parent / "kafka_broker.txt"
NEEDS = {"kafka": ("mvn", "java"), "s3": ("mvn", "java", "go")}
BRINGS = {
    "kafka": "a Kafka broker of 45 jars (44 MB) and Spark's connector (10 MB), by Maven",
    "s3": "Hadoop's S3 connector (13 MB) by Maven, and the S3 gateway versitygw, which Go builds (3 minutes of CPU)",
}


class PlaceError(RuntimeError):
    """The place cannot be set up on this host; the message says why."""


def fetch(place: str) -> None:
    """Bring what is missing of it.

    Raises:
        PlaceError: a program of this host is missing, or a registry does not give something.
    """
    missing = [name for name in NEEDS[place] if shutil.which(name) is None]
    if missing:
        raise PlaceError(
            f"{place} cannot run on this host: {', '.join(missing)} not found on PATH; install what brings them "
            "(Debian: apt-get install maven openjdk-17-jre-headless; Go 1.26 or newer for versitygw)"
        )
    try:
        fetch_jars(place, os.environ, connector_folder(place))
        if place == "kafka":
            fetch_listed("Kafka's broker", read_list(_BROKER), broker_folder(), os.environ)
    except JarsMissingError as error:
        raise PlaceError(f"{place}: {error}") from error
    if place == "s3" and not gateway().exists():
        _build_gateway()


def is_fetched(place: str) -> bool:
    """Whether its scenes can run without a download."""
    return connector_folder(place).exists() and (broker_folder() if place == "kafka" else gateway()).exists()


def connector_folder(place: str) -> Path:
    """Of the jars that Spark's server gets."""
    return FOLDER / f"{place}-connector"


def broker_folder() -> Path:
    return FOLDER / "kafka-broker"


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
