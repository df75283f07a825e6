"""The decision for one region, wherever it is made: in a worker, or in the triggerer with `start_from_trigger=True`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_abs.core.slots.admission import Admission, advise_bound, exceeds_slots
from airflow_abs.core.wording import format_bytes
from airflow_abs.hooks.catalogs import table_access

if TYPE_CHECKING:
    from airflow_abs.core.decide.region_decision import SubtaskAssignment
    from airflow_abs.exchange.records.decisions import StoredDecision
    from airflow_abs.exchange.records.run_records import RunRecords

log = logging.getLogger(__name__)

ReadReports = Callable[[str], Sequence[Mapping[str, Any]]]
"""From a producer region to what its subtasks reported."""


def decide(
    records: RunRecords, region: str, read: ReadReports, admission: Admission, table_kinds: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Decide, store and tell; the keyword arguments of each mapped subtask, always at least one: an empty list would
    skip everything below and still end green.

    Args:
        records: of the run.
        region: its name.
        read: for the reports of its producers.
        admission: of its subtasks.
        table_kinds: of the tables that the DAG has as sources.

    Raises:
        ExchangeError: the plan or a report is missing; a source path matches nothing; what it would read is not as
            expected.
    """
    from airflow_abs.airflow_abilities import conf
    from airflow_abs.exchange.records.deciding import decide_and_store
    from airflow_abs.exchange.results.audit import check_region
    from airflow_abs.execution.metrics import emit_decision
    from airflow_abs.execution.spans import decide_span, describe_decided
    from airflow_abs.tables.inference import SourceInference

    plan, folder = records.plan, records.folder
    if into := plan.fused.get(region):
        log.info("%s runs inside %s today", region, into)
        return [{"subtask": _describe_fused(into)}]
    producers = dict.fromkeys(entry.region for entry in plan.region(region).inputs)
    reports = {producer: read(producer) for producer in producers}
    for producer in producers:
        check_region(records, producer)
    ready = ready_since(reports, time.time())
    with decide_span(folder, region) as span:
        sources = SourceInference(records, table_access(), table_kinds)
        limit = conf.getint("core", "max_map_length", fallback=1024)
        stored = decide_and_store(records, region, reports, sources, measured_at=ready, max_map_length=limit)
        describe_decided(span, stored.decision)
    log.info("%s", stored.decision.describe())
    for line in plan.strange_sources(stored.decision):
        log.warning("%s", line)
    emit_decision(folder, stored.decision)
    if admission is Admission.FREE and (advice := advise_bound(stored.decision)):
        log.warning("%s", advice)
    queued = {"queued": True} if admission is Admission.QUEUE and exceeds_slots(stored.decision) else {}
    return [{"subtask": {**subtask, "ready": ready, **queued}} for subtask in describe_subtasks(stored)]


def _describe_fused(into: str) -> dict[str, Any]:
    """Its only subtask, which has nothing to do."""
    return {
        "index": 0,
        "subtasks": 1,
        "decision": "",
        "bytes": 0,
        "subpartitions": None,
        "fused_into": into,
        "label": f"fused into {into}",
    }


def ready_since(reports: Mapping[str, Sequence[Mapping[str, Any]]], now: float) -> float:
    """When the last subtask before it ended, in epoch seconds; `now` if it reads files alone or if that is unknown."""
    ended = [float(report["ended"]) for found in reports.values() for report in found if "ended" in report]
    return max(ended, default=now)


def describe_subtasks(stored: StoredDecision) -> Sequence[dict[str, Any]]:
    """One JSON dict for each subtask; the rest is in the exchange, under the decision's digest."""
    decision, digest = stored.decision, stored.digest
    return [
        {
            "index": subtask.index,
            "subtasks": decision.parallelism,
            "decision": digest,
            "bytes": subtask.bytes,
            "subpartitions": [subtask.subpartitions.start, subtask.subpartitions.stop]
            if subtask.subpartitions
            else None,
            "label": _label(subtask),
        }
        for subtask in decision.subtasks
    ]


def _label(subtask: SubtaskAssignment) -> str:
    reads = subtask.subpartitions if subtask.subpartitions is not None else "files"
    part = f" of {subtask.hot_part}" if subtask.hot_part else ""
    return f"{subtask.index}: {reads}{part}, {format_bytes(subtask.bytes)}"
