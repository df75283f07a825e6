"""A cluster without a worker, and a Connect server on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from tests.standalone import Standalone, choose_ports, master_started


@contextmanager
def empty_cluster(folder: Path) -> Iterator[Standalone]:
    """A master, nothing else."""
    place = choose_ports()
    with master_started(place, folder):
        yield place


@contextmanager
def server_on(cluster: Standalone, folder: Path) -> Iterator[ConnectEndpoint]:
    folder.chmod(0o700)
    conf = {
        "spark.master": f"spark://127.0.0.1:{cluster.port}",
        "spark.executor.memory": "512m",
        "spark.connect.progress.reportInterval": "200ms",
    }
    try:
        yield ensure_embedded_server(folder, settings=EmbeddedSettings(conf=tuple(conf.items())))
    finally:
        stop_embedded_server(folder)
