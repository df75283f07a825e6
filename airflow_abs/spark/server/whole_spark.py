"""The whole of Spark: the package `pyspark` brings it, `pyspark-client`, the 2 MB that talk to a server, does not."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from airflow_abs.spark.connect.protocol import pyspark_folder

EXTRA = "embedded"
_SUBMIT = "bin/spark-submit"


class SparkMissingError(RuntimeError):
    """Only the client of Spark is installed here."""

    restartable: ClassVar[bool] = False


def find_spark_home(whose: str) -> Path:
    """The folder with Spark's programs and jars; `whose` says for the message who needs them.

    Raises:
        SparkMissingError: there is none.
    """
    home = pyspark_folder()
    if not (home / _SUBMIT).is_file():
        raise SparkMissingError(
            f"{whose} needs the whole of Spark, and {home} holds only the Connect client (pyspark-client); install it "
            f"with pip install 'airflow-abs[{EXTRA}]', or give the connection the host of a Spark Connect server"
        )
    return home


def spark_submit(whose: str) -> Path:
    """The program that starts applications of Spark; errors as `find_spark_home`."""
    return find_spark_home(whose) / _SUBMIT
