"""The search for a hot key beside the operation of the subtask that reads the hot subpartition.

Nothing waits for it: when the subtask is done first, it is given up, and `after_run` looks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.operations import derive_id
from airflow_abs.spark.hot_keys.search import HotSearch, search_hot_key
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.subtask_spec import SubtaskSpec

_END_SECONDS = 1.0


@asynccontextmanager
async def searching_hot_key(connection: Connection, spec: SubtaskSpec, attempt: SubtaskAttempt) -> AsyncIterator[None]:
    """Look for the key while the block runs, if this is the subtask that should and the job wants it."""
    search = _search_of(spec, attempt)
    if search is None:
        yield
        return
    task = asyncio.create_task(search_hot_key(connection, search))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=_END_SECONDS)


def _search_of(spec: SubtaskSpec, attempt: SubtaskAttempt) -> HotSearch | None:
    reads = spec.reads
    if reads.hottest is None or not spec.plan.options.get("hot_keys"):
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
