"""TLS and a token on the way to a real Spark Connect server, with a certificate that the test has made."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from airflow_abs.cli.output.connect_proxy import proxy_configuration
from airflow_abs.demo.bound_child import start_bound, stop_group
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.server.free_ports import choose_free_ports
from testbed.host import search_path
from testbed.secrets import make_certificate

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

# gRPC reads whom it trusts once per process: every question is asked by a process of its own.
PROBE = """
import sys
from airflow_abs.spark.connect.endpoint import ConnectEndpoint, probe_blocking
endpoint = ConnectEndpoint.from_url(sys.argv[1])
try:
    print(probe_blocking(endpoint, timeout=20.0))
except Exception as error:
    print(type(error).__name__, error)
"""
PYSPARK = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(spark.range(1000).selectExpr("sum(id)").collect()[0][0])
spark.stop()
"""
CALLS = """
import asyncio, sys
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.protocol import protos

async def ask(connection, number):
    request = protos().ConfigRequest(session_id=f"00000000-0000-0000-0000-{number:012d}")
    request.user_context.CopyFrom(connection.user_context())
    request.operation.get.keys.append("spark.app.name")
    return (await connection.call("Config", request)).pairs[0].value

async def main():
    async with open_connection(ConnectEndpoint.from_url(sys.argv[1])) as connection:
        names = await asyncio.gather(*(ask(connection, number) for number in range(100)))
        print(names.count(sys.argv[2]))

asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    """An nginx in front of the Connect server."""

    endpoint: ConnectEndpoint
    authority: Path
    folder: Path


@pytest.fixture(scope="module")
def proxy(connect_server: ConnectEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with started(tmp_path_factory.mktemp("connect-tls"), connect_server) as found:
        yield found


@contextmanager
def started(folder: Path, server: ConnectEndpoint) -> Iterator[Proxy]:
    make_certificate(folder, ("127.0.0.1",))
    endpoint = ConnectEndpoint("127.0.0.1", choose_free_ports(1)[0], token=server.token, use_ssl=True)
    upstream = f"127.0.0.1:{server.port}"
    text = proxy_configuration(
        bind="127.0.0.1", port=endpoint.port, upstream=upstream, secrets=str(folder), run=str(folder)
    )
    (folder / "nginx.conf").write_text(text)
    command = ["nginx", "-e", "stderr", "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
    with (folder / "nginx.log").open("wb") as log:
        process = start_bound(command, env={"PATH": search_path()}, log=log)
    try:
        await_port(endpoint.port, folder / "nginx.log")
        yield Proxy(endpoint, folder / "ca.crt", folder)
    finally:
        stop_group(process, 5)


def await_port(port: int, log: Path) -> None:
    deadline = time.monotonic() + 150
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def ask(script: str, url: str, authority: Path | None, *more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    if authority is not None:
        environment["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(authority)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, url, *more],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    return done.stdout.strip() or done.stderr


def test_a_probe_gets_through_with_the_certificate_and_the_token(proxy: Proxy) -> None:
    assert ask(PROBE, proxy.endpoint.url(), proxy.authority) == "4.2.0"


def test_pysparks_own_client_takes_the_same_url(proxy: Proxy) -> None:
    url = proxy.endpoint.url()
    assert url.startswith(f"sc://127.0.0.1:{proxy.endpoint.port}/;")
    assert "use_ssl=true" in url
    assert ask(PYSPARK, url, proxy.authority) == "499500"


def test_a_hundred_calls_share_one_connection_through_the_proxy(proxy: Proxy) -> None:
    assert ask(CALLS, proxy.endpoint.url(), proxy.authority, "airflow-abs embedded Spark") == "100"


def test_a_certificate_of_an_unknown_authority_is_refused(proxy: Proxy, tmp_path: Path) -> None:
    make_certificate(tmp_path, ("localhost", "127.0.0.1"))
    said = ask(PROBE, proxy.endpoint.url(), tmp_path / "ca.crt")
    assert said.startswith("ConnectServerUnreachableError no Spark Connect server reachable at 127.0.0.1:")
    assert "correct host, port and TLS in the connection" in said


def test_a_certificate_for_another_host_is_refused(proxy: Proxy) -> None:
    said = ask(PROBE, replace(proxy.endpoint, host="localhost").url(), proxy.authority)
    assert said.startswith("ConnectServerUnreachableError no Spark Connect server reachable at localhost:")


@pytest.mark.parametrize("token", ["wrong", None], ids=["wrong token", "no token"])
def test_a_wrong_token_is_refused_and_no_token_is_not_even_passed_on(token: str | None, proxy: Proxy) -> None:
    said = ask(PROBE, replace(proxy.endpoint, token=token).url(), proxy.authority)
    assert said.startswith("ConnectAccessDeniedError")
    assert "put the server's token into the connection" in said


def test_nothing_but_spark_connect_is_passed_on(proxy: Proxy) -> None:
    address = f"https://127.0.0.1:{proxy.endpoint.port}"
    for path, status in (("/healthy", "204"), ("/", "404"), ("/spark.connect.SparkConnectService/Config", "401")):
        command = ["curl", "-sS", "--cacert", str(proxy.authority), "-o", "/dev/null", "-w", "%{http_code}"]
        done = subprocess.run([*command, address + path], capture_output=True, text=True, timeout=30, check=True)
        assert done.stdout == status, path


def test_its_health_check_sees_that_spark_does_not_answer(tmp_path: Path) -> None:
    with started(tmp_path, ConnectEndpoint("127.0.0.1", choose_free_ports(1)[0])) as alone:
        address = f"https://127.0.0.1:{alone.endpoint.port}/healthy"
        command = ["curl", "-fsS", "--cacert", str(alone.authority), address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert "502" in done.stderr, done


def test_a_client_without_tls_gets_nothing(proxy: Proxy) -> None:
    said = ask(PROBE, replace(proxy.endpoint, host="localhost", use_ssl=False).url(), None)
    assert said.startswith("ConnectServerUnreachableError")
