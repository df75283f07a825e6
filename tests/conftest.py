"""Fixtures of the whole suite: one real Spark Connect server for everything that is marked `spark`, one Airflow home.

The home is set before any test module can import Airflow, which reads it then.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

AIRFLOW_HOME = tempfile.mkdtemp(prefix="airflow-abs-tests-")
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)
os.environ |= {
    "AIRFLOW_HOME": AIRFLOW_HOME,
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE": f"file://{AIRFLOW_HOME}/exchange",
}

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint


@dataclass(frozen=True, slots=True)
class AirflowEnvironment:
    """What a process needs to load the example DAGs."""

    variables: Mapping[str, str]
    dags: str


@pytest.fixture(scope="session")
def airflow_environment() -> AirflowEnvironment:
    return AirflowEnvironment(dict(os.environ), str(Path(__file__).parent.parent / "dags"))


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectEndpoint]:
    """The endpoint of one embedded Connect server, started once, shared by all tests, stopped at the end.

    It ends response streams after 2 s (not 2 min), so every longer operation of every test is reattached to, and
    reports progress every 0.2 s (not 2 s).
    """
    from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
    from airflow_abs.spark.server.embedded_state import EmbeddedSettings

    folder = tmp_path_factory.mktemp("embedded-spark")
    folder.chmod(0o700)
    settings = EmbeddedSettings(
        cores=2,
        driver_memory="1500m",
        idle_seconds=3600,  # longer than the service tests between two uses; bounded, should a test run be killed
        conf=(
            ("spark.connect.execute.reattachable.senderMaxStreamDuration", "2s"),
            ("spark.connect.progress.reportInterval", "200ms"),
            ("spark.sql.shuffle.partitions", "4"),
        ),
    )
    try:
        yield ensure_embedded_server(folder, settings=settings)
    finally:
        stop_embedded_server(folder)
