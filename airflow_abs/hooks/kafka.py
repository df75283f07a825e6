"""From an Airflow connection of type ``kafka``, whose extra is librdkafka's configuration, to Spark's Kafka client."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_abs.core.errors import InvalidValueError

if TYPE_CHECKING:
    from airflow.sdk import Connection

_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PEM = {
    "ssl.ca": "ssl.truststore.certificates",
    "ssl.certificate": "ssl.keystore.certificate.chain",
    "ssl.key": "ssl.keystore.key",
}
"""librdkafka's, each with `.location` (a file of this host) or `.pem`, and the Java client's, which takes the text."""
_TRANSLATED = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        *(f"{name}.{form}" for name in _PEM for form in ("location", "pem")),
    }
)


def kafka_options(conn_id: str) -> dict[str, str]:
    """Options of Spark's Kafka source and sink: the bootstrap servers, and what SASL and TLS need.

    Certificates and keys are read on this host: Spark's host needs no files. For threads: Airflow is asked.

    Raises:
        InvalidValueError: the connection lacks something, or has a security setting that is not translated.
        AirflowNotFoundException: there is no such connection.
    """
    from airflow.sdk import BaseHook

    connection = BaseHook.get_connection(conn_id)
    given = {str(name): str(value) for name, value in connection.extra_dejson.items()}
    untranslated = sorted(
        name for name in given if name.startswith(("sasl.", "ssl.", "security.")) and name not in _TRANSLATED
    )
    if untranslated:
        raise InvalidValueError(
            f"connection {conn_id!r}: {untranslated[0]} of its extra has no translation for Spark's Kafka client; "
            f"expected of these: {', '.join(sorted(_TRANSLATED))}. For others, such as Kerberos or OAuth, configure "
            "Spark's server and name the brokers by servers="
        )
    options = {"bootstrap.servers": _servers(conn_id, connection, given)}
    if "security.protocol" in given:
        options["security.protocol"] = given["security.protocol"].upper()
    options |= _sasl(conn_id, connection, given) | _tls(conn_id, given)
    return {f"kafka.{name}": value for name, value in options.items()}


def _servers(conn_id: str, connection: Connection, given: Mapping[str, str]) -> str:
    if servers := given.get("bootstrap.servers"):
        return servers
    if connection.host:
        return f"{connection.host}:{connection.port or 9092}"
    raise InvalidValueError(
        f"connection {conn_id!r}: it names no brokers; expected bootstrap.servers in its extra, 'host:port,host:port'"
    )


def _sasl(conn_id: str, connection: Connection, given: Mapping[str, str]) -> dict[str, str]:
    mechanism = (given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "").upper()
    if not mechanism:
        if "SASL" not in given.get("security.protocol", "").upper():
            return {}
        mechanism = "PLAIN"
    if mechanism not in _LOGINS:
        raise InvalidValueError(
            f"connection {conn_id!r}: sasl.mechanism of its extra is {mechanism!r}; expected {', '.join(_LOGINS)}. For "
            "others, configure Spark's server and name the brokers by servers="
        )
    user = given.get("sasl.username") or connection.login
    password = given.get("sasl.password") or connection.password
    if not user or not password:
        raise InvalidValueError(
            f"connection {conn_id!r}: it uses SASL {mechanism} and has no {'password' if user else 'user'}; expected "
            "its login and password, or sasl.username and sasl.password in its extra"
        )
    login = f"{_LOGINS[mechanism]} required username={_quoted(user)} password={_quoted(password)};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _tls(conn_id: str, given: Mapping[str, str]) -> dict[str, str]:
    found = {ours: text for name, ours in _PEM.items() if (text := _pem(conn_id, name, given))}
    if "ssl.truststore.certificates" in found:
        found["ssl.truststore.type"] = "PEM"
    if "ssl.keystore.key" in found:
        found["ssl.keystore.type"] = "PEM"
    if "ssl.key.password" in given:
        found["ssl.key.password"] = given["ssl.key.password"]
    if "ssl.endpoint.identification.algorithm" in given:
        algorithm = given["ssl.endpoint.identification.algorithm"].lower()
        found["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return found


def _pem(conn_id: str, name: str, given: Mapping[str, str]) -> str:
    if path := given.get(f"{name}.location"):
        try:
            return Path(path).read_text()
        except (OSError, ValueError) as error:
            raise InvalidValueError(
                f"connection {conn_id!r}: {name}.location of its extra is {path}, which cannot be read here "
                f"({error}); expected a PEM file on every worker and triggerer, or its text as {name}.pem"
            ) from error
    return given.get(f"{name}.pem", "")


def _quoted(text: str) -> str:
    """As a value of JAAS: in its grammar, a tokenizer of Java's, a backslash escapes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
