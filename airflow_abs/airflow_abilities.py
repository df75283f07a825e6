"""What the Airflow at hand can do, and where it keeps its names: the one place that knows minors older than 3.3.

Code that needs an ability asks `has(...)` and otherwise does what its `fallback` says. Names that have moved are
imported from here, and found when they are used. `make test-airflow-versions` tries other releases of Airflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk.bases.skipmixin import SkipMixin
    from airflow.sdk.configuration import conf
    from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy
    from airflow.sdk.exceptions import (
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRescheduleException,
        AirflowSkipException,
    )
    from airflow.sdk.plugins_manager import integrate_macros_plugins

__all__ = [
    "ABILITIES",
    "RETRY_POLICIES",
    "START_IN_TRIGGERER",
    "THREADS_OF_TRIGGERERS",
    "TRIGGERS_TOLD_OF_MARKS",
    "Ability",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowRescheduleException",
    "AirflowSkipException",
    "DagBag",
    "RetryDecision",
    "RetryPolicy",
    "SkipMixin",
    "airflow_version",
    "conf",
    "core_timetable",
    "has",
    "initialize_stats",
    "integrate_macros_plugins",
    "stats",
]


@dataclass(frozen=True, slots=True)
class Ability:
    """Something that not every minor of Airflow can do.

    Args:
        since: the first minor that can.
        lack: what an older one cannot do, as a main clause for messages.
        fallback: what this package does there instead, likewise.
    """

    since: tuple[int, int]
    lack: str
    fallback: str


# `operators/restart_policy.py`
RETRY_POLICIES = Ability(
    (3, 3),
    "tasks have no retry policies",
    "each task asks the policy itself which failures are final; all other retries wait for Airflow's retry_delay",
)
# `execution/cancellation.py`
TRIGGERS_TOLD_OF_MARKS = Ability(
    (3, 3),
    "a trigger does not learn why it is cancelled",
    "it asks Airflow whether its task still waits for it, and ends its Spark operation if not",
)
# `execution/triggerer_comms.py`
THREADS_OF_TRIGGERERS = Ability(
    (3, 2),
    "a thread of the triggerer that asks Airflow something breaks the triggerer",
    "all that triggers ask goes through its event loop, and is never cancelled",
)
# `task_groups/rendering.py`
START_IN_TRIGGERER = Ability(
    (3, 3),
    "its scheduler starts every task on a worker",
    "start_from_trigger=True is ignored, and workers start decisions and subtasks",
)

ABILITIES = (RETRY_POLICIES, TRIGGERS_TOLD_OF_MARKS, THREADS_OF_TRIGGERERS, START_IN_TRIGGERER)
"""All of them. docs/reference/compatibility.md says how each was found."""


def airflow_version() -> str:
    """As Airflow says it, such as "3.3.2"."""
    from airflow import __version__

    return __version__


def has(ability: Ability) -> bool:
    return _minor() >= ability.since


def _minor() -> tuple[int, int]:
    major, minor = airflow_version().split(".")[:2]
    return int(major), int(minor)


_PLACES = {
    "AirflowFailException": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "AirflowNotFoundException": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "AirflowRescheduleException": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "AirflowSkipException": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "DagBag": ("airflow.dag_processing.dagbag", "airflow.models.dagbag"),
    "RetryDecision": ("airflow.sdk.definitions.retry_policy", "airflow_abs.airflow_retries"),
    "RetryPolicy": ("airflow.sdk.definitions.retry_policy", "airflow_abs.airflow_retries"),
    "SkipMixin": ("airflow.sdk.bases.skipmixin", "airflow.models.skipmixin"),
    "conf": ("airflow.sdk.configuration", "airflow.configuration"),
    "integrate_macros_plugins": ("airflow.sdk.plugins_manager", "airflow.plugins_manager"),
}
"""Where each name is: in 3.3 first."""


def __getattr__(name: str) -> Any:
    """A name that has moved, from where this Airflow keeps it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    newest, oldest = _PLACES[name]
    try:
        found = getattr(import_module(newest), name)
    except (ImportError, AttributeError):
        found = getattr(import_module(oldest), name)
    globals()[name] = found
    return found


def stats() -> Any:
    """What takes metrics: `gauge`, `incr` and `timing`."""
    if _minor() >= (3, 3):
        return import_module("airflow.sdk.observability.stats")
    place = "airflow.sdk.observability.stats" if _minor() == (3, 2) else "airflow.stats"
    return import_module(place).Stats


def initialize_stats() -> None:
    """For processes where Airflow does not, such as the one that runs triggers. In 3.1 the first metric does it."""
    if _minor() < (3, 2):
        return
    stats_utils = import_module("airflow.sdk.observability.metrics.stats_utils")
    taker = stats()
    if _minor() == (3, 2):
        taker.initialize(factory=stats_utils.get_stats_factory(taker))
    else:
        legacy = __getattr__("conf").getboolean("metrics", "legacy_names_on")
        taker.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=legacy)


def core_timetable(timetable: Any) -> Any:
    """The scheduler's timetable for one that a DAG declares. In 3.1 they are the same."""
    if _minor() < (3, 2):
        return timetable
    return import_module("airflow.serialization.encoders").coerce_to_core_timetable(timetable)
