"""The whole of Spark: the package `pyspark` brings it, `pyspark-client`, the 2 MB that talk to a server, does not.

Both packages write the folder `pyspark/`, so next to a client of another release it has a folder of its own, below
this user's cache. Its Python workers are this Python all the same: Spark gives them the modules of its own release.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from airflow_abs.spark.connect.protocol import client_version, pyspark_folder
from airflow_abs.spark.server.cache_folder import cache_folder

EXTRA = "embedded"
_SUBMIT = "bin/spark-submit"


class SparkMissingError(RuntimeError):
    """Only the client of Spark is installed here."""

    restartable: ClassVar[bool] = False


def find_spark_home(whose: str) -> Path:
    """The folder with Spark's programs and jars: of this Python, else what `install_spark` has made, of the client's
    release, else of its release line, else the newest.

    `whose` says for the message who needs them.

    Raises:
        SparkMissingError: there is none.
    """
    own = pyspark_folder()
    installed = {home.parent.name: home for home in _installed(os.environ).glob("*/pyspark")}
    # A server of another release than the client's is refused, so a newer one must not stand in the way of that.
    client = client_version() if installed else ""

    def fits(release: str) -> tuple[bool, bool, tuple[int, ...]]:
        return release == client, _number(release)[:2] == _number(client)[:2], _number(release)

    in_order = sorted(installed, key=fits, reverse=True)
    for home in (own, *(installed[release] for release in in_order)):
        if (home / _SUBMIT).is_file():
            return home
    raise SparkMissingError(
        f"{whose} needs the whole of Spark, and {own} holds only the Connect client (pyspark-client); run airflow-abs "
        f"server install, which puts it beside Airflow, or pip install 'airflow-abs[{EXTRA}]', or give the connection "
        "the host of a Spark Connect server"
    )


def spark_submit(whose: str) -> Path:
    """The program that starts applications of Spark; errors as `find_spark_home`."""
    return find_spark_home(whose) / _SUBMIT


def install_spark(release: str, environment: Mapping[str, str]) -> Path:
    """Let pip put a release of Spark ("4.2.0") into a folder of its own; nothing is done if it is there.

    Returns:
        Its home.

    Raises:
        SparkMissingError: pip cannot get it; pip has said why.
    """
    folder = _installed(environment) / release
    home = folder / "pyspark"
    if (home / _SUBMIT).is_file():
        return home
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=".") as made:
        # Not its dependencies: its Python is this one, and the jars bring the rest.
        pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", made, f"pyspark=={release}"]
        ended = subprocess.run(pip, env=dict(environment), check=False)
        if ended.returncode != 0:
            raise SparkMissingError(
                f"Spark {release}: pip ended with {ended.returncode}; expected a release that the package index has; "
                "fix what pip reports above"
            )
        Path(made).rename(folder)
        Path(made).mkdir()  # for its end
    return home


def _installed(environment: Mapping[str, str]) -> Path:
    return cache_folder(environment) / "spark"


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in release.split("."))
