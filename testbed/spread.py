"""Where a cluster's Spark work was done: Spark tasks by worker, as the master and the application tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_abs.core.wording import format_count
from testbed.topology.place import Place

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class WorkerTasks:
    """What one worker's executors have done. `worker` is the master's id of it, `seconds` the sum over its tasks."""

    worker: str
    cores: int
    tasks: int
    seconds: float


def read_spread(place: Place) -> list[WorkerTasks]:
    """One entry per worker that the master calls alive, by its id. Executors that are gone count where they were.

    Raises:
        httpx.HTTPError: the master or the Connect server's own pages do not answer.
    """
    import httpx

    with httpx.Client(timeout=30.0, trust_env=False) as client:
        master = _get(client, f"http://{place.address('spark-master-ui')}/json/")
        executors: list[dict[str, Any]] = []
        for application in master["activeapps"]:
            pages = f"http://{place.address('spark-connect-ui')}/api/v1/applications/{application['id']}"
            executors += _get(client, f"{pages}/allexecutors")
    return spread_of(master, executors)


def has_all_executors(place: Place) -> bool:
    """Whether the Connect server has an executor on every worker: what a job counts its slots by."""
    import httpx

    with httpx.Client(timeout=30.0, trust_env=False) as client:
        master = _get(client, f"http://{place.address('spark-master-ui')}/json/")
    return all(worker["coresused"] == worker["cores"] for worker in master["workers"] if worker["state"] == "ALIVE")


def spread_of(master: dict[str, Any], executors: Sequence[dict[str, Any]]) -> list[WorkerTasks]:
    """An executor names its worker by the address of that worker's page, where its log can be read."""
    spread = []
    for worker in sorted(master["workers"], key=lambda worker: str(worker["id"])):
        page = urlsplit(worker["webuiaddress"]).netloc
        its = [each for each in executors if urlsplit(each["executorLogs"].get("stdout", "")).netloc == page]
        if worker["state"] == "ALIVE":
            tasks, seconds = sum(each["totalTasks"] for each in its), sum(each["totalDuration"] for each in its) / 1000
            spread.append(WorkerTasks(worker["id"], worker["cores"], tasks, seconds))
    return spread


def lines_of_spread(spread: Sequence[WorkerTasks]) -> list[str]:
    """For people: `worker-2026...: 41 Spark tasks, 12.3 s on 1 core`."""
    return [
        f"  {each.worker}: {each.tasks} Spark tasks, {each.seconds:.1f} s on {format_count(each.cores, 'core')}"
        for each in spread
    ]


def _get(client: httpx.Client, url: str) -> Any:
    return client.get(url).raise_for_status().json()
