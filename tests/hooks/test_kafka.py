"""What Spark's Kafka client is told of an Airflow connection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.hooks.kafka import kafka_options


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    def options(extra: dict[str, str], **fields: Any) -> dict[str, str]:
        connection = {"conn_type": "kafka", "extra": extra, **fields}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA", json.dumps(connection))
        return kafka_options("kafka")

    return options


def test_brokers_stand_in_the_extra_or_are_the_host(connect: Any) -> None:
    assert connect({"bootstrap.servers": "a:1,b:2", "group.id": "x"}) == {"kafka.bootstrap.servers": "a:1,b:2"}
    assert connect({}, host="broker") == {"kafka.bootstrap.servers": "broker:9092"}
    assert connect({}, host="broker", port=9093) == {"kafka.bootstrap.servers": "broker:9093"}


def test_a_password_becomes_a_login_module_in_which_no_character_ends_it(connect: Any) -> None:
    extra = {"bootstrap.servers": "k:1", "security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512"}
    assert connect(extra, login="me", password='a"b\\c;') == {
        "kafka.bootstrap.servers": "k:1",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="a\\"b\\\\c;";'
        ),
    }
    plain = {"security.protocol": "SASL_SSL", "sasl.username": "u", "sasl.password": "p", "bootstrap.servers": "k:1"}
    assert connect(plain)["kafka.sasl.jaas.config"] == (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    )


def test_certificates_are_read_here_and_travel_as_text(connect: Any, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("CA")
    (tmp_path / "me.key").write_text("KEY")
    extra = {
        "bootstrap.servers": "k:1",
        "security.protocol": "SSL",
        "ssl.ca.location": str(tmp_path / "ca.crt"),
        "ssl.certificate.pem": "ME",
        "ssl.key.location": str(tmp_path / "me.key"),
        "ssl.key.password": "p",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert connect(extra) == {
        "kafka.bootstrap.servers": "k:1",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "CA",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "ME",
        "kafka.ssl.keystore.key": "KEY",
        "kafka.ssl.key.password": "p",
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({}, "connection 'kafka': it names no brokers; expected bootstrap.servers in its extra, 'host:port,host:port'"),
        (
            {"bootstrap.servers": "k:1", "security.protocol": "SASL_SSL"},
            "connection 'kafka': it uses SASL PLAIN and has no user; expected its login and password, or sasl.username "
            "and sasl.password in its extra",
        ),
        (
            {"bootstrap.servers": "k:1", "sasl.mechanism": "OAUTHBEARER"},
            "connection 'kafka': sasl.mechanism of its extra is 'OAUTHBEARER'; expected PLAIN, SCRAM-SHA-256, "
            "SCRAM-SHA-512. For others, configure Spark's server and name the brokers by servers=",
        ),
        (
            {"bootstrap.servers": "k:1", "ssl.ca.location": "/nowhere/ca.crt"},
            "connection 'kafka': ssl.ca.location of its extra is /nowhere/ca.crt, which cannot be read here ([Errno 2] "
            "No such file or directory: '/nowhere/ca.crt'); expected a PEM file on every worker and triggerer, or its "
            "text as ssl.ca.pem",
        ),
    ],
)
def test_what_is_missing_is_named(connect: Any, extra: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        connect(extra)
    assert str(caught.value) == message


def test_a_security_setting_that_would_be_lost_is_refused(connect: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        connect({"bootstrap.servers": "k:1", "ssl.crl.location": "/x", "group.id": "x"})
    assert str(caught.value).startswith(
        "connection 'kafka': ssl.crl.location of its extra has no translation for Spark's Kafka client; expected of "
        "these: sasl.mechanism, "
    )
