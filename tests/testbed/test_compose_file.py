"""docker-compose.yaml: the same as the topology, whole in itself, without a secret."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_abs.cli.output.connect_proxy import proxy_configuration
from testbed.secrets import ensure_secrets
from testbed.topology.place import SECRETS
from testbed.topology.services import services
from tests.testbed.compose import BUILT, SECRETS_HINT, compose_place, compose_services

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yaml"
# Of the compose specification, what this file uses.
SERVICE_KEYS = {
    *("image", "build", "init", "restart", "command", "environment", "networks", "depends_on", "volumes", "ports"),
    *("healthcheck", "deploy", "pull_policy", "tmpfs"),
}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
DURATION = re.compile(r"\d+s")
SECRET_NAME = re.compile(r"PASSWORD|SECRET|TOKEN|FERNET|AUTH$|_CONN|BROKER|BACKEND")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load(FILE.read_text())
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("name", services(compose_place()))
def test_a_service_is_what_the_topology_says(name: str, compose: dict[str, Any]) -> None:
    found = {**compose["services"][name]}
    if "healthcheck" in found:  # how often is the file's own business
        found["healthcheck"] = {key: found["healthcheck"][key] for key in ("test", "start_period")}
    assert found == compose_services()[name]


def test_there_are_no_other_services_and_dependencies_come_first(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == set(compose_services())
    started: set[str] = set()
    for name, service in services(compose_place()).items():
        assert set(service.depends_on) <= started, name
        started.add(name)


def test_the_file_has_only_keys_of_the_compose_specification(compose: dict[str, Any]) -> None:
    assert {key for key in compose if not key.startswith("x-")} == {"name", "services", "networks", "volumes"}
    for name, service in compose["services"].items():
        assert set(service) <= SERVICE_KEYS, name
        assert all(isinstance(value, str) for value in service["environment"].values()), name
        assert all(isinstance(word, str) for word in service["command"]), name
        for condition in service.get("depends_on", {}).values():
            assert set(condition) == {"condition"}
            assert condition["condition"] in CONDITIONS
        check = service.get("healthcheck")
        if check:
            assert set(check) == {"test", "interval", "timeout", "retries", "start_period"}, name
            assert all(DURATION.fullmatch(check[key]) for key in ("interval", "timeout", "start_period")), name


def test_what_is_awaited_healthy_has_a_health_check_and_what_is_awaited_done_ends(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for dependency, condition in service.get("depends_on", {}).items():
            other = compose["services"][dependency]
            assert ("healthcheck" in other) == (condition["condition"] == "service_healthy"), (name, dependency)
            assert (other["restart"] == "no") == (condition["condition"] != "service_healthy"), (name, dependency)


@pytest.mark.openssl
def test_every_network_and_volume_is_declared_and_every_mounted_file_is_there(
    compose: dict[str, Any], tmp_path: Path
) -> None:
    ensure_secrets(tmp_path / ".env", tmp_path, ("localhost",))
    for name, service in compose["services"].items():
        assert set(service["networks"]) <= set(compose["networks"]), name
        for volume in service.get("volumes", []):
            source = volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
            if source.startswith("./docker/secrets/"):
                assert (tmp_path / Path(source).name).is_file(), volume
            elif source.startswith("./"):
                assert (ROOT / source).exists(), volume
            else:
                assert source in compose["volumes"], volume


def test_only_the_tls_proxy_leads_from_airflows_network_into_sparks(compose: dict[str, Any]) -> None:
    both = [name for name, service in compose["services"].items() if len(service["networks"]) > 1]
    assert both == ["connect-tls"]


def test_ports_are_published_on_the_hosts_loopback_only(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8081:8080", "127.0.0.1:8080:8080"]


def test_no_secret_has_a_default_and_each_says_how_to_get_one(compose: dict[str, Any]) -> None:
    variables = re.findall(r"\$\{([^}]*)\}", FILE.read_text())
    assert {variable.partition(":?")[::2] for variable in variables} == {(name, SECRETS_HINT) for name in SECRETS}
    for name, service in compose["services"].items():
        for variable, value in service["environment"].items():
            if SECRET_NAME.search(variable) and variable != "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS":
                assert re.search(r"\$\{\w+:\?", value), (name, variable)


def test_no_secret_is_on_a_command_line(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        told = [*service["command"], *service.get("healthcheck", {}).get("test", [])]
        assert not any("${" in word for word in told), name


def test_every_service_is_limited_and_the_heaps_fit(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}, name
    place = services(compose_place())
    # Worker's own heap 384 + executor 1152 (heap 768, 384 outside of it) MiB.
    assert place["spark-worker-1"].limits.memory >= 384 + 1152
    assert place["spark-connect"].limits.memory >= 1.4 * 1024


def test_the_proxys_configuration_is_the_one_that_processes_get() -> None:
    place = compose_place()
    made = proxy_configuration(
        bind=place.bind,
        port=place.ports["connect-tls"],
        upstream=place.address("spark-connect"),
        secrets=place.folders["secrets"],
        run="/tmp",
        resolver="127.0.0.11",  # the engine's own
        has_http2_directive=True,
    )
    assert (ROOT / "docker" / "nginx.conf").read_text() == made


def test_the_proxy_looks_for_spark_again_and_its_health_is_sparks() -> None:
    text = (ROOT / "docker" / "nginx.conf").read_text()
    assert re.findall(r"^ *(resolver .*);", text, re.MULTILINE) == ["resolver 127.0.0.11 valid=5s ipv6=off"]
    # a host that stands in the directive itself is looked up once, when nginx starts
    assert set(re.findall(r"grpc_pass (\S+);", text)) == {"grpc://$spark_connect"}
    assert re.findall(r"(listen .*|http2 \w+);", text) == ["listen 0.0.0.0:15003 ssl", "http2 on"]
    healthy = text.partition("location = /healthy {")[2].partition("}")[0]
    assert "grpc_pass" in healthy
    assert "return" not in healthy


def test_the_image_is_built_once_and_never_pulled(compose: dict[str, Any]) -> None:
    ours = {name: each for name, each in compose["services"].items() if each["image"] == "airflow-abs"}
    assert [name for name, each in ours.items() if "build" in each] == [BUILT]
    assert {each["pull_policy"] for each in ours.values()} == {"never"}


def test_a_secret_that_is_not_there_is_not_made_a_folder(compose: dict[str, Any]) -> None:
    volumes = [each for service in compose["services"].values() for each in service.get("volumes", [])]
    secrets = [each for each in volumes if "/run/secrets/" in str(each)]
    assert len(secrets) == 10
    assert all(isinstance(each, dict) and each["bind"] == {"create_host_path": False} for each in secrets)


def test_redis_lets_nobody_in_without_its_password_and_leaves_nothing(compose: dict[str, Any]) -> None:
    redis = compose["services"]["redis"]
    assert redis["command"][-2:] == ["--protected-mode", "yes"]
    assert redis["tmpfs"] == ["/data"]


def test_the_image_has_the_locks_versions_and_nothing_is_resolved() -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    lock = (ROOT / "requirements.lock").read_text()
    assert dockerfile.count("--no-deps") == 2
    assert "COPY requirements.lock" in dockerfile
    assert "python:3.11-slim" in dockerfile
    for package in (
        "apache-airflow==",
        "apache-airflow-providers-celery==",
        "pyspark==",
        "psycopg2-binary==",
        "asyncpg==",
    ):
        assert f"\n{package}" in lock


def test_other_images_name_their_release(compose: dict[str, Any]) -> None:
    images = {service["image"] for service in compose["services"].values()} - {"airflow-abs"}
    assert images == {"postgres:15-bookworm", "redis:7-bookworm", "nginx:1.28-bookworm"}
