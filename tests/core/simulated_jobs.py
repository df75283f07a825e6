"""Recorded jobs with declared sizes and times, for the tests of the simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_abs.core.decide.region_decision import decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions, SourceInput
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.simulate.cost import Costs
from airflow_abs.core.simulate.recorded_job import RecordedJob, RecordedRegion, RecordedResult
from airflow_abs.core.simulate.simulation import region_work
from airflow_abs.core.simulate.slot_schedule import schedule

Rows = Sequence[Sequence[int]]


def make_region(
    name: str,
    *,
    files: Sequence[int] = (),
    reads: Mapping[str, tuple[Partitioning, Rows]] | None = None,
    writes: int = 0,
    sink: bool = False,
    **options: Any,
) -> RecordedRegion:
    """`reads` are bytes by producer region, its subtask and subpartition. Times are unknown."""
    inputs = [BlockingInput(f"{name}.{producer}", how, rows) for producer, (how, rows) in (reads or {}).items()]
    sources = [SourceInput(f"{name}.source", list(files))] if files else []
    given = RegionOptions(**{"target_bytes": 1000, "max_parallelism": 8, "slots": 2, **options})
    return RecordedRegion(
        decision=decide_region(name, inputs, sources, given),
        inputs=tuple(inputs),
        sources=tuple(sources),
        producers={f"{name}.{producer}": producer for producer in reads or {}},
        results=(RecordedResult(f"{name}.r", writes, 1 if sink else 8, sink),) if writes else (),
        shuffles=bool(reads),
    )


def sales_job(**options: Any) -> RecordedJob:
    """`orders` of 3 files and `customers` of one, broadcast; `joined` of both by 8 subpartitions; `totals`, a sink.

    The decisions: 3 subtasks (3000 bytes over 1000), 1, 4 (2600 over 1000 -> 3; two waves of 2 slots are filled) and 2.
    """
    cells = [100, 300, 200, 150, 250, 100, 300, 100]
    orders = make_region("orders", files=(1500, 900, 600), writes=2600, **options)
    customers = make_region("customers", files=(300,), writes=200, **options)
    joined = make_region(
        "joined",
        reads={
            "orders": (Partitioning.HASH, [cells, [50, 200, 100, 150, 250, 100, 100, 150], [0] * 8]),
            "customers": (Partitioning.BROADCAST, [[200]]),
        },
        writes=1600,
        **options,
    )
    totals = make_region(
        "totals", reads={"joined": (Partitioning.HASH, [[50] * 8] * 4)}, writes=40, sink=True, **options
    )
    return RecordedJob("dag/run/job", (orders, customers, joined, totals))


def timed(job: RecordedJob, costs: Costs, slots: int = 2) -> RecordedJob:
    """The job as if it had run with exactly these costs. Only starts and the last end of a region count in a fit."""
    work = [region_work(region, region.decision, costs, slots) for region in job.regions]
    spans = schedule(work, slots)
    regions = []
    for region in job.regions:
        span = spans[region.name]
        starts = tuple(span.start + index * costs.interval for index in range(region.decision.parallelism))
        seconds = tuple(max(0.01, span.end - start) for start in starts)
        regions.append(replace(region, starts=starts, seconds=seconds))
    return RecordedJob(job.name, tuple(regions))
