"""One Kafka broker that is its own controller, on loopback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from airflow_abs.spark.server.free_ports import choose_free_ports
from airflow_abs.spark.server.java import find_java_home
from testbed.places.programs import PlaceError, jars_folder
from testbed.places.served import LOOPBACK, Served

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
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


def kafka_broker(folder: Path) -> Served:
    """One with no topics, whose data and log are in `folder`. A topic that is written to comes with 8 partitions.

    Raises:
        PlaceError: its storage cannot be formatted.
    """
    port, controller = choose_free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(_PROPERTIES.format(host=LOOPBACK, port=port, controller=controller, folder=folder))
    java = [str(find_java_home() / "bin" / "java"), "-cp", f"{jars_folder('kafka')}/*"]
    tool = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)]
    done = subprocess.run(tool, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode != 0:
        raise PlaceError(f"Kafka's storage tool ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return Served([java[0], *options, *java[1:], "kafka.Kafka", str(properties)], port, folder / "broker.log")
