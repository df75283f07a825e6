"""What a cluster manager does for a run's Spark server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from airflow_abs.core.slots.executors import Executors
from airflow_abs.exchange.paths import JobFolder


@dataclass(frozen=True, slots=True)
class ServerStart:
    """One server to be started.

    Args:
        key: random and public; it names this start.
        name: what people read at the cluster manager.
        folder: of the run's job, on a file system that Airflow and Spark share.
        conf: the author's Spark settings.
        lifetime: seconds after which the server ends by itself.
        token: what its callers have to show.
    """

    key: str
    name: str
    folder: JobFolder
    conf: Mapping[str, str]
    lifetime: float
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ApplicationState:
    """`word` is the manager's own, "UNKNOWN" for an application that it does not know; `reason` is what it adds."""

    word: str
    is_active: bool
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.reason})" if self.reason else self.word


UNKNOWN = ApplicationState("UNKNOWN", is_active=False)


class ClusterManager(Protocol):
    """Starts a Connect server as an application, and says what became of it.

    An application is named as its manager names it: a driver id, an application id, ``namespace:pod``. Every call may
    raise `ConnectServerUnreachableError` if the manager does not answer.
    """

    def submit(self, start: ServerStart) -> str:
        """Submit the server, and return the application; some seconds. The token is in no argument and no record.

        Raises:
            AirflowException: spark-submit failed; with the end of what it said.
            ExchangeUnreachableError: the server could not announce its address in the folder.
        """

    def find(self, key: str) -> str | None:
        """The active application of a start whose submitter died before it could note the application.

        Otherwise what is left of the start is removed. None also where the manager cannot look for one.
        """

    def state(self, application: str) -> ApplicationState:
        """What the manager says of it."""

    def address(self, application: str, folder: JobFolder, key: str) -> tuple[str, int] | None:
        """Host and port on which the server listens; None if it does not say so yet."""

    def executors(self, application: str) -> Executors | None:
        """Its executors as the manager counts them; None where it does not say."""

    def kill(self, application: str) -> None:
        """Ask for its end, without waiting for it. One that has ended is fine."""

    def abort(self) -> None:
        """End a submission that is under way in this process."""
