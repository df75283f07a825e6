"""Which key makes a subpartition hot: one Spark task reads the key's columns of some rows of that one subpartition.

The search runs next to the operation of the subtask that reads the subpartition. If the subtask ends first, `release`
searches again at the end of the run, while the rows are still there and after everything has been published. Nothing
depends on it: an error is a line in the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import reduce

from airflow_abs.core.decide.hot_subpartitions import HotSubpartition
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.hot_key import VALUE_CHARACTERS, HotKey
from airflow_abs.core.sql_names import quote
from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.records.manifest import files_for_range, read_manifest
from airflow_abs.exchange.records.plan import JobPlan, PlannedInput, PlannedRegion
from airflow_abs.exchange.results.hot_key import read_hot_key, write_hot_key
from airflow_abs.exchange.runs.run_view import RegionView, RunView
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import Operation, derive_id, release_session, set_config
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.errors import SparkOperationError
from airflow_abs.spark.observing import collect_metrics, read_metrics
from airflow_abs.spark.relations import Relation, coalesce, read_result, sql_expression, unite
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.subtask_spec import SubtaskSpec

PRODUCERS = 4
"""Rows of at most this many producers are sampled, evenly spaced."""
ROWS = 100_000
"""At most this many rows are sampled."""
_COUNT = "__airflow_abs_rows"
_END_SECONDS = 1.0
"""So long a subtask waits for its search to end when it is done first."""
SECONDS = 20.0
"""For all regions of a run together, once it has ended."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HotSearch:
    """What is looked into, under which decision (its digest) of a region.

    `producers` and `producer_decisions` are of the regions before it: numbers of subtasks, digests. `is_shared`:
    several subtasks read the subpartition. `session_id` is that of the session to look in: of the search's own.
    """

    folder: JobFolder
    plan: JobPlan
    region: PlannedRegion
    decision: str
    hot: HotSubpartition
    producers: Mapping[str, int]
    producer_decisions: Mapping[str, str]
    is_shared: bool
    session_id: str

    @property
    def input(self) -> PlannedInput:
        return next(each for each in self.region.inputs if each.name == self.hot.input)


async def search_hot_key(connection: Connection, search: HotSearch) -> None:
    """Find the key and write it beside the decision, unless it is there; it takes one Spark task.

    Its scheduler pool is its own, too: it need not wait for the tasks of the run. Cancelling it ends it on Spark.
    """
    folder, region, hot, session_id = search.folder, search.region.name, search.hot, search.session_id
    try:
        if await asyncio.to_thread(read_hot_key, folder, region, search.decision) is not None:
            return
        await set_config(connection, session_id, {"spark.scheduler.pool": session_id})
        plan = await asyncio.to_thread(_build_plan, search)
        outcome = await execute_operation(connection, Operation(session_id, session_id, plan))
        found = _read_key(outcome.observed, search)
        if found is not None:
            advice = found.advise(shared=search.is_shared, kept_whole=search.region.kept_whole(hot.input))
            log.warning("%s: %s; %s", region, found.describe(), advice)
            await asyncio.to_thread(write_hot_key, folder, region, search.decision, found)
    except Exception as error:  # whatever it is, the run continues without it
        log.info("the key behind the hot subpartition %d of %s was not found: %s", hot.subpartition, hot.input, error)
    finally:
        with suppress(SparkOperationError):  # the server ends operations without a client
            await release_session(connection, session_id)


def _build_plan(search: HotSearch) -> bytes:
    """One Spark task, and a single row as its result; what is wanted is observed under the session's id."""
    proto = protos()
    keys = search.input.keys
    counted = _count_by_key(coalesce(_some_rows(search), 1), keys)
    columns = ", ".join(f"{_shorten(key)} AS {quote(key)}" for key in keys)
    most = f"max_by(to_json(struct({columns}), map('ignoreNullFields', 'false')), {_COUNT})"
    metrics = [sql_expression(text) for text in (most, f"max({_COUNT})", f"sum({_COUNT})")]
    observed = collect_metrics(counted, search.session_id, metrics)
    grouped = proto.Aggregate.GroupType.GROUP_TYPE_GROUPBY
    ended = proto.Aggregate(input=observed, group_type=grouped, aggregate_expressions=[sql_expression("count(1)")])
    plan: bytes = proto.Plan(root=proto.Relation(aggregate=ended)).SerializeToString(deterministic=True)
    return plan


def _some_rows(search: HotSearch) -> Relation:
    """Rows of the subpartition, as many of each producer that is looked at."""
    entry, number = search.input, search.hot.subpartition
    written = search.plan.region(entry.region).step(entry.result)
    span = IndexRange(number, number + 1)
    decision = search.producer_decisions[entry.region]
    count = search.producers[entry.region]
    chosen = sorted({number * count // PRODUCERS for number in range(PRODUCERS)})
    parts = []
    for index in chosen:
        manifest = read_manifest(search.folder, entry.region, index, decision=decision)
        files = files_for_range(manifest.results[entry.result], span)
        paths = [uri_for_spark(search.folder.file_path(file.path)) for file in files]
        relation = read_result(paths, schema=written.schema, numbered=written.is_numbered, subpartitions=span)
        parts.append(_limit(relation, ROWS // len(chosen)))
    return reduce(unite, parts)


def _count_by_key(relation: Relation, keys: Sequence[str]) -> Relation:
    proto = protos()
    count = proto.Expression(alias=proto.Expression.Alias(expr=sql_expression("count(1)"), name=[_COUNT]))
    return proto.Relation(
        aggregate=proto.Aggregate(
            input=relation,
            group_type=proto.Aggregate.GroupType.GROUP_TYPE_GROUPBY,
            grouping_expressions=[sql_expression(quote(key)) for key in keys],
            aggregate_expressions=[count],
        )
    )


def _limit(relation: Relation, rows: int) -> Relation:
    proto = protos()
    return proto.Relation(limit=proto.Limit(input=relation, limit=rows))


def _shorten(key: str) -> str:
    return f"left(CAST({quote(key)} AS STRING), {VALUE_CHARACTERS})"


def _read_key(observed: Mapping[str, bytes], search: HotSearch) -> HotKey | None:
    """None if there were no rows."""
    found = read_metrics(observed[search.session_id])
    if not found or not found[-1].long:
        return None
    values, rows, seen = found
    key: Mapping[str, str | None] = json.loads(values.string)
    hot, columns = search.hot, search.input.keys
    return HotKey(
        input=hot.input,
        subpartition=hot.subpartition,
        bytes=hot.bytes,
        median=hot.median,
        columns=columns,
        values=tuple(key[column] for column in columns),
        rows=rows.long,
        rows_seen=seen.long,
    )


@asynccontextmanager
async def searching_hot_key(connection: Connection, spec: SubtaskSpec, attempt: SubtaskAttempt) -> AsyncIterator[None]:
    """Look for the key while the block runs, if this is the subtask that should and the job wants it."""
    search = _search_beside(spec, attempt)
    if search is None:
        yield
        return
    task = asyncio.create_task(search_hot_key(connection, search))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=_END_SECONDS)


def _search_beside(spec: SubtaskSpec, attempt: SubtaskAttempt) -> HotSearch | None:
    reads = spec.reads
    if reads.hottest is None or not spec.plan.options.hot_keys:
        return None
    return HotSearch(
        folder=spec.folder,
        plan=spec.plan,
        region=spec.region,
        decision=attempt.decision,
        hot=reads.hottest,
        producers=reads.producers,
        producer_decisions=reads.producer_decisions,
        is_shared=reads.hot_part is not None,
        session_id=derive_id(attempt.tag(spec.folder), "hot key"),
    )


async def find_unseen_hot_keys(endpoint: ConnectEndpoint, run: RunView, attempt: int) -> None:
    """Look for the key of every region with a hot subpartition that has none, if the job wants it.

    `attempt` is the try of who looks: one of its own has a session of its own.

    Raises:
        SparkOperationError: the server does not answer.
    """
    searches = [search for region in run.regions if (search := _search_after(run, region, attempt)) is not None]
    if not searches:
        return
    try:
        async with asyncio.timeout(SECONDS), open_connection(endpoint) as connection, asyncio.TaskGroup() as group:
            for search in searches:
                group.create_task(search_hot_key(connection, search))
    except TimeoutError:
        log.info("gave up the search for hot keys after %g s", SECONDS)


def _search_after(run: RunView, region: RegionView, attempt: int) -> HotSearch | None:
    stored = region.stored
    if stored is None or region.hot_key is not None or not run.plan.options.hot_keys:
        return None
    hot = stored.hottest
    if hot is None:
        return None
    folder = run.folder
    return HotSearch(
        folder=folder,
        plan=run.plan,
        region=region.planned,
        decision=stored.digest,
        hot=hot,
        producers=stored.producers,
        producer_decisions=stored.producer_decisions,
        is_shared=hot.subpartition in stored.decision.hot_subpartitions,
        session_id=derive_id(folder.dag_id, folder.run_id, folder.job, region.name, stored.digest, "hot key", attempt),
    )
