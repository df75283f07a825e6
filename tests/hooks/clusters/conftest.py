from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.hooks.clusters import ClusterManager, ServerStart, open_cluster
from airflow_abs.hooks.clusters.submission import SparkSubmission
from airflow_abs.spark.server.application import Application


class Submitted:
    """What spark-submit would have been called with, last."""

    application: Application
    settings: Mapping[str, str]
    token: str | None


@pytest.fixture
def start(tmp_path: Path) -> ServerStart:
    conf = {"spark.driver.memory": "1g"}
    return ServerStart("ab12", "airflow-abs dag/run/job", JobFolder(tmp_path, "dag", "run", "job"), conf, 60.0, "t0k3n")


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> Submitted:
    """spark-submit is not called; the cluster calls the application `submitted-1`."""
    found = Submitted()

    def run(
        self: SparkSubmission, name: str, application: Application, settings: Mapping[str, str], token: str | None
    ) -> None:
        found.application, found.settings, found.token = application, settings, token

    monkeypatch.setattr(SparkSubmission, "run", run)
    monkeypatch.setattr(SparkSubmission, "submitted", "submitted-1")
    return found


@pytest.fixture
def cluster_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ClusterManager]:
    """The cluster of a connection with this host and extra."""

    def cluster_at(host: str, **extra: Any) -> ClusterManager:
        connection = {"conn_type": "spark", "host": host, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(connection))
        return open_cluster("cluster")

    return cluster_at
