"""Publishing a region's current rows, even if output of a nondeterministic vertex is lost meanwhile.

    current? --no--> rerun what is outdated, and check again
       | yes
    record that it is published; publish, with a generation that grows with every renewal; still current?
       | yes                                                          --no--> from the beginning
    record from which rows
    has the run published other sinks from outdated rows? --yes--> the same for each of these

Two concurrent commits cannot miss each other. Each records that it publishes, publishes, and only then checks whether
its rows are still current, while rows are renewed before the commit of their own region looks for such records. A
commit that was paused meanwhile has an older generation, which targets refuse.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from airflow_abs.core.failover import Subtask
from airflow_abs.core.wording import format_count
from airflow_abs.exchange.errors import OutdatedInputError, StoredFileError, SupersededError
from airflow_abs.exchange.publish.begun import note_publishing, published_renewals
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.audit import check_region
from airflow_abs.exchange.results.outdated import check_current
from airflow_abs.exchange.results.renewal import has_renewed

log = logging.getLogger(__name__)

_ROUNDS = 8
"""Rows that are renewed more often than this during one publication point to a broken storage."""

Published = TypeVar("Published")
Publish = Callable[[RunRecords, str], Published]
"""Publishes what the records hold of a region."""
Renew = Callable[[RunRecords, Mapping[Subtask, Subtask]], None]
"""Runs subtasks again, see `read_outdated`."""


def commit_region(records: RunRecords, region: str, publish: Publish[Published], renew: Renew) -> Published:
    """Publish a region, and again those other regions that were published from outdated rows.

    Args:
        records: of the run, as they are now.
        region: its subtasks have all committed.
        publish, renew: called to publish, and to rerun subtasks.

    Raises:
        OutdatedInputError: names what to clear.
        ExchangeError, SparkOperationError: what `publish` and `renew` raise.
    """
    folder = records.folder
    published = _publish_current(records, region, publish, renew)
    if region in records.plan.unrepeatable and has_renewed(folder):
        for other in _find_outdated_others(RunRecords(folder), region):
            log.warning("%s was published from outdated rows: publishing it again", other)
            _publish_current(RunRecords(folder), other, publish, renew)
    return published


def _publish_current(records: RunRecords, region: str, publish: Publish[Published], renew: Renew) -> Published:
    folder, plan = records.folder, records.plan.id
    for _ in range(_ROUNDS):
        if outdated := check_current(records, region):
            log.warning("rerunning, before %s is published: %s", region, _describe(outdated))
            renew(records, outdated)
            records = RunRecords(folder)
            continue
        if region not in records.plan.unrepeatable:
            return publish(records, region)
        _audit_before(records, region)
        note_publishing(folder, region, plan)
        before, records = records, RunRecords(folder)  # which have read nothing yet
        try:
            published = publish(before, region)
        except SupersededError:
            if records.plan.id != plan:
                raise
            continue  # by rows that were renewed since the records were read
        if not check_current(records, region) and records.renewals(region) == before.renewals(region):
            note_publishing(folder, region, plan, before.renewals(region))
            return published
    raise OutdatedInputError(
        f"{region}: its rows were recomputed {_ROUNDS} times while they were being published; check the storage of "
        f"the exchange at {folder.path} and run commit again"
    )


def _audit_before(records: RunRecords, region: str) -> None:
    """What was renewed has passed no `decide`."""
    for name in records.plan.with_all_before(region):
        if name != region and records.renewals(name):
            check_region(records, name)


def _find_outdated_others(records: RunRecords, region: str) -> list[str]:
    unrepeatable = records.plan.unrepeatable
    sinks = [each.name for each in records.plan.regions if each.sinks and each.name in unrepeatable]
    return [name for name in sinks if name != region and _is_published_otherwise(records, name)]


def _is_published_otherwise(records: RunRecords, region: str) -> bool:
    """Whether it was published of other rows than those that count now."""
    published = published_renewals(records.folder, region, records.plan.id)
    if published is None:
        return False
    try:
        return published != records.renewals(region) or bool(check_current(records, region))
    except (StoredFileError, OutdatedInputError) as error:  # it runs again, or has to be cleared: its own commit comes
        log.info("leaving %s to its own commit: %s", region, error)
        return False


def _describe(outdated: Mapping[Subtask, Subtask]) -> str:
    """``3 subtasks of enriched, 1 subtask of total``."""
    counts: dict[str, int] = {}
    for region, _ in outdated:
        counts[region] = counts.get(region, 0) + 1
    return ", ".join(f"{format_count(count, 'subtask')} of {region}" for region, count in counts.items())
