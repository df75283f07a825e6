"""Credentials that nobody writes down: of a web identity and of an instance's profile, by both sides' own libraries.

The store, Airflow's connection, botocore, Spark and Amazon's library for Java are real; what hands out credentials is
a stand-in on loopback (`testbed/places/credential_service.py`). Part of `make test-s3`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.exchange.storage.whole_files import read_json, write_json
from airflow_abs.hooks.storage import open_path
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from testbed.places.credential_service import ROLE_ARN, CredentialService
from testbed.places.programs import connector_folder
from testbed.places.s3_gateway import KEY, REGION, SECRET, S3Gateway

pytestmark = [pytest.mark.places, pytest.mark.spark, pytest.mark.timeout(900)]

IDENTITY = "who-this-program-is"
# What docs/s3.md says to set on Spark's side.
PROVIDERS = {
    "web identity": "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider",
    "instance profile": "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
}
FOREIGN = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE")


@dataclass(frozen=True, slots=True)
class Cloud:
    """A store, and a service that says who may use it."""

    folder: Path
    store: S3Gateway
    service: CredentialService

    def environment(self, way: str, identity: str = IDENTITY) -> dict[str, str]:
        """What the platform sets for a program; only the addresses are ours."""
        if way == "instance profile":
            return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": self.service.url, "AWS_REGION": REGION}
        token = self.folder / f"{identity}.token"
        token.write_text(identity)
        return {
            "AWS_ROLE_ARN": ROLE_ARN,
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
            "AWS_ENDPOINT_URL_STS": self.service.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp("cloud")
    store = S3Gateway.at(folder)
    with store.server, CredentialService.started(KEY, SECRET, IDENTITY) as service:
        store.make_bucket("scratch")
        yield Cloud(folder, store, service)


@pytest.fixture
def set_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def set_environment(cloud: Cloud, environment: dict[str, str], conn_id: str) -> None:
        for name in FOREIGN:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        connection = cloud.store.connection()
        without_keys = {name: connection[name] for name in connection if name not in {"login", "password"}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(without_keys))

    return set_environment


@pytest.mark.parametrize("way", PROVIDERS)
def test_both_sides_use_the_store_without_a_key_of_their_own(
    way: str, cloud: Cloud, set_environment: Any, tmp_path: Path
) -> None:
    conn_id = way.replace(" ", "_")
    set_environment(cloud, cloud.environment(way), conn_id)
    write_json(open_path(f"s3://{conn_id}@scratch/{conn_id}/record.json"), {"rows": 7})
    assert read_json(open_path(f"s3://{conn_id}@scratch/{conn_id}/record.json")) == {"rows": 7}
    by_airflow = cloud.service.given[way]
    assert by_airflow >= 1
    with session(cloud, way, tmp_path) as spark:
        spark.range(0, 7, 1, 1).write.parquet(f"s3a://scratch/{conn_id}/rows")
        assert spark.read.parquet(f"s3a://scratch/{conn_id}/rows").count() == 7
    by_spark = cloud.service.given[way] - by_airflow
    assert by_spark >= 1
    assert set(cloud.service.given) <= {way, *PROVIDERS}
    print(f"{way}: Airflow asked {by_airflow} times for credentials, Spark {by_spark} times", flush=True)


def test_a_token_that_is_not_of_the_role_is_refused_on_both_sides(
    cloud: Cloud, set_environment: Any, tmp_path: Path
) -> None:
    way = "web identity"
    set_environment(cloud, cloud.environment(way, "somebody-else"), "stranger")
    with pytest.raises(Exception, match="InvalidIdentityToken"):
        write_json(open_path("s3://stranger@scratch/stranger/record.json"), {"rows": 7})
    with session(cloud, way, tmp_path) as spark, pytest.raises(Exception, match="not the token of this role"):
        spark.range(7).write.parquet("s3a://scratch/stranger/rows")


@contextmanager
def session(cloud: Cloud, way: str, folder: Path) -> Iterator[Any]:
    """Of a Spark server of its own, which has this process' environment."""
    keys = {"spark.hadoop.fs.s3a.access.key", "spark.hadoop.fs.s3a.secret.key"}
    conf = {name: value for name, value in cloud.store.spark_settings.items() if name not in keys} | {
        "spark.jars": f"{connector_folder('s3')}/*.jar",
        "spark.hadoop.fs.s3a.aws.credentials.provider": PROVIDERS[way],
    }
    settings = EmbeddedSettings(cores=1, driver_memory="1g", start_timeout=300, conf=tuple(conf.items()))
    try:
        with open_session(ensure_embedded_server(folder / "state", settings=settings)) as found:
            yield found
    finally:
        stop_embedded_server(folder / "state")
