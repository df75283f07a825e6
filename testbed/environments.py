"""Spark's servers of other releases for the tests, and an environment with the client alone.

`python -m testbed.environments` makes that environment, below `build/`: the package's own with `pyspark-client`
and without `pyspark`. A release of Spark is what `airflow-abs server install` makes: some minutes, 400 MB to fetch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings, open_state_folder
from airflow_abs.spark.server.whole_spark import install_spark

ROOT = Path(__file__).parents[1]
SERVER_RELEASE = "AIRFLOW_ABS_SERVER_RELEASE"
"""Names the release of Spark that serves the tests, if it is not the one that is installed here."""

_INSTALL_SECONDS = 1800
_WHOLE_SPARK = ("pyspark==", "py4j==")


def make_client_environment() -> Path:
    """The Python of an environment with Spark's client alone, made if need be.

    Raises:
        subprocess.CalledProcessError: pip failed; it has said why.
    """
    folder = ROOT / "build" / "client"
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        venv.create(folder, clear=True, with_pip=True)
        for arguments in _client_packages(folder):
            pip = [str(python), "-m", "pip", "install", "--quiet", *arguments]
            subprocess.run(pip, check=True, timeout=_INSTALL_SECONDS)
        ready.touch()
    return python


def _client_packages(folder: Path) -> list[Sequence[str]]:
    """Arguments of pip: what is locked, but the whole of Spark."""
    locked = (ROOT / "requirements.lock").read_text().splitlines(keepends=True)
    kept = folder / "requirements.txt"
    kept.write_text("".join(line for line in locked if not line.startswith(_WHOLE_SPARK)))
    own = ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    return [["--no-deps", "--requirement", str(kept)], own]


@contextmanager
def server_of(release: str, folder: Path, settings: EmbeddedSettings) -> Iterator[ConnectEndpoint]:
    """The embedded server of another release of Spark, which is installed if need be.

    Raises:
        SparkMissingError: it cannot be installed.
        EmbeddedSparkError: it did not start.
    """
    state = open_state_folder(folder)
    state.write_settings(settings)
    state.renew_lease()
    command = [sys.executable, "-m", "airflow_abs.spark.server.embedded_keeper", str(folder)]
    modules = [str(ROOT), str(install_spark(release, os.environ).parent)]  # its pyspark before this environment's
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(modules)}
    subprocess.run(command, env=environment, start_new_session=True, timeout=60, check=True)
    try:
        yield ensure_embedded_server(folder, settings=settings)
    finally:
        stop_embedded_server(folder)


if __name__ == "__main__":
    make_client_environment()
