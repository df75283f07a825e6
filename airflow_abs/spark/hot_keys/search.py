"""Beside the operation of the subtask that reads a hot subpartition: which key makes it hot.

One Spark task reads the key's columns of some rows of that one subpartition, while the subtask itself runs. Nothing
waits for it: when the subtask is done first, it is given up. Nothing depends on it: an error is a line in the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import reduce
from typing import Any

from airflow_abs.core.decide.hot_subpartitions import HotSubpartition
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.hot_key import VALUE_CHARACTERS, HotKey
from airflow_abs.core.sql_names import quote
from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.records.manifest import files_for_range, read_manifest
from airflow_abs.exchange.records.plan import PlannedInput
from airflow_abs.exchange.results.hot_key import read_hot_key, write_hot_key
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import Operation, derive_id, release_session, set_config
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.errors import SparkOperationError
from airflow_abs.spark.relations import Relation, coalesce, read_result, sql_expression
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.work import SubtaskSpec

PRODUCERS = 4
"""Of so many the rows are looked at, evenly spaced."""
ROWS = 100_000
"""So many rows at most are looked at."""
_END_SECONDS = 1.0
_COUNT = "__airflow_abs_rows"

log = logging.getLogger(__name__)


@asynccontextmanager
async def searching_hot_key(connection: Connection, spec: SubtaskSpec, attempt: SubtaskAttempt) -> AsyncIterator[None]:
    """Look for the key while the block runs, if this is the subtask that should and the job wants it."""
    hot = spec.reads.hottest
    if hot is None or not spec.plan.options.get("hot_keys"):
        yield
        return
    search = asyncio.create_task(_search(connection, spec, attempt, hot))
    try:
        yield
    finally:
        search.cancel()
        await asyncio.wait([search], timeout=_END_SECONDS)


async def _search(connection: Connection, spec: SubtaskSpec, attempt: SubtaskAttempt, hot: HotSubpartition) -> None:
    """In a session of its own, whose scheduler pool is its own, too: its task need not wait for those of the run."""
    folder, region = spec.folder, spec.region
    session_id = derive_id(attempt.tag(folder), "hot key")
    try:
        if await asyncio.to_thread(read_hot_key, folder, region.name, attempt.decision) is not None:
            return
        entry = next(each for each in region.inputs if each.name == hot.input)
        await set_config(connection, session_id, {"spark.scheduler.pool": session_id})
        plan = await asyncio.to_thread(_build_plan, spec, entry, hot.subpartition, session_id)
        outcome = await execute_operation(connection, Operation(session_id, session_id, plan))
        found = _read_key(outcome.observed, session_id, entry, hot)
        if found is not None:
            await asyncio.to_thread(write_hot_key, folder, region.name, attempt.decision, found)
            advice = found.advise(shared=spec.reads.hot_part is not None, splittable=entry.name in region.splittable)
            log.warning("%s: %s; %s", region.name, found.describe(), advice)
    except Exception as error:  # whatever it is, the subtask goes on without it
        log.info("the key behind the hot subpartition %d of %s was not found: %s", hot.subpartition, hot.input, error)
    finally:
        with suppress(SparkOperationError):  # the server ends what nobody asks for
            await release_session(connection, session_id)


def _build_plan(spec: SubtaskSpec, entry: PlannedInput, subpartition: int, name: str) -> bytes:
    """One Spark task, and a single row as its result; what is wanted is observed under `name`."""
    proto = protos()
    counted = _count_by_key(coalesce(_some_rows(spec, entry, subpartition), 1), entry.keys)
    columns = ", ".join(f"{_shorten(key)} AS {quote(key)}" for key in entry.keys)
    most = f"max_by(to_json(struct({columns}), map('ignoreNullFields', 'false')), {_COUNT})"
    metrics = [sql_expression(text) for text in (most, f"max({_COUNT})", f"sum({_COUNT})")]
    observed = proto.Relation(collect_metrics=proto.CollectMetrics(input=counted, name=name, metrics=metrics))
    grouped = proto.Aggregate.GroupType.GROUP_TYPE_GROUPBY
    ended = proto.Aggregate(input=observed, group_type=grouped, aggregate_expressions=[sql_expression("count(1)")])
    plan: bytes = proto.Plan(root=proto.Relation(aggregate=ended)).SerializeToString(deterministic=True)
    return plan


def _some_rows(spec: SubtaskSpec, entry: PlannedInput, subpartition: int) -> Relation:
    """Rows of the subpartition, as many of each producer that is looked at."""
    written = spec.plan.region(entry.region).step(entry.result)
    span = IndexRange(subpartition, subpartition + 1)
    decision = spec.reads.producer_decisions[entry.region]
    count = spec.reads.producers[entry.region]
    chosen = sorted({number * count // PRODUCERS for number in range(PRODUCERS)})
    parts = []
    for index in chosen:
        manifest = read_manifest(spec.folder, entry.region, index, decision=decision)
        files = files_for_range(manifest.results[entry.result], span)
        paths = [uri_for_spark(spec.folder.file_path(file.path)) for file in files]
        relation = read_result(paths, schema=written.schema, numbered=written.is_numbered, subpartitions=span)
        parts.append(_limit(relation, ROWS // len(chosen)))
    return reduce(_unite, parts)


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


def _unite(left: Relation, right: Relation) -> Relation:
    proto = protos()
    union = proto.SetOperation.SetOpType.SET_OP_TYPE_UNION
    return proto.Relation(set_op=proto.SetOperation(left_input=left, right_input=right, set_op_type=union, is_all=True))


def _shorten(key: str) -> str:
    return f"left(CAST({quote(key)} AS STRING), {VALUE_CHARACTERS})"


def _read_key(observed: Mapping[str, bytes], name: str, entry: PlannedInput, hot: HotSubpartition) -> HotKey | None:
    """None if there were no rows."""
    metrics: Any = protos().ExecutePlanResponse.ObservedMetrics.FromString(observed[name])
    values, rows, seen = metrics.values
    if not seen.long:
        return None
    key: Mapping[str, str | None] = json.loads(values.string)
    return HotKey(
        input=hot.input,
        subpartition=hot.subpartition,
        bytes=hot.bytes,
        median=hot.median,
        columns=entry.keys,
        values=tuple(key[column] for column in entry.keys),
        rows=rows.long,
        rows_seen=seen.long,
    )
