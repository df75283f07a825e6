"""Regions that are written all the same, and need no tasks of their own: on a small day each would take seconds.

Even an empty Airflow task costs a second or two (docs/evidence). So regions that are predicted to read little run in
the task of the last one. Every edge between them is a file, and a retry continues after the files that were written.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from math import inf

from airflow_abs.core.durability.demands import DaysDemands, DeclaredDemands, find_demands
from airflow_abs.core.durability.prediction import JobHistory
from airflow_abs.core.durability.rule import Conditions, EdgeDurability, decide_durability
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.core.graph.joining import JoinedGraph, join_regions
from airflow_abs.core.wording import format_bytes

SHARED_BYTES = 512 * 2**20
"""Most that a region with a shared task reads where authors set no target: some seconds of work, even of two cores,
while a `decide` and mapped tasks of its own cost about as many (docs/evidence)."""


@dataclass(frozen=True, slots=True)
class SharedTasks:
    """A graph whose regions share tasks, and for each edge between declared regions why it is a task's or not."""

    joined: JoinedGraph
    edges: tuple[EdgeDurability, ...]


def share_tasks(
    graph: JobGraph, declared: DeclaredDemands, day: DaysDemands, settings: Mapping[str, Hashable], most_bytes: int
) -> SharedTasks:
    """Join the regions that may share a task; all edges between them stay durable.

    The rule that keeps edges inside Spark says which: where nothing fails and nothing is too large it joins all that
    nothing demands to be apart. Here two things more do: a region that is predicted to read more than `most_bytes`, and
    a shared task that did not come to its end in the last run. A subtask that runs out of memory is cut into pieces,
    and a shared one cannot be.

    Args:
        graph: as declared.
        declared: what the author said of vertices. What was said of edges has no meaning: all are written.
        day: what is known on the day.
        settings: as in `Conditions`.
        most_bytes: that a region with a shared task may read.
    """
    crossing = [edge for edge in graph.edges if graph.crosses_regions(edge)]
    plain = graph.with_edges({edge: replace(edge, durable=None) for edge in crossing})
    demands = {
        **_find_unfinished(day.history),
        **_find_large(graph, day, most_bytes),
        **find_demands(plain, declared, day),
    }
    conditions = Conditions(inf, slots=1, local_bytes=sys.maxsize, demands=demands, settings=settings)
    decided = list(zip(crossing, decide_durability(plain, day.predictions, conditions), strict=True))
    joined = join_regions(graph, [edge for edge, each in decided if not each.durable], written=True)
    return SharedTasks(joined, tuple(_explain(graph, joined, edge, each, day) for edge, each in decided))


def _find_unfinished(history: JobHistory) -> dict[str, str]:
    """Reasons by name of the region; the last of those that shared a task is apart by itself."""
    ran = history.runs[-1].regions if history.runs else ()
    return {
        name: f"in the last run the task that {', '.join(each.regions)} shared did not finish"
        for each in ran
        if len(each.regions) > 1 and not each.is_whole
        for name in each.regions[:-1]
    }


def _find_large(graph: JobGraph, day: DaysDemands, most_bytes: int) -> dict[str, str]:
    """Reasons by name of the region: it, or who reads it, is worth subtasks of its own."""
    found: dict[str, str] = {}
    for region in graph.regions:
        size = day.predictions[region.name].input_bytes
        if size > most_bytes:
            most = format_bytes(most_bytes)
            why = f"{region.name} is predicted to read {format_bytes(size)}, above the {most} of a shared task's step"
            for each in (region, *graph.producer_regions(region)):
                found.setdefault(each.name, why)
    return found


def _explain(
    graph: JobGraph, joined: JoinedGraph, edge: JobEdge, decided: EdgeDurability, day: DaysDemands
) -> EdgeDurability:
    if decided.durable:
        return replace(decided, edge=edge)
    size = format_bytes(day.predictions[graph.region_of(edge.producer).name].input_bytes)
    home = joined.graph.region_of(edge.consumer).name
    return EdgeDurability(
        edge, True, f"durable, without a task of its own: it reads {size} and runs in the task of {home}"
    )
