"""docs/kubernetes.md: what of its recipe can be checked without a cluster."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from airflow_abs import __version__
from airflow_abs.cli.commands.manifests import server_of
from airflow_abs.cli.main import _parser
from airflow_abs.cli.output.connect_proxy import proxy_configuration
from airflow_abs.demo.bound_child import start_bound, stop_group
from airflow_abs.get_provider_info import get_provider_info
from airflow_abs.spark.server.connector_jars import SETTINGS
from airflow_abs.spark.server.free_ports import choose_free_ports
from testbed.host import search_path
from tests.places.test_kubernetes import drivers_role

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
IMAGES = {"registry.example/airflow:1", "registry.example/spark:1", "nginx:1.28-bookworm"}
ASK_CONNECTION = """
import os, boto3
client = boto3.client("secretsmanager")
client.create_secret(Name="airflow/connections/spark_connect_default", SecretString=os.environ["SECRET"])
from airflow_abs.hooks.adaptive_spark import stored_endpoint
endpoint = stored_endpoint("spark_connect_default")
print(endpoint.address, endpoint.token, endpoint.use_ssl)
"""
CONNECT = """
import sys, grpc
options = [("grpc.ssl_target_name_override", sys.argv[2])]
with grpc.secure_channel(sys.argv[1], grpc.ssl_channel_credentials(), options) as channel:
    grpc.channel_ready_future(channel).result(timeout=20)
print("trusted")
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def command(start: str) -> str:
    """The line of the page that begins so."""
    (line,) = [line for block in blocks("bash") for line in block.splitlines() if line.startswith(start)]
    return str(line)


def printed_manifests() -> list[dict[str, Any]]:
    """What the page's command writes to `connect.yaml`."""
    line, _, file = command("airflow-abs manifests").removeprefix("airflow-abs ").partition(" > ")
    assert f"kubectl apply --filename {file}" in PAGE
    options = _parser().parse_args(shlex.split(line))
    (settings,) = blocks("properties")
    assert f"`{options.properties_file}`:\n\n```properties\n" in PAGE
    with TemporaryDirectory() as folder:
        options.properties_file = Path(folder) / options.properties_file
        options.properties_file.write_text(settings)
        return list(yaml.safe_load_all(server_of(options).manifests()))


VALUES, CRON_JOB, _ROLE = (list(yaml.safe_load_all(block)) for block in blocks("yaml"))
SERVER_BY_KIND = {each["kind"]: each for each in printed_manifests()}
(CHART,) = VALUES
POD = SERVER_BY_KIND["Deployment"]["spec"]["template"]["spec"]
DRIVER, TLS = POD["containers"]
(GC,) = CRON_JOB[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
SERVICE = SERVER_BY_KIND["Service"]
HOST = f"{SERVICE['metadata']['name']}.{SERVICE['metadata']['namespace']}.svc"
PROPERTIES = dict(
    line.split(maxsplit=1) for line in SERVER_BY_KIND["ConfigMap"]["data"]["connect.properties"].splitlines()
)


def test_every_image_of_a_manifest_is_built_by_the_page_or_the_composes() -> None:
    chart = CHART["images"]["airflow"]
    used = {DRIVER["image"], TLS["image"], GC["image"], f"{chart['repository']}:{chart['tag']}"}
    assert used | {PROPERTIES["spark.kubernetes.container.image"]} == IMAGES
    assert set(re.findall(r"--tag (\S+)", PAGE)) == IMAGES - {TLS["image"]}
    assert f"image: {TLS['image']}\n" in (ROOT / "docker-compose.yaml").read_text()


def test_the_airflow_image_has_the_tested_versions_and_the_wheel_of_this_checkout() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    python = re.search(r"for Python ([\d.]+) on Linux", lock)
    airflow = re.search(r"^apache-airflow==(\S+)", lock, flags=re.MULTILINE)
    assert python is not None
    assert airflow is not None
    assert f"FROM apache/airflow:{airflow[1]}-python{python[1]}\n" in PAGE
    assert f"apache-airflow=={airflow[1]} " in PAGE
    assert CHART["airflowVersion"] == airflow[1]
    assert f"COPY dist/airflow_abs-{__version__}-py3-none-any.whl /tmp/\n" in PAGE
    assert re.findall(r'-none-any\.whl\[(\w+)\]"', PAGE) == ["s3"]
    assert "s3" in extras


def test_the_server_has_the_settings_of_the_other_pages() -> None:
    page = (ROOT / "docs" / "connections.md").read_text()
    (block,) = [each for each in re.findall(r"```properties\n(.*?)```", page, flags=re.DOTALL) if "detached" in each]
    own = dict(line.split() for line in block.splitlines() if not line.startswith("#"))
    assert own.pop("spark.connect.authenticate.token") == "<secret>"
    assert own.items() <= PROPERTIES.items()
    assert SETTINGS["s3"].items() <= PROPERTIES.items()
    token = next(each for each in DRIVER["env"] if each["name"] == "SPARK_CONNECT_AUTHENTICATE_TOKEN")
    secret = token["valueFrom"]["secretKeyRef"]
    assert f"create secret generic {secret['name']} --from-literal={secret['key']}=" in PAGE


def test_names_of_the_page_and_of_the_manifests_fit_one_another() -> None:
    account = SERVER_BY_KIND["ServiceAccount"]["metadata"]
    assert account["annotations"] == {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/spark"}
    assert POD["serviceAccountName"] == account["name"]
    assert PROPERTIES["spark.kubernetes.authenticate.executor.serviceAccountName"] == account["name"]
    assert SERVER_BY_KIND["Role"]["rules"] == drivers_role()["rules"]
    spec = SERVER_BY_KIND["Deployment"]["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == SERVICE["spec"]["selector"]
    volumes = {each["name"]: each for each in POD["volumes"]}
    assert {mount["name"] for container in POD["containers"] for mount in container["volumeMounts"]} == {*volumes}
    secret = volumes["certificate"]["secret"]["secretName"]
    assert f"create secret tls {secret} --cert tls.crt --key tls.key" in PAGE
    assert f"-addext subjectAltName=DNS:{HOST}" in PAGE
    (port,) = SERVICE["spec"]["ports"]
    assert TLS["ports"] == [{"name": port["targetPort"], "containerPort": port["port"]}]
    assert TLS["readinessProbe"]["httpGet"]["port"] == port["targetPort"]
    (volume,), (mount,) = CHART["volumes"], CHART["volumeMounts"]
    assert f"create configmap {volume['configMap']['name']} --from-file=ca.crt=tls.crt" in PAGE
    assert CHART["env"] == [{"name": "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "value": f"{mount['mountPath']}/ca.crt"}]


@pytest.mark.cluster
def test_a_client_trusts_nginx_with_the_printed_certificate(tmp_path: Path) -> None:
    subprocess.run(shlex.split(command("openssl req")), cwd=tmp_path, check=True, capture_output=True, timeout=60)
    for made, name in (("tls.crt", "connect.crt"), ("tls.key", "connect.key")):
        (tmp_path / made).rename(tmp_path / name)
    port, upstream = choose_free_ports(2)
    configuration = proxy_configuration(
        bind="127.0.0.1", port=port, upstream=f"127.0.0.1:{upstream}", secrets=str(tmp_path), run=str(tmp_path)
    )
    (tmp_path / "nginx.conf").write_text(configuration)
    nginx = ["nginx", "-e", "stderr", "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;"]
    with (tmp_path / "nginx.log").open("wb") as log:
        process = start_bound(nginx, env={"PATH": search_path()}, log=log)
    try:
        env = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(tmp_path / "connect.crt")}
        ask = [sys.executable, "-c", CONNECT, f"localhost:{port}", HOST]
        done = subprocess.run(ask, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert done.stdout == "trusted\n", done.stderr
    finally:
        stop_group(process, 5)


@pytest.mark.slow
def test_the_connection_is_read_from_the_printed_secrets_backend(tmp_path: Path) -> None:
    from moto.server import ThreadedMotoServer

    (given,) = blocks("json")
    assert json.loads(given)["host"] == HOST
    backend = CHART["config"]["secrets"]
    server = ThreadedMotoServer("127.0.0.1", choose_free_ports(1)[0], verbose=False)
    server.start()
    try:
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_CONN_")},
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": "http://{}:{}".format(*server.get_host_and_port()),
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__SECRETS__BACKEND": backend["backend"],
            "AIRFLOW__SECRETS__BACKEND_KWARGS": backend["backend_kwargs"],
            "PYTHONWARNINGS": "ignore",
            "SECRET": given,
        }
        ask = [sys.executable, "-c", ASK_CONNECTION]
        done = subprocess.run(ask, env=env, capture_output=True, text=True, check=False, timeout=120)
    finally:
        server.stop()
    assert done.stdout.splitlines()[-1:] == [f"{HOST}:{SERVICE['spec']['ports'][0]['port']} ... True"], done.stderr


def test_every_option_in_the_charts_values_is_one_of_airflows_or_ours() -> None:
    from airflow.configuration import conf

    ours = get_provider_info()["config"]["adaptive_spark"]["options"]
    sections = dict(CHART["config"])
    assert sections.pop("adaptive_spark").keys() <= ours.keys()
    for section, options in sections.items():
        for option in options:
            assert conf.has_option(section, option), (section, option)
    assert CHART["airflowLocalSettings"].startswith("import airflow_abs.preload")


def test_the_commands_that_containers_and_builds_run_are_read() -> None:
    program, *arguments = GC["command"]
    assert program == "airflow-abs"
    assert _parser().parse_args(arguments).older_than == "7d"
    (line,) = re.findall(r"^# airflow-abs (server jars .*?) &&", PAGE, flags=re.MULTILINE)
    options = _parser().parse_args(shlex.split(line))
    assert (options.connector, options.spark, options.folder) == ("s3", "4.1.4", Path("s3"))
    assert "COPY s3/*.jar /opt/spark/jars/\n" in PAGE
    exchange = CHART["config"]["adaptive_spark"]["exchange"]
    assert {"name": "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE", "value": exchange} in GC["env"]
