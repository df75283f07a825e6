"""Endpoints: their URLs, their secrets, and quick answers about servers that are not there."""

from __future__ import annotations

import pickle
import socket
import time
from dataclasses import replace

import pytest

from airflow_abs.spark.connect.endpoint import ConnectEndpoint, probe_blocking
from airflow_abs.spark.errors import ConnectAccessDeniedError, ConnectServerUnreachableError
from testbed.environments import server_release


def test_a_url_is_taken_apart() -> None:
    url = "sc://spark.example:443/;use_ssl=true;token=a%2Fb;user_id=ann;X-Cluster=c1;session_id=s;user_agent=u"
    assert ConnectEndpoint.from_url(url) == ConnectEndpoint(
        "spark.example", 443, token="a/b", use_ssl=True, user_id="ann", headers=(("x-cluster", "c1"),)
    )


def test_a_short_url_gets_sparks_port_and_our_user() -> None:
    assert ConnectEndpoint.from_url("sc://spark") == ConnectEndpoint("spark", 15002, user_id="airflow")


@pytest.mark.parametrize(
    "endpoint",
    [
        ConnectEndpoint("spark.example", 15002),
        ConnectEndpoint("::1", 1234, user_id="ann b"),
        ConnectEndpoint("spark", 443, token="a/b=;c", use_ssl=True, user_id="x", headers=(("x-cluster", "c 1"),)),
        ConnectEndpoint("localhost", 15002, token="t"),
    ],
)
def test_a_url_round_trips(endpoint: ConnectEndpoint) -> None:
    assert ConnectEndpoint.from_url(endpoint.url()) == endpoint


def test_pyspark_takes_our_url_and_would_not_encrypt_to_a_loopback_server() -> None:
    from pyspark.sql.connect.client import DefaultChannelBuilder

    builder = DefaultChannelBuilder(ConnectEndpoint("127.0.0.1", 15002, token="t/1", user_id="ann").url())
    assert (builder.host, builder.token, builder.userId, builder.use_ssl) == ("localhost", "t/1", "ann", False)


def test_secrets_are_in_no_text() -> None:
    endpoint = ConnectEndpoint("spark", 1, token="s3cret", headers=(("x-key", "s3cret"),))
    assert "s3cret" not in f"{endpoint} {endpoint!r} {endpoint.address} {[endpoint]}"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("spark:15002", "Spark Connect URL 'spark:15002' is not one; expected"),
        ("sc://", "Spark Connect URL 'sc://' is not one; expected"),
        ("sc://host/path;token=s3cret", "Spark Connect URL 'sc://host/path' is not one; expected"),
        ("sc://ann:s3cret@host:1", "Spark Connect URL 'sc://***@host:1' is not one; expected"),
        ("sc://host:port/;token=s3cret", "Spark Connect URL 'sc://host:port/': Port could not be cast"),
        ("sc://host:1/;s3cret", "Spark Connect URL 'sc://host:1/': parameter number 1 has no value; expected"),
    ],
)
def test_a_bad_url_is_refused_without_showing_its_secrets(url: str, message: str) -> None:
    with pytest.raises(ValueError, match="correct the connection") as caught:
        ConnectEndpoint.from_url(url)
    assert str(caught.value).startswith(message)
    assert "s3cret" not in str(caught.value)


def test_a_token_leaves_the_host_only_encrypted() -> None:
    assert ConnectEndpoint("spark.example", token="t").is_encrypted
    assert not ConnectEndpoint("127.0.0.1", token="t").is_encrypted
    assert not ConnectEndpoint("::1", token="t").is_encrypted
    assert not ConnectEndpoint("spark.example").is_encrypted


def test_an_endpoint_can_be_pickled() -> None:
    endpoint = ConnectEndpoint("spark", token="t")
    assert pickle.loads(pickle.dumps(endpoint)) == endpoint  # noqa: S301


def test_a_closed_port_is_named_at_once() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # never listens
        endpoint = ConnectEndpoint("127.0.0.1", reserved.getsockname()[1], token="s3cret")
        started = time.monotonic()
        with pytest.raises(ConnectServerUnreachableError) as caught:
            probe_blocking(endpoint)
    assert time.monotonic() - started < 30
    message = str(caught.value)
    assert message.startswith(f"no Spark Connect server reachable at {endpoint.address}: ")
    assert "Connection refused" in message
    assert message.endswith("; start it, or correct host, port and TLS in the connection")
    assert "s3cret" not in message


def test_a_port_that_never_answers_is_given_up_after_three_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = ConnectEndpoint("127.0.0.1", silent.getsockname()[1])
        started = time.monotonic()
        with pytest.raises(ConnectServerUnreachableError, match=r"no answer within 3 s|[Ff]ailed to connect"):
            probe_blocking(endpoint)
    assert time.monotonic() - started < 30


@pytest.mark.spark
def test_a_server_tells_its_version(connect_server: ConnectEndpoint) -> None:
    assert probe_blocking(connect_server) == server_release()


@pytest.mark.spark
@pytest.mark.parametrize("token", ["wrong", None])
def test_a_refused_token_is_named(token: str | None, connect_server: ConnectEndpoint) -> None:
    with pytest.raises(ConnectAccessDeniedError) as caught:
        probe_blocking(replace(connect_server, token=token))
    message = str(caught.value)
    assert message.startswith(f"Spark Connect server at {connect_server.address} refuses user 'airflow' (")
    assert message.endswith("; put the server's token into the connection")
