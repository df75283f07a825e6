"""Where the seconds of a run went, as far as its exchange knows: Spark's operations, and everything between them."""

from __future__ import annotations

from airflow_abs.core.timeline.account import account, describe_account
from airflow_abs.core.timeline.critical_path import Kind, Phase, Span, find_critical_path
from airflow_abs.core.timeline.slot_waits import find_full, split_wait
from airflow_abs.exchange.runs.run_view import RegionView, RunView

_BETWEEN = "planning, deciding and Airflow"


def describe_seconds(run: RunView) -> str | None:
    """From the start of `plan` to the end of the last subtask: ``17.2 s: 6.1 s Spark in enriched[2], ...``.

    None if `plan` did not say when it began, or no subtask when it was on Spark.
    """
    operations = [
        (each.began, each.began + (each.seconds or 0.0))
        for region in run.regions
        for each in region.subtasks
        if each.began is not None and not each.is_stale
    ]
    if run.plan.began is None or not operations:
        return None
    full = find_full(operations, run.plan.slots) if run.plan.slots else ()
    spans = [span for region in run.regions for span in _spans(region, full)]
    end = max(end for _, end in operations)
    path = find_critical_path(spans, run.plan.began, end, between=_BETWEEN)
    return describe_account(account(path)) or None


def _spans(region: RegionView, full: tuple[tuple[float, float], ...]) -> list[Span]:
    after = tuple(dict.fromkeys(edge.producer for edge in region.edges if edge.producer is not None))
    ready = region.stored.measured_at if region.stored else None
    found = []
    for each in region.subtasks:
        if each.began is None or each.is_stale:
            continue
        name, waited = f"{region.name}[{each.index}]", split_wait(ready or each.began, each.began, full, Kind.TASK, "")
        slots = (phase for phase in waited if phase.kind is Kind.SLOTS)
        spark = Phase(Kind.SPARK, f"Spark in {name}", each.began, each.began + (each.seconds or 0.0))
        found.append(Span(name, region.name, after, (*slots, spark)))
    return found
