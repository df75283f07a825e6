"""Run subtasks again that have read rows which do not count any more, for `commit`, which has no event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby

from airflow_abs.core.failover import Subtask
from airflow_abs.exchange.errors import StoredFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import read_manifest
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.storage.locations import OpenPath
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.run.claims import interrupt_recoveries
from airflow_abs.spark.run.inputs import LostResults, outdated_results
from airflow_abs.spark.run.recovery import Recovery


def renew_blocking(
    endpoint: ConnectEndpoint,
    folder: JobFolder,
    owner: str,
    records: RunRecords,
    outdated: Mapping[Subtask, Subtask],
    open_path: OpenPath,
) -> None:
    """Rerun these, producers first, each once, also if other readers need them.

    Args:
        owner: names who needs them, the same in every try.
        records: of the run.
        outdated: as `read_outdated` gives them.
        open_path: opens the path of a source.

    Raises:
        SparkOperationError, ExchangeError: see `Recovery.ensure_inputs`.
    """

    async def renew() -> None:
        async with open_connection(endpoint) as connection:
            recovery = Recovery(connection, folder, owner, open_path)
            for _, subtasks in groupby(outdated, lambda subtask: subtask[0]):
                await recovery.have_again([_outdated(records, each, outdated[each]) for each in subtasks])

    asyncio.run(renew())


def interrupt_blocking(endpoint: ConnectEndpoint, folder: JobFolder, owner: str) -> None:
    """Stop what is being run again for this owner."""

    async def interrupt() -> None:
        async with open_connection(endpoint) as connection:
            await interrupt_recoveries(connection, folder, owner)

    asyncio.run(interrupt())


def _outdated(records: RunRecords, subtask: Subtask, by: Subtask) -> LostResults:
    """As it was when it was judged: what another process has renewed since then is not run once more, which would
    outdate all that has read it."""
    region, index = subtask
    with suppress(StoredFileError):
        return outdated_results(records.manifests(region)[index], by)
    decision = records.digest(region)
    try:
        return outdated_results(read_manifest(records.folder, region, index, decision=decision), by)
    except StoredFileError:
        return LostResults(region, index, decision, None, (), {}, 0, by)
