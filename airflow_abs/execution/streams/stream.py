"""One try of one stream: supervise it, in a worker or in the triggerer, and stop it."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from airflow_abs.hooks.storage import open_path

if TYPE_CHECKING:
    from airflow_abs.core.stream_life.life import StreamLife
    from airflow_abs.core.streaming.supervision import Ended
    from airflow_abs.exchange.streaming.lease import CheckpointLease
    from airflow_abs.spark.connect.connection import Connection
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint
    from airflow_abs.spark.stream.supervise import StreamRun
    from airflow_abs.spark.stream.watch import StreamEvent, StreamWatch


@dataclass(frozen=True, slots=True)
class StreamTask:
    """One try of one stream, as plain values: the worker and the triggerer supervise it alike.

    Args:
        checkpoint: templated path of the folder of the checkpoint, rendered.
        digest: of the stored query.
        name: of the query in Spark, as it stands in what is stored; another one each time that it is compiled, so that
            an older one is never taken for it.
        owner: names the task instance.
        conf: settings of its Spark session.
        ends: whether it ends once it has read what is there.
        bound: what says that its source is bounded; "" if it is not.
        restart: name and fields of the restart strategy.
        desired_slots, sufficient_slots: with this many it starts at once (None: it takes all), or once they are stable.
        resource_timeout, resource_stabilization: how long it waits for them; seconds.
        rescale: fields of `Rescale`; None if nothing of it follows the slots.
        dag_id, run_id, task_id: tags of its metrics and spans.
        sink: path of the folder to which it adds files, rendered; "" if it writes to a topic.
        source_conn_id, sink_conn_id: Airflow connections of its topics; "" for none.
    """

    conn_id: str
    checkpoint: str
    digest: str
    name: str
    owner: str
    conf: dict[str, str]
    ends: bool
    restart: dict[str, Any]
    desired_slots: int | None
    sufficient_slots: int
    resource_timeout: float
    resource_stabilization: float
    rescale: dict[str, Any] | None = None
    dag_id: str = ""
    task_id: str = ""
    sink: str = ""
    run_id: str = ""
    bound: str = ""
    source_conn_id: str = ""
    sink_conn_id: str = ""

    async def run(self, server: StreamServer) -> Ended:
        """Until it has ended; cancelling leaves the query running."""
        from airflow_abs.core.streaming.supervision import Ended

        watch = self._watch()
        run = await asyncio.to_thread(self._prepare, await server.connect(), server, watch)
        ended = await run.run()
        if ended.status != "CANCELED" or watch.request is None:
            return ended
        asked = f"{watch.request.by} has asked it to {watch.request.action}"
        return Ended("FINISHED" if watch.request.action == "drain" else ended.status, asked)

    async def stop(self, connection: Connection) -> None:
        """End its query, whichever process supervises it; a batch under way is repeated when the stream resumes.

        A later try's query is left alone, however late this is.
        """
        from airflow_abs.spark.connect.operations import release_session

        lease = await asyncio.to_thread(self._lease)
        left = await asyncio.to_thread(lease.take_over)
        if left is None:
            return
        if left.session_id and left.server == connection.endpoint.address:
            await release_session(connection, left.session_id)
        await asyncio.to_thread(lease.give_back)
        await asyncio.to_thread(self._watch().end, "its task was marked or cleared in Airflow")

    def _watch(self) -> StreamWatch:
        from airflow_abs.execution.streams.metrics import StreamMetrics
        from airflow_abs.execution.streams.spans import StreamSpans
        from airflow_abs.spark.stream.watch import StreamWatch

        metrics = StreamMetrics(self.dag_id, self.task_id)
        spans = StreamSpans(self.dag_id, self.run_id, self.task_id)

        def emit(event: StreamEvent, life: StreamLife) -> None:
            metrics.emit(event, life)
            spans.emit(event, life)

        return StreamWatch(open_path(self.checkpoint), self.owner, self.name, emit, bound=self.bound)

    def _lease(self) -> CheckpointLease:
        from airflow_abs.exchange.streaming.lease import CheckpointLease, Holder

        token = f"{socket.gethostname()}:{os.getpid()}:{time.time_ns()}"
        holder = Holder(self.owner, token, query=self.name)
        return CheckpointLease(open_path(self.checkpoint), holder, time.time)

    def _prepare(self, connection: Connection, server: StreamServer, watch: StreamWatch) -> StreamRun:
        from airflow_abs.core.slots.resource_wait import WaitOptions
        from airflow_abs.core.streaming.failures import FailureJudge
        from airflow_abs.core.streaming.rescale import Rescale
        from airflow_abs.core.streaming.slots_wanted import SlotsWanted
        from airflow_abs.core.streaming.supervision import StreamSupervisor
        from airflow_abs.exchange.streaming.stored_query import forget_other_queries, read_query
        from airflow_abs.restart_strategy import strategy_from_json
        from airflow_abs.spark.stream.state_partitions import StatePartitions
        from airflow_abs.spark.stream.stream import Stream
        from airflow_abs.spark.stream.supervise import StreamRun

        judge = FailureJudge(strategy_from_json(self.restart).new_backoff(self.owner))
        wait = WaitOptions(self.resource_timeout, self.resource_stabilization)
        wanted = SlotsWanted.of(self.desired_slots, self.sufficient_slots)
        checkpoint = open_path(self.checkpoint)
        plan = read_query(checkpoint, self.digest)
        rescale = None if self.rescale is None else Rescale(**self.rescale)
        supervisor = StreamSupervisor(judge, wanted, ends=self.ends, wait=wait, rescale=rescale)
        stream = Stream(
            self.name,
            plan,
            self.conf,
            rescale=rescale,
            source_options=partial(_options_of, self.source_conn_id),
            sink_options=partial(_options_of, self.sink_conn_id),
        )
        lease = self._lease()
        master = "" if rescale is None else rescale.repartition_state
        return StreamRun(
            connection,
            server.connect,
            stream,
            lease,
            supervisor,
            on_progress=watch.progress,
            on_change=watch.change,
            on_held=partial(forget_other_queries, checkpoint, self.digest),
            attend=watch.attend,
            state=StatePartitions(self.name, lease, open_path(self.sink), master, watch.note) if self.sink else None,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _options_of(conn_id: str) -> dict[str, str]:
    """What the topics of a connection need; a secrets backend that does not answer is asked at the next restart."""
    if not conn_id:
        return {}
    from airflow_abs.core.errors import InvalidValueError
    from airflow_abs.hooks.kafka import kafka_options
    from airflow_abs.spark.errors import TokenUnavailableError

    try:
        return kafka_options(conn_id)
    except InvalidValueError as error:
        raise TokenUnavailableError(str(error)) from None
    except Exception as error:  # not our code; only the type: its text may quote what it was given
        raise TokenUnavailableError(
            f"connection {conn_id!r} of the stream's topics: it cannot be read ({type(error).__name__}); check "
            "the connection and its secrets backend"
        ) from None


class StreamServer:
    """The Spark server of a connection, wherever it is now: an embedded one that has died comes again, elsewhere."""

    def __init__(self, conn_id: str) -> None:
        self._conn_id = conn_id
        self._open = AsyncExitStack()
        self._endpoint: ConnectEndpoint | None = None
        self._connection: Connection | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._open.aclose()

    async def connect(self) -> Connection:
        """A connection to it, the same one as long as it is the same server.

        Raises:
            SparkOperationError: there is none, or it cannot be started.
        """
        from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
        from airflow_abs.spark.connect.connection import open_connection
        from airflow_abs.spark.errors import ConnectServerUnreachableError
        from airflow_abs.spark.server.embedded_state import EmbeddedSparkError

        try:
            endpoint = await AdaptiveSparkHook(self._conn_id).aget_endpoint()
        except EmbeddedSparkError as error:
            raise ConnectServerUnreachableError(str(error)) from error
        if self._connection is None or endpoint != self._endpoint:
            await self._open.aclose()
            self._connection = await self._open.enter_async_context(open_connection(endpoint))
            self._endpoint = endpoint
        return self._connection
