"""What is remembered of a stream: its states, what happened to it, its last batches. Bounded, however long it lives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_abs.core.stream_life.lag import LagAlarm, LagFell, LagGrows
from airflow_abs.core.streaming.states import State

KEPT_CHANGES = 100
KEPT_NOTES = 50
KEPT_BATCHES = 200
KEPT_TEXT = 1000
"""Characters of a reason: Spark's words of a failure may be many thousands."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """One state after another, when (epoch seconds) and why.

    What follows on `Restarting` tells why that was entered: after a failure slots are waited for again, a rescale keeps
    what it found.
    """

    at: float
    left: str
    entered: str
    reason: str

    @property
    def is_restart(self) -> bool:
        return self.left == State.RESTARTING and self.entered == State.WAITING_FOR_RESOURCES

    @property
    def is_rescale(self) -> bool:
        return self.left == State.RESTARTING and self.entered == State.CREATING_EXECUTION_GRAPH


@dataclass(frozen=True, slots=True)
class Note:
    """Something else that happened, in words."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that was done.

    Args:
        number: Spark's; counted from 0 in a checkpoint.
        ended: epoch seconds.
        seconds: that it took.
        rows_in: that its sources gave.
        rows_out: that went to the sink; None if Spark does not say.
        state_rows, state_bytes: held since, in the memory of the executors.
        lag: seconds from when the oldest of its files was written to its end; of records that are counted, until the
            one that comes next has been read at the batch's pace. None if unknown.
        rows_behind: records that the source has and were not in it; None if unknown.
    """

    number: int
    ended: float
    seconds: float
    rows_in: int
    rows_out: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    lag: float | None = None
    rows_behind: int | None = None

    @property
    def rows_in_per_second(self) -> float:
        """While it was done."""
        return self.rows_in / max(self.seconds, 0.001)

    @property
    def rows_out_per_second(self) -> float | None:
        """While it was done; None if unknown."""
        return None if self.rows_out is None else self.rows_out / max(self.seconds, 0.001)


@dataclass(frozen=True, slots=True)
class StreamLife:
    """All that is remembered, over all tries and runs that had this checkpoint. Oldest first.

    Args:
        owner: who supervises it, or did last: see `Holder`.
        query: name of its query in Spark.
        restarts, rescales: since the checkpoint is there, also those that `changes` no longer has.
        alarm: what is wrong with its lag; "" if nothing is.
        bound: what says that its source is bounded, so that it runs as a batch; "" if it is not.
    """

    owner: str = ""
    query: str = ""
    changes: tuple[StateChange, ...] = ()
    notes: tuple[Note, ...] = ()
    batches: tuple[Batch, ...] = ()
    restarts: int = 0
    rescales: int = 0
    alarm: str = ""
    bound: str = ""

    @property
    def state(self) -> str:
        """The one that it entered last."""
        return self.changes[-1].entered if self.changes else State.CREATED

    def with_change(self, change: StateChange) -> StreamLife:
        """It has entered another state."""
        return replace(
            self,
            changes=(*self.changes, replace(change, reason=_cut(change.reason)))[-KEPT_CHANGES:],
            restarts=self.restarts + change.is_restart,
            rescales=self.rescales + change.is_rescale,
        )

    def with_note(self, note: Note) -> StreamLife:
        """Something happened."""
        return replace(self, notes=(*self.notes, replace(note, text=_cut(note.text)))[-KEPT_NOTES:])

    def has(self, batch: Batch) -> bool:
        """Whether it is known, or older than one that is: Spark tells a new process of batches again."""
        return bool(self.batches) and batch.ended <= self.batches[-1].ended

    def with_batch(self, batch: Batch) -> StreamLife:
        """A batch was done that was not known."""
        return replace(self, batches=(*self.batches, batch)[-KEPT_BATCHES:])

    def with_alarm(self, told: LagGrows | LagFell, at: float) -> StreamLife:
        """The lag has become alarming, or ceased to be."""
        text = str(told)
        return replace(self.with_note(Note(at, text)), alarm=text if isinstance(told, LagGrows) else "")

    def lag_alarm(self) -> LagAlarm:
        """An alarm that has seen the batches so far."""
        alarm = LagAlarm()
        for batch in self.batches:
            alarm.see(batch.lag, batch.seconds)
        return alarm


def _cut(text: str) -> str:
    return text if len(text) <= KEPT_TEXT else f"{text[: KEPT_TEXT - 1]}…"
