"""Events that the scheduler's states receive, and actions that they return."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from airflow_abs.core.slots.resource_wait import Resources
from airflow_abs.core.streaming.timers import StartTimer, Timer


class ExecutionStatus(StrEnum):
    """How an execution ended."""

    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Start:
    """Scheduling is to begin."""


@dataclass(frozen=True, slots=True)
class ResourcesChanged:
    """Slots came or went."""

    resources: Resources


@dataclass(frozen=True, slots=True)
class Trigger:
    """A good moment to rescale."""


@dataclass(frozen=True, slots=True)
class ExecutionCreated:
    """Slots were assigned, or could not be."""

    has_slots: bool


@dataclass(frozen=True, slots=True)
class ExecutionEnded:
    """Nothing runs any more."""

    status: ExecutionStatus


@dataclass(frozen=True, slots=True)
class Fail:
    """Something failed; `backoff` is how long to wait before a restart, None if there is to be none."""

    reason: str
    backoff: float | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """The user gives the job up."""


@dataclass(frozen=True, slots=True)
class StopWithSavepoint:
    """Stop, and keep what was reached."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer asked for by `StartTimer` is due."""

    timer: Timer


Event = (
    Start
    | ResourcesChanged
    | Trigger
    | ExecutionCreated
    | ExecutionEnded
    | Fail
    | Cancel
    | StopWithSavepoint
    | TimerFired
)


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The state is another one now, for this reason; names of states."""

    left: str
    entered: str
    reason: str


@dataclass(frozen=True, slots=True)
class CreateExecution:
    """Assign slots and build the execution; answer with `ExecutionCreated`."""


@dataclass(frozen=True, slots=True)
class CancelExecution:
    """Stop all that runs; answer with `ExecutionEnded`."""


Action = StateChanged | StartTimer | CreateExecution | CancelExecution
