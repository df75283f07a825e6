"""One Kafka broker that is its own controller, on loopback."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_abs.spark.server.free_ports import choose_free_ports
from airflow_abs.spark.server.java import find_java_home
from testbed.places.place import PlaceError
from testbed.places.programs import jars_folder
from testbed.places.served import LOOPBACK, Served
from testbed.secrets import make_certificate

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},SASL_SSL://{host}:{secure},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port},SASL_SSL://{host}:{secure}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config={login} required user_{user}="{password}";
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
log.dirs={folder}/data
num.partitions=8
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class SecureListener:
    """Where a broker asks for TLS and a password."""

    port: int
    authority: Path
    user: str = "airflow"
    password: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    @property
    def connection(self) -> dict[str, Any]:
        """Of Airflow, of the type ``kafka``."""
        extra = {
            "bootstrap.servers": f"{LOOPBACK}:{self.port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "ssl.ca.location": str(self.authority),
        }
        return {"conn_type": "kafka", "login": self.user, "password": self.password, "extra": extra}


class KafkaBroker(Served):
    """Served without a password; `secure` is its other listener."""

    def __init__(self, command: Sequence[str], port: int, log: Path, secure: SecureListener) -> None:
        super().__init__(command, port, log)
        self.secure = secure


def kafka_broker(folder: Path) -> KafkaBroker:
    """One with no topics, whose data and log are in `folder`. A topic that is written to comes with 8 partitions.

    Raises:
        PlaceError: its storage cannot be formatted.
    """
    port, controller, secure_port = choose_free_ports(3)
    make_certificate(folder, [LOOPBACK])
    keystore = folder / "keystore.pem"
    keystore.write_text((folder / "connect.key").read_text() + (folder / "connect.crt").read_text())
    secure = SecureListener(secure_port, folder / "ca.crt")
    properties = folder / "server.properties"
    properties.touch(mode=0o600)
    properties.write_text(
        _PROPERTIES.format(
            host=LOOPBACK, port=port, secure=secure_port, controller=controller, folder=folder, login=_LOGIN,
            user=secure.user, password=secure.password, keystore=keystore,
        )
    )  # fmt: skip
    java = [str(find_java_home() / "bin" / "java"), "-cp", f"{jars_folder('kafka')}/*"]
    tool = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)]
    done = subprocess.run(tool, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode != 0:
        raise PlaceError(f"Kafka's storage tool ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = [java[0], *options, *java[1:], "kafka.Kafka", str(properties)]
    return KafkaBroker(command, port, folder / "broker.log", secure)
