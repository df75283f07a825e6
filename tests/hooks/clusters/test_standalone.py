from __future__ import annotations

from typing import Any

import pytest

from airflow_abs.hooks.clusters import ServerStart
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.server.embedded_keeper import SERVER_CLASS
from tests.hooks.clusters.conftest import Submitted


@pytest.mark.parametrize(("port", "rest"), [(6066, "true"), (7077, "false")])
def test_a_driver_gets_sparks_own_wrapper_because_spark_submit_refuses_the_servers_class(
    cluster_at: Any, start: ServerStart, submitted: Submitted, port: int, rest: str
) -> None:
    assert cluster_at(f"spark://master:{port}").submit(start) == "submitted-1"
    assert submitted.application.main_class == "org.apache.spark.deploy.worker.DriverWrapper"
    assert submitted.application.arguments == ("{{WORKER_URL}}", "{{USER_JAR}}", SERVER_CLASS)
    assert submitted.application.jar.endswith("/_server-ab12/application.jar")
    assert submitted.settings["spark.master.rest.enabled"] == rest
    assert submitted.settings["spark.connect.grpc.binding.port"] == "0"
    assert submitted.token == start.token  # the master passes the variable on
    assert start.token not in submitted.settings.values()


def test_a_master_without_rest_says_what_to_set(cluster_at: Any) -> None:
    with pytest.raises(ConnectServerUnreachableError, match=r"no REST submission server of a Spark master at http:"):
        cluster_at("spark://127.0.0.1:7077", **{"rest-port": 1}).state("driver-1")
