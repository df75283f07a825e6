"""Performs what the supervision of a stream decides: holds its checkpoint, starts, finds, watches and stops its query.

Cancelling leaves the query running, and lets the lease expire: the next supervisor of the stream finds
it. Nothing of the author's runs here.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from airflow_abs.core.streaming.failures import QueryFailure
from airflow_abs.core.streaming.states import State
from airflow_abs.core.streaming.supervision import (
    BatchBoundary,
    DrainAsked,
    Ended,
    Instruction,
    QueryEnded,
    QueryStarted,
    Seen,
    SlotsSeen,
    StartQuery,
    StopQuery,
    StreamSupervisor,
    Tell,
    TimePassed,
)
from airflow_abs.core.wording import format_count
from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.streaming.lease import CheckpointLease
from airflow_abs.spark.connect.capacity import read_capacity
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.operations import derive_id, release_session, set_config
from airflow_abs.spark.errors import ConnectServerUnreachableError, SparkOperationError
from airflow_abs.spark.stream.first_task import FirstTask
from airflow_abs.spark.stream.query import (
    Activity,
    RunningQuery,
    StreamProgress,
    end_session,
    find_query,
    read_activity,
    read_failure,
    read_progress,
    start_query,
    stop_query,
)
from airflow_abs.spark.stream.state_partitions import StatePartitions
from airflow_abs.spark.stream.stream import Stream
from airflow_abs.spark.stream.unfinished_batch import finish_batch

log = logging.getLogger(__name__)


async def _nothing_asked(activity: Activity) -> Seen | None:
    return None


@dataclass(slots=True)
class StreamRun:
    """One process' supervision of a stream.

    Args:
        connection: to the server.
        connect: gives the connection again after the server has gone, to another one if there is another by then.
        on_progress: told every batch that was done; once more of the last ones if it was found running.
        on_held: called in a thread once the checkpoint is held, before anything is started.
        on_change: told every change of its state.
        state: of the query, looked at before each start; None if it is not.
        attend: called at every look, and once it has ended, with what the query does; returns a request to it, if any.
    """

    connection: Connection
    connect: Callable[[], Awaitable[Connection]]
    stream: Stream
    lease: CheckpointLease
    supervisor: StreamSupervisor
    on_progress: Callable[[StreamProgress], None] = lambda progress: None
    on_held: Callable[[], None] = lambda: None
    on_change: Callable[[Tell], None] = lambda told: None
    attend: Callable[[Activity], Awaitable[Seen | None]] = _nothing_asked
    state: StatePartitions | None = None
    _query: RunningQuery | None = None
    _activity: Activity = Activity.ENDED
    _batch: int | None = None
    _asked: Seen | None = None
    _renewed_at: float = 0.0
    _first_task: FirstTask = field(init=False)

    def __post_init__(self) -> None:
        self._first_task = FirstTask(self._session_of_slots)

    async def run(self) -> Ended:
        """Until the query has ended for good.

        Raises:
            CheckpointHeldError: another stream runs on the checkpoint.
            LeaseLostError: another process supervises this stream now; the query runs on.
        """
        await self._take_over()
        ended = await self._perform(self.supervisor.begin(time.time()))
        while ended is None:
            ended = await self._look()
            if ended is None:
                await asyncio.sleep(self._pause())
        await self._first_task.forget(self.connection)
        await self.attend(Activity.ENDED)
        await asyncio.to_thread(self.lease.give_back)
        return ended

    def drain(self) -> None:
        """Let it stop so that it can resume from its checkpoint."""
        self._asked = DrainAsked()

    async def _take_over(self) -> None:
        """Take the lease on the checkpoint. A query that its last holder left running continues if it is this stream's,
        and is stopped otherwise."""
        left = await asyncio.to_thread(self.lease.take)
        self._renewed_at = time.time()
        await asyncio.to_thread(self.on_held)
        if left is None or not left.session_id or left.server != self.connection.endpoint.address:
            return  # a server that is not ours is asked nothing: Spark's log takes each batch from one query only
        try:
            if left.owner == self.lease.holder.owner:
                self._query = await find_query(self.connection, left.session_id, self.stream.name)
            if self._query is None:
                await self._end_last_session()
        except SparkOperationError as error:  # it is ended before the next query starts
            log.warning("%s: the server of its last query does not answer: %s", self.stream.name, error)

    async def _end_last_session(self) -> bool:
        """End what may still run in the session that the lease names; False if that is on a server not ours to ask."""
        last = self.lease.holder
        if last.session_id and last.server == self.connection.endpoint.address:
            await end_session(self.connection, last.session_id)
        return last.server in ("", self.connection.endpoint.address)

    async def _look(self) -> Ended | None:
        """See what there is to be seen, and do what follows from it."""
        await self._keep_lease()
        self._asked = await self.attend(self._activity) or self._asked
        for seen in await self._see():
            ended = await self._perform(self.supervisor.see(seen, time.time()))
            if ended is not None:
                return ended
        return None

    async def _see(self) -> list[Seen]:
        found: list[Seen] = []
        if self._asked is not None:
            found, self._asked = [self._asked], None
        next_at = self.supervisor.next_at
        if next_at is not None and next_at <= time.time():
            found.append(TimePassed())
        match self.supervisor.state:
            case State.WAITING_FOR_RESOURCES:
                found.append(await self._see_slots_to_start())
            case State.EXECUTING | State.STOP_WITH_SAVEPOINT if self._query is not None:
                found += await self._watch_on_its_server(self._query)
        return found

    async def _see_slots_to_start(self) -> SlotsSeen:
        """Spark also says 2 of a cluster without executors. A query that runs already has no need to know."""
        slots = await self._count_slots()
        if not slots or self._query is not None:
            return SlotsSeen(slots)
        try:
            if await self._first_task.has_run(self.connection, slots):
                return SlotsSeen(slots)
        except SparkOperationError as error:
            log.warning("%s: %s", self.stream.name, error)
        return SlotsSeen(0, self._first_task.lack)

    @property
    def _session_of_slots(self) -> str:
        return derive_id("slots", self.stream.name)

    async def _count_slots(self) -> int:
        try:
            return await read_capacity(self.connection, self._session_of_slots)
        except SparkOperationError as error:
            log.warning("%s: %s", self.stream.name, error)
        try:
            self.connection = await self.connect()
        except SparkOperationError as error:
            log.warning("%s: %s", self.stream.name, error)
        return 0

    async def _watch_on_its_server(self, query: RunningQuery) -> list[Seen]:
        """A server that does not answer is asked again for a while, unless another one is in its place by now."""
        server = self.connection.endpoint
        slots = await self._count_slots()
        if self.connection.endpoint != server:
            self._query, self._activity = None, Activity.ENDED
            gone = (
                f"its Spark server at {server.address} is gone, and there is one at {self.connection.endpoint.address}"
            )
            return [QueryEnded(QueryFailure(gone))]
        found = await self._watch(query)
        if self.stream.rescale is not None and self._query is not None and slots:
            found.append(SlotsSeen(slots))
        return found

    async def _watch(self, query: RunningQuery) -> list[Seen]:
        known = self._batch
        try:
            self._activity = await read_activity(self.connection, query)
            for progress in await read_progress(self.connection, query):
                if self._batch is None or progress.batch > self._batch:
                    self._batch = progress.batch
                    self.on_progress(progress)
            if self._activity is not Activity.ENDED:
                return [BatchBoundary()] if self._activity is Activity.IDLE or self._batch != known else []
            failure = await read_failure(self.connection, query, self._batch)
        except SparkOperationError as error:
            failure = QueryFailure(str(error), restartable=True, batch=None)
        self._query, self._activity = None, Activity.ENDED
        return [QueryEnded(failure)]

    async def _perform(self, instructions: list[Instruction]) -> Ended | None:
        """Do them in order; what they lead to is seen at once."""
        for instruction in instructions:
            seen: Seen | None = None
            match instruction:
                case Tell(left, entered, reason):
                    log.info("%s: %s -> %s: %s", self.stream.name, left, entered, reason)
                    self.on_change(instruction)
                case StartQuery(slots):
                    seen = await self._start(slots)
                case StopQuery():
                    seen = await self._stop()
                case Ended():
                    return instruction
            if seen is not None:
                ended = await self._perform(self.supervisor.see(seen, time.time()))
                if ended is not None:
                    return ended
        return None

    async def _start(self, slots: int) -> Seen:
        """In a session of its own each time: one in which a query has failed may be broken, one that was closed is
        refused forever."""
        self._activity = Activity.BATCH
        if self._query is not None:
            log.info("%s: found running, run %s", self.stream.name, self._query.run_id)
            return QueryStarted(self.lease.holder.slots)
        session_id = str(uuid.uuid4())
        await self._first_task.forget(self.connection)
        try:
            conf, plan = await asyncio.to_thread(self.stream.at, slots)
            is_alone = await self._end_last_session()
            if self.state is not None:
                wanted, finish = self.stream.partitions(slots), partial(self._finish_batch, slots)
                failure = await self.state.prepare(wanted, finish, is_alone=is_alone)
                if failure is not None:
                    return QueryEnded(failure)
            await asyncio.to_thread(self.lease.begin_session, session_id, self.connection.endpoint.address, slots)
            self._renewed_at = time.time()
            server_session = await set_config(self.connection, session_id, conf)
            self._query = await start_query(self.connection, session_id, plan, server_session=server_session)
        except SparkOperationError as error:
            return QueryEnded(QueryFailure(str(error), error.restartable))
        except ExchangeUnreachableError as error:
            return QueryEnded(QueryFailure(str(error)))
        log.info("%s: started for %s, run %s", self.stream.name, format_count(slots, "slot"), self._query.run_id)
        return QueryStarted(slots)

    async def _finish_batch(self, slots: int) -> QueryFailure | None:
        """Nothing but the batch that the last start has begun and not done."""
        session_id = str(uuid.uuid4())
        await asyncio.to_thread(self.lease.begin_session, session_id, self.connection.endpoint.address, slots)
        self._renewed_at = time.time()
        conf, plan = await asyncio.to_thread(self.stream.at, slots)
        try:
            done = await finish_batch(self.connection, session_id, conf, plan, self._keep_lease)
        finally:
            await self._end_last_session()
        if not isinstance(done, StreamProgress):
            return done
        self._batch = done.batch
        self.on_progress(done)
        return None

    async def _stop(self) -> Seen:
        query, self._query, self._activity = self._query, None, Activity.ENDED
        if query is None:
            return QueryEnded()
        try:
            await stop_query(self.connection, query)
        except ConnectServerUnreachableError as error:
            log.warning("%s: its server does not answer, so it is not stopped: %s", self.stream.name, error)
            return QueryEnded()
        except SparkOperationError as error:
            log.warning("%s: cannot be asked to stop, so its session is closed: %s", self.stream.name, error)
        await release_session(self.connection, query.session_id)
        return QueryEnded()

    async def _keep_lease(self) -> None:
        """A storage that refuses for a while is asked again for as long as the lease holds."""
        away = time.time() - self._renewed_at
        if away < self.lease.renewal_seconds:
            return
        try:
            await asyncio.to_thread(self.lease.renew)
        except ExchangeUnreachableError as error:
            if away >= self.lease.seconds:
                raise
            log.warning("%s: its lease is not renewed yet: %s", self.stream.name, error)
        else:
            self._renewed_at = time.time()

    def _pause(self) -> float:
        """Until the next look: soon, if something is due sooner."""
        next_at = self.supervisor.next_at
        left = self.stream.poll_seconds if next_at is None else next_at - time.time()
        return max(0.0, min(self.stream.poll_seconds, left))
