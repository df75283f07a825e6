"""Environments beside `.venv`, below `build/`: of other releases of Spark, for servers, and of the client alone.

`python -m testbed.environments 4.1.4` makes the one of a release: some minutes, 400 MB to fetch. `client` makes the
package's own environment with `pyspark-client` and without `pyspark`.
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

ROOT = Path(__file__).parents[1]
CLIENT = "client"
SERVER_PYTHON = "AIRFLOW_ABS_SERVER_PYTHON"
"""Names the Python whose pyspark is the server of the tests, if it is not the one that runs them."""

_INSTALL_SECONDS = 1800
# What Spark's own Python workers want beside it.
_BESIDE_SPARK = ("pandas>=2.2,<3", "pyarrow>=18", "setuptools<81")
_WHOLE_SPARK = ("pyspark==", "py4j==")


def make_environment(name: str) -> Path:
    """The Python of an environment, made if need be; `name` is a release of Spark or "client".

    Raises:
        subprocess.CalledProcessError: pip failed; it has said why.
    """
    folder = ROOT / "build" / (CLIENT if name == CLIENT else f"spark-{name}")
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        for arguments in _client_packages(folder) if name == CLIENT else [[f"pyspark=={name}", *_BESIDE_SPARK]]:
            subprocess.run([*pip, *arguments], check=True, timeout=_INSTALL_SECONDS)
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
def server_of(python: str, folder: Path, settings: EmbeddedSettings) -> Iterator[ConnectEndpoint]:
    """The embedded server as another Python starts it, of the Spark that is installed there.

    Raises:
        EmbeddedSparkError: it did not start.
    """
    state = open_state_folder(folder)
    state.write_settings(settings)
    state.renew_lease()
    command = [python, "-m", "airflow_abs.spark.server.embedded_keeper", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, env=environment, start_new_session=True, timeout=60, check=True)
    try:
        yield ensure_embedded_server(folder, settings=settings)
    finally:
        stop_embedded_server(folder)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        make_environment(each)
