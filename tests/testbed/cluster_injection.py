"""Faults of a whole cluster, caused for real: services killed, restarted, added."""

from __future__ import annotations

import asyncio
import random
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from airflow_abs.spark.connect.capacity import read_capacity
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.server.free_ports import choose_free_ports
from testbed.folder import LOOPBACK
from testbed.processes import ClusterProcesses
from testbed.spread import has_all_executors, read_spread
from testbed.topology.place import TRIGGERERS, WORKERS, Place
from testbed.topology.spark import WORKER_CORES, spark_worker
from tests.testbed.holders import holders_of_triggers

ADDED = "spark-worker-3"
CAPACITY_SECONDS = 180.0
_SESSION = str(uuid.uuid4())


@dataclass(slots=True)
class ClusterInjector:
    """Causes faults in one cluster; `chance` decides which of several services. Who is killed is for `revive`."""

    cluster: ClusterProcesses
    chance: random.Random

    def kinds(self) -> dict[str, Callable[[], str | None]]:
        """Every kind by name; each gives the service that was hit first, None if there is nothing to hit right now."""
        return {
            "add a Spark worker": self._add_worker,
            "kill a Spark worker": self._kill_worker,
            "kill a triggerer": self._kill_triggerer,
            "kill scheduler": self._kill_scheduler,
            "restart PostgreSQL": self._restart_database,
        }

    def take_workers_away(self) -> None:
        """Spark has no executor, and gets none before `bring_workers_back`."""
        for name in WORKERS:
            self.cluster.services.pop(name, None)
            self.cluster.kill(name)

    def bring_workers_back(self) -> None:
        """They are started by the next `revive`."""
        self.cluster.services |= {name: spark_worker(self.cluster.place, name) for name in WORKERS}

    def restore(self) -> None:
        """The cluster as it was: two Spark workers, both with an executor, every service healthy.

        Raises:
            AssertionError: the capacity is not what it was.
        """
        if self.cluster.services.pop(ADDED, None) is not None:
            self.cluster.kill(ADDED)
        deadline = time.monotonic() + CAPACITY_SECONDS
        while not self._has_two_workers():
            self.cluster.revive()
            assert time.monotonic() < deadline, f"{read_spread(self.cluster.place)}, {self.capacity()} slots"
            time.sleep(0.5)
        self.cluster.airflow.wait_until_healthy(["scheduler", *TRIGGERERS])

    def capacity(self) -> int:
        """Slots, as the package reads them."""
        return asyncio.run(_read_capacity(self.cluster.place))

    def _has_two_workers(self) -> bool:
        place = self.cluster.place
        has_both = len(read_spread(place)) == len(WORKERS) and has_all_executors(place)
        return has_both and self.capacity() == len(WORKERS) * WORKER_CORES

    def _add_worker(self) -> str | None:
        """The next capacity that is read has its cores."""
        if ADDED in self.cluster.services:
            return None
        before, started = self.capacity(), time.monotonic()
        self.cluster.services[ADDED] = spark_worker(with_worker(self.cluster.place, ADDED), ADDED)
        self.cluster.start(ADDED, wait=False)
        while self.capacity() < before + WORKER_CORES:
            assert time.monotonic() < started + CAPACITY_SECONDS, f"still {before} slots"
            time.sleep(0.3)
        return f"{ADDED}: {before} slots, {self.capacity()} after {time.monotonic() - started:.1f} s"

    def _kill_worker(self) -> str | None:
        name = self.chance.choice(WORKERS)
        self.cluster.kill(name)
        return name

    def _kill_triggerer(self) -> str | None:
        """One that awaits something."""
        groups = {self.cluster.airflow._processes[name].pid: name for name in TRIGGERERS}
        holders = sorted({groups[pid] for pid in holders_of_triggers(self.cluster.folder) if pid in groups})
        if not holders:
            return None
        name = self.chance.choice(holders)
        self.cluster.kill(name)
        return name

    def _kill_scheduler(self) -> str | None:
        self.cluster.kill("scheduler")
        return "scheduler"

    def _restart_database(self) -> str | None:
        """As an administrator does: nobody's transaction is awaited."""
        self.cluster.kill("postgres", signal.SIGINT)
        return "postgres"


def with_worker(place: Place, name: str) -> Place:
    """The same place with one more Spark worker."""
    ports = dict(zip((name, f"{name}-ui"), choose_free_ports(2), strict=True))
    return replace(place, ports={**place.ports, **ports}, hosts={**place.hosts, name: LOOPBACK})


async def _read_capacity(place: Place) -> int:
    token, port = place.secrets["SPARK_CONNECT_TOKEN"], place.ports["spark-connect"]
    async with open_connection(ConnectEndpoint("localhost", port, token=token)) as connection:
        return await read_capacity(connection, _SESSION)
