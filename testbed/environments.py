"""Spark's servers of other releases for the tests, environments of other releases of Airflow, and of the client alone.

`python -m testbed.environments` makes that environment, below `build/`: the package's own with `pyspark-client`
and without `pyspark`; with `airflow-3.1.8` one that first has that release of Airflow, with the packages of its day,
and then the package. A release of Spark is what `airflow-abs server install` makes: some minutes, 400 MB to fetch.
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
from airflow_abs.spark.connect.protocol import client_version
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings, open_state_folder
from airflow_abs.spark.server.whole_spark import install_spark

ROOT = Path(__file__).parents[1]
CLIENT = "client"
AIRFLOW = "airflow-"
SERVER_RELEASE = "AIRFLOW_ABS_SERVER_RELEASE"
"""Names the release of Spark that serves the tests, if it is not the one that is installed here."""

_INSTALL_SECONDS = 1800
_WHOLE_SPARK = ("pyspark==", "py4j==")
_PROVIDER = "apache-airflow-providers-apache-spark"
_TESTED_EXTRAS = ("delta", "iceberg", "s3")
# Of the extra `demo`, all but the whole of Spark, which brings another release of the client.
_DEMO_DATA = ("tpchgen-cli>=2", "duckdb>=1.4", "httpx>=0.28")
_AIRFLOW_DAYS = {"3.1.8": "2026-03-14", "3.2.2": "2026-06-01"}
"""Shortly after each release: its own constraints name what was newest then. Others get what is newest now."""


def make_environment(name: str) -> Path:
    """The Python of an environment, made if need be: "client", with Spark's client alone, or "airflow-RELEASE".

    Raises:
        subprocess.CalledProcessError: it cannot be installed; the installer has said why.
    """
    folder = ROOT / "build" / name
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        venv.create(folder, clear=True, with_pip=True)
        # uv for the rest: pip looks for a set of versions of an Airflow of 2026-03 for 20 minutes.
        _run(python, "-m", "pip", "install", "--quiet", "uv")
        packages = _client_packages(folder) if name == CLIENT else _airflow_packages(name.removeprefix(AIRFLOW))
        for arguments in packages:
            _run(python, "-m", "uv", "pip", "install", "--quiet", "--python", str(python), *arguments)
        ready.touch()
    return python


def _run(*command: str | Path) -> None:
    subprocess.run(command, cwd=ROOT, check=True, timeout=_INSTALL_SECONDS)


def _airflow_packages(release: str) -> list[Sequence[str]]:
    """Arguments of an installer: a finished Airflow, as sites have one, then the package and what its tests need."""
    airflow, day = f"apache-airflow=={release}", _AIRFLOW_DAYS.get(release)
    then = [f"--exclude-newer={day}"] if day else []
    own = f".[{','.join(_TESTED_EXTRAS)}]"
    return [[*then, airflow, _PROVIDER], [airflow, "--editable", own, "--group", "dev", *_DEMO_DATA]]


def _client_packages(folder: Path) -> list[Sequence[str]]:
    """Arguments of an installer: what is locked, but the whole of Spark."""
    locked = (ROOT / "requirements.lock").read_text().splitlines(keepends=True)
    kept = folder / "requirements.txt"
    kept.write_text("".join(line for line in locked if not line.startswith(_WHOLE_SPARK)))
    own = ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    return [["--no-deps", "--requirement", str(kept)], own]


def server_release() -> str:
    """The release of Spark that serves the tests ("4.0.5")."""
    return os.environ.get(SERVER_RELEASE) or client_version()


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
    for each in sys.argv[1:] or [CLIENT]:
        make_environment(each)
