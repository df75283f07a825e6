"""The search for the hot keys of a run that no subtask had the time to find, while the rows are still there.

After everything has been published, so nothing waits for it but the end of the run, and that within a bound.
"""

from __future__ import annotations

import asyncio
import logging

from airflow_abs.exchange.runs.run_view import RegionView, RunView
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.operations import derive_id
from airflow_abs.spark.hot_keys.search import HotSearch, search_hot_key

SECONDS = 20.0
"""For all regions of the run together."""

log = logging.getLogger(__name__)


async def find_unseen_hot_keys(endpoint: ConnectEndpoint, run: RunView, attempt: int) -> None:
    """Look for the key of every region with a hot subpartition that has none, if the job wants it.

    `attempt` is the try of who looks: one of its own has a session of its own.

    Raises:
        SparkOperationError: the server does not answer.
    """
    searches = [search for region in run.regions if (search := _search_of(run, region, attempt)) is not None]
    if not searches:
        return
    try:
        async with asyncio.timeout(SECONDS), open_connection(endpoint) as connection, asyncio.TaskGroup() as group:
            for search in searches:
                group.create_task(search_hot_key(connection, search))
    except TimeoutError:
        log.info("gave up the search for hot keys after %g s", SECONDS)


def _search_of(run: RunView, region: RegionView, attempt: int) -> HotSearch | None:
    stored = region.stored
    if stored is None or region.hot_key is not None or not run.plan.options.get("hot_keys"):
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
