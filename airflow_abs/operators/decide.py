"""In front of every mapped task: how many subtasks, and what each of them reads."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_abs.core.explain import format_bytes
from airflow_abs.core.region_decision import SubtaskAssignment
from airflow_abs.exchange.decisions import StoredDecision, decide_and_store
from airflow_abs.exchange.plan import JobPlan
from airflow_abs.exchange.store import read_json
from airflow_abs.hooks.storage import open_path
from airflow_abs.operators.job_task import JobTask
from airflow_abs.operators.metrics import emit_decision
from airflow_abs.triggers.spans import decide_span, describe_decided

if TYPE_CHECKING:
    from airflow.sdk import Context


class DecideOperator(JobTask):
    """Decides the fan-out of one region from the bytes that its producers reported.

    Light: it loads neither pyspark nor grpc. Returns the keyword arguments of each mapped subtask, always at least one:
    an empty list would skip everything below and still end green.

    Args:
        region: name of the region.
        producers: task id of the mapped `run` task by producer region, as declared.
        reports: the same of all regions before it, near and far: on a day that is fused it may read from further up.
    """

    ui_color = "#fef7e0"

    def __init__(
        self, *, region: str, producers: Mapping[str, str], reports: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**{"task_display_name": f"decide {region}", "doc_md": _describe(region, producers), **kwargs})
        self.region = region
        self.reports = reports if reports is not None else producers

    def execute(self, context: Context) -> list[dict[str, Any]]:
        folder = self.folder(context)
        plan = JobPlan.from_json(read_json(folder.plan_path))
        if self.region in plan.fused:
            return [{"subtask": self._describe_fused(plan.fused[self.region])}]
        producers = dict.fromkeys(entry.region for entry in plan.region(self.region).inputs)
        reports = {region: pull_reports(context, self.reports[region]) for region in producers}
        with decide_span(folder, self.region) as span:
            stored = decide_and_store(folder, plan, self.region, reports, open_path)
            describe_decided(span, stored.decision)
        self.log.info("%s", stored.decision.describe())
        emit_decision(folder, stored.decision)
        ready = ready_since(reports, time.time())
        return [{"subtask": {**subtask, "ready": ready}} for subtask in describe_subtasks(stored)]

    def _describe_fused(self, into: str) -> dict[str, Any]:
        """Its only subtask, which has nothing to do."""
        self.log.info("%s runs inside %s today", self.region, into)
        return {
            "index": 0,
            "subtasks": 1,
            "decision": "",
            "bytes": 0,
            "subpartitions": None,
            "fused_into": into,
            "label": f"fused into {into}",
        }


def pull_reports(context: Context, task_id: str) -> list[dict[str, Any]]:
    """What all subtasks of a mapped task pushed; a single one comes without its list."""
    pulled = context["ti"].xcom_pull(task_ids=task_id)
    if pulled is None:
        return []
    return [pulled] if isinstance(pulled, dict) else list(pulled)


def ready_since(reports: Mapping[str, Sequence[Mapping[str, Any]]], now: float) -> float:
    """When the last subtask before it ended, in epoch seconds; `now` for a region that reads files alone."""
    ended = [float(report["ended"]) for found in reports.values() for report in found if "ended" in report]
    return max(ended, default=now)


def describe_subtasks(stored: StoredDecision) -> Sequence[dict[str, Any]]:
    """One JSON dict for each subtask; the rest is in the exchange, under the decision's digest."""
    decision = stored.decision
    return [
        {
            "index": subtask.index,
            "subtasks": decision.parallelism,
            "decision": stored.digest,
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
    part = f" of {subtask.hot_part.producers}" if subtask.hot_part else ""
    return f"{subtask.index}: {reads}{part}, {format_bytes(subtask.bytes)}"


def _describe(region: str, producers: Mapping[str, str]) -> str:
    """Documentation of the task in the UI."""
    before = "the bytes that " + ", ".join(f"`{task_id}`" for task_id in producers.values()) + " reported"
    found = "and any files that it reads" if producers else "the files that it reads, as they are on the day"
    rests_on = f"{before} {found}" if producers else found
    return (
        f"Decides how many subtasks **{region}** gets, and which range each of them reads, from {rests_on}.\n\n"
        "The fewest consecutive ranges that keep `target_bytes` each, within `min_parallelism` and `max_parallelism`; "
        "cut to about equal bytes. The reason and every bound that changed the number are in this task's log, in "
        "`airflow-abs explain`, and on the run's tab *Adaptive plan*."
    )
