from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from airflow_abs.exchange.records.server_record import RunServer
from airflow_abs.spark.connect.endpoint import ConnectEndpoint, describe_unreachable, probe_blocking
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.errors import ConnectAccessDeniedError, ConnectServerUnreachableError
from airflow_abs.spark.server.application import (
    announcing_properties,
    derive_token,
    server_endpoint,
    server_properties,
)

UP = RunServer("k", "driver-1", 1.0, "localhost", 4711)
REMOTE = RunServer("k", "driver-1", 1.0, "worker-7", 4711)


def test_the_author_wins_over_what_is_suggested_and_not_over_what_the_server_is_found_by() -> None:
    conf = {"spark.scheduler.mode": "FIFO", "spark.eventLog.dir": "/mine", "spark.plugins": "a.B"}
    found = server_properties(conf, 61.0) | announcing_properties("file:///x")
    assert found["spark.scheduler.mode"] == "FIFO"
    assert found["spark.eventLog.dir"] == "file:///x"
    assert found["spark.plugins"] == "a.B,org.apache.spark.deploy.DriverTimeoutPlugin"
    assert found["spark.driver.timeout"] == "2min"  # 61 s in whole minutes
    assert found["spark.connect.grpc.binding.port"] == "0"
    assert "SparkListenerTaskEnd" in found["spark.eventLog.excludedPatterns"].split(",")
    assert "ServiceStarted" not in found["spark.eventLog.excludedPatterns"]


def test_a_token_can_be_derived_again_and_differs_from_start_to_start() -> None:
    token = derive_token("secret", "k")
    assert token == derive_token("secret", "k")
    assert len({token, derive_token("secret", "l"), derive_token("other", "k")}) == 3
    assert len(token) == 43  # 256 bits in base64
    with pytest.raises(ConnectAccessDeniedError, match="the password of the job's connection, which has none; set it"):
        derive_token("", "k")


@pytest.mark.parametrize(
    ("server", "found"),
    [
        (None, "it was not started"),
        (RunServer("k", "", 1.0), "it was not started"),
        (RunServer("k", "driver-1", 1.0), "it is still starting"),
    ],
)
def test_a_run_without_its_server_says_what_to_clear(server: RunServer | None, found: str) -> None:
    with pytest.raises(ConnectServerUnreachableError) as caught:
        server_endpoint(server, "secret", None)
    assert str(caught.value) == (
        f"this run has no Spark server: {found}; clear start_server of the run, without downstream tasks"
    )
    assert caught.value.restartable


def test_on_the_same_host_the_token_goes_as_a_token() -> None:
    endpoint = server_endpoint(UP, "secret", "ada")
    assert (endpoint.address, endpoint.user_id, endpoint.headers) == ("localhost:4711", "ada", ())
    assert endpoint.token == derive_token("secret", "k")
    assert derive_token("secret", "k") not in repr(endpoint)


def test_to_another_host_it_goes_only_if_the_author_trusts_the_network() -> None:
    with pytest.raises(ConnectServerUnreachableError, match=r"another host, worker-7:4711, .*trusted_network=True"):
        server_endpoint(REMOTE, "secret", None)
    trusted = RunServer("k", "driver-1", 1.0, "worker-7", 4711, trusted_network=True)
    endpoint = server_endpoint(trusted, "secret", None)
    assert endpoint.headers == (("authorization", f"Bearer {derive_token('secret', 'k')}"),)
    assert (endpoint.token, endpoint.is_encrypted) == (None, False)


@pytest.mark.spark
def test_a_token_that_goes_as_a_header_is_taken_from_both_clients(connect_server: ConnectEndpoint) -> None:
    plain = replace(connect_server, token=None, headers=(("authorization", f"Bearer {connect_server.token}"),))
    assert probe_blocking(plain) == "4.2.0"
    with open_session(plain) as session:
        assert session.range(3).count() == 3
    with pytest.raises(ConnectAccessDeniedError):
        probe_blocking(replace(plain, headers=(("authorization", "Bearer wrong"),)))


def test_a_server_that_went_away_says_how_to_have_a_new_one() -> None:
    error: Any = SimpleNamespace(code=lambda: grpc.StatusCode.UNAVAILABLE, details=lambda: "connection refused")
    assert str(describe_unreachable(server_endpoint(UP, "secret", None), error, 3.0)) == (
        "no Spark Connect server reachable at localhost:4711: connection refused; it was started for this run as "
        "driver-1, whose log says why it ended; clear start_server of the run, without downstream tasks, to start a "
        "new one"
    )
