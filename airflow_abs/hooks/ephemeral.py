"""`Ephemeral`: a job's Spark server is started for the run and ends with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_abs.core.errors import InvalidValueError

# Ours: without them no client finds the server, or every client may use it.
_OURS = (
    "spark.eventLog.",
    "spark.connect.authenticate.token",
    "spark.connect.grpc.binding.port",
    "spark.driver.timeout",
    "spark.master",
    "spark.submit.deployMode",
    "spark.kubernetes.driver.pod.name",
    "spark.yarn.maxAppAttempts",
)


@dataclass(frozen=True, slots=True)
class Ephemeral:
    """A Spark Connect server per run, submitted as an application of a Spark cluster, its driver on that cluster.

    Args:
        conn_id: Airflow connection of type ``spark`` that names the cluster: a standalone master, YARN, Kubernetes.
        conf: Spark settings of the server, such as ``spark.driver.memory``, ``spark.executor.memory``,
            ``spark.cores.max``.
        start_timeout: seconds from submission within which it must answer, including the wait for a full cluster.
        lifetime: seconds after which the server ends itself if nothing stopped it; set it longer than any run.
        folder: URI of a file system that Airflow and Spark share, if the exchange is on an object store.
        trusted_network: True allows its token to be sent over the network in plain text: Spark's Connect server has no
            TLS.

    Raises:
        InvalidValueError: a time is not above 0, or `conf` has a setting that the package sets.
    """

    conn_id: str = "spark_default"
    conf: Mapping[str, str] = field(default_factory=dict)
    start_timeout: float = 600.0
    lifetime: float = 86_400.0
    folder: str | None = None
    trusted_network: bool = False

    def __post_init__(self) -> None:
        for name, seconds in (("start_timeout", self.start_timeout), ("lifetime", self.lifetime)):
            if seconds <= 0:
                raise InvalidValueError(f"Ephemeral: {name} is {seconds:g}; expected a number of seconds above 0")
        for key in self.conf:
            if key.startswith(_OURS):
                raise InvalidValueError(
                    f"Ephemeral: conf sets {key}, which the package sets itself; leave it out (lifetime= sets how "
                    "long the server may live, conn_id= its cluster)"
                )
