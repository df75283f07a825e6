"""Remembers the life of a stream beside its checkpoint, and hears what is asked of it there.

What happens is taken in at the supervisor's next look, in a thread: files are read and written only there, and the
record at most every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from airflow_abs.core.stream_life.lag import LagAlarm, LagFell, LagGrows
from airflow_abs.core.stream_life.life import Batch, Note, StateChange, StreamLife
from airflow_abs.core.streaming.states import State
from airflow_abs.core.streaming.supervision import CancelAsked, DrainAsked, Seen, Tell
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.exchange.streaming.file_source_log import oldest_file
from airflow_abs.exchange.streaming.life_record import continue_life, write_life
from airflow_abs.exchange.streaming.request import StreamRequest, read_request
from airflow_abs.exchange.streaming.spark_checkpoint import SPARK_FOLDER
from airflow_abs.spark.stream.query import Activity, StreamProgress

log = logging.getLogger(__name__)

SECONDS_BETWEEN_WRITES = 5.0

StreamEvent = StateChange | Batch | LagGrows | LagFell


class StreamWatch:
    """One process' watch over one stream; its methods are what `StreamRun` calls.

    Args:
        checkpoint: the stream's folder.
        owner, query: of the lease, see `Holder`.
        on_event: told what is new, with the life that it is part of; from a thread.
        seconds: between two writes, and between two looks for a request.
        now: the time in epoch seconds.
        bound: see `StreamLife`.
    """

    def __init__(
        self,
        checkpoint: ExchangePath,
        owner: str,
        query: str,
        on_event: Callable[[StreamEvent, StreamLife], None] = lambda event, life: None,
        seconds: float = SECONDS_BETWEEN_WRITES,
        now: Callable[[], float] = time.time,
        *,
        bound: str = "",
    ) -> None:
        self._checkpoint, self._owner, self._query, self._bound = checkpoint, owner, query, bound
        self._on_event = on_event
        self._seconds = seconds
        self._now = now
        self._pending: list[StateChange | StreamProgress | Note] = []
        self._life: StreamLife | None = None
        self._alarm = LagAlarm()
        self._written: StreamLife | None = None
        self._looked_at = 0.0
        self._batches = 0
        self._batches_asked_at = 0
        self._is_passed_on = False
        self.request: StreamRequest | None = None

    def change(self, told: Tell) -> None:
        """It is in another state."""
        self._pending.append(StateChange(self._now(), told.left, told.entered, told.reason))

    def note(self, text: str) -> None:
        """Something else happened to it."""
        self._pending.append(Note(self._now(), text))

    def progress(self, progress: StreamProgress) -> None:
        """A batch was done, perhaps one that is known."""
        self._batches += 1
        self._pending.append(progress)

    async def attend(self, activity: Activity) -> Seen | None:
        """Remember what happened, and say what is asked of the stream: once, and to drain only between two batches.

        The end of the stream is written immediately.
        """
        has_ended = any(isinstance(each, StateChange) and each.entered == State.FINISHED for each in self._pending)
        if has_ended or self._now() - self._looked_at >= self._seconds:
            await asyncio.to_thread(self._look)
        if self.request is None or self._is_passed_on:
            return None
        is_under_way = activity is Activity.BATCH and self._batches == self._batches_asked_at
        if self.request.action == "drain" and is_under_way:
            return None
        self._is_passed_on = True
        return CancelAsked() if self.request.action == "stop" else DrainAsked()

    def end(self, reason: str) -> None:
        """It was ended by another process than the one that watched it; blocks."""
        life = self._take_in()
        self._pending.append(StateChange(self._now(), life.state, State.FINISHED, reason))
        self._write()

    def _write(self) -> None:
        life = self._take_in()
        if life != self._written:
            write_life(self._checkpoint, life)
            self._written = life

    def _look(self) -> None:
        self._looked_at = self._now()
        self._write()
        if self.request is None:
            self.request = read_request(self._checkpoint, self._query)
            if self.request is not None:
                self._batches_asked_at = self._batches
                text = f"{self.request.by} has asked it to {self.request.action}"
                log.info("%s: %s", self._query, text)
                self._life = self._take_in().with_note(Note(self._now(), text))

    def _take_in(self) -> StreamLife:
        if self._life is None:
            before = continue_life(self._checkpoint)
            life = replace(before, owner=self._owner, query=self._query, bound=self._bound)
            self._alarm = life.lag_alarm()
        else:
            life = self._life
        taken, self._pending = self._pending, []
        for each in taken:
            match each:
                case StateChange():
                    life = self._add_change(life, each)
                case Note():
                    life = life.with_note(each)
                case StreamProgress():
                    life = self._add_batch(life, each)
        self._life = life
        return life

    def _add_change(self, life: StreamLife, change: StateChange) -> StreamLife:
        life = life.with_change(change)
        self._on_event(change, life)
        return life

    def _add_batch(self, life: StreamLife, progress: StreamProgress) -> StreamLife:
        batch = Batch(
            number=progress.batch,
            ended=progress.ended,
            seconds=progress.seconds,
            rows_in=progress.rows,
            rows_out=progress.rows_out,
            state_rows=progress.state_rows,
            state_bytes=progress.state_bytes,
            lag=self._lag(progress),
            rows_behind=progress.rows_behind,
        )
        if life.has(batch):
            return life
        life = life.with_batch(batch)
        self._on_event(batch, life)
        told = self._alarm.see(batch.lag, batch.seconds)
        if told is not None:
            life = life.with_alarm(told, batch.ended)
            log.log(logging.WARNING if life.alarm else logging.INFO, "%s: %s", self._query, told)
            self._on_event(told, life)
        return life

    def _lag(self, progress: StreamProgress) -> float | None:
        """Of the oldest file that the batch read, from when that was written to the batch's end; of Kafka by the number
        of its records."""
        spark = self._checkpoint / SPARK_FOLDER
        written = [oldest_file(spark, read.source, read.first, read.last) for read in progress.files]
        known = [each for each in written if each is not None]
        return max(0.0, progress.ended - min(known)) if known else progress.wait_of_next
