"""Graphs as text: Graphviz's dot for a run or a declared job, and lines for a job that has not run."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_abs.core.graph.job_graph import JobGraph, Region
from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.exchange.runs.run_view import RegionView, RunView


def run_to_dot(run: RunView) -> str:
    """Regions as nodes with their number of subtasks, edges with partitioning and bytes."""
    name = f"{run.folder.dag_id}/{run.folder.run_id}/{run.folder.job}"
    nodes = [_node(region.name, [region.title, _parallelism(region), _rows(region)]) for region in run.regions]
    edges = []
    for region in run.regions:
        for edge in region.edges:
            label = edge.how if edge.bytes is None else f"{edge.how}, {format_bytes(edge.bytes)}"
            origin = edge.producer if edge.producer is not None else edge.path or edge.name
            edges.append(f"  {_quote(origin)} -> {_quote(region.name)} [label={_quote(label)}];")
        edges += [
            f"  {_quote(region.name)} -> {_quote(sink.label)} [label={_quote('sink')}];"
            for sink in region.planned.sinks
        ]
    return _digraph(name, [*nodes, *edges])


def job_to_dot(name: str, graph: JobGraph) -> str:
    """Vertices in boxes by region; dashed edges stay inside a Spark plan, solid ones go through the exchange."""
    lines = []
    for number, region in enumerate(graph.regions):
        lines.append(f"  subgraph cluster_{number} {{ label={_quote(region.name)};")
        lines += [f"    {_quote(vertex)};" for vertex in region.vertices]
        lines.append("  }")
    for edge in graph.edges:
        style = "solid" if graph.crosses_regions(edge) else "dashed"
        label = _quote(edge.how)
        lines.append(f"  {_quote(edge.producer)} -> {_quote(edge.consumer)} [label={label}, style={style}];")
    return _digraph(name, lines)


def job_lines(graph: JobGraph) -> list[str]:
    """A declared job in words: one paragraph per region, in the order in which they can run."""
    lines: list[str] = []
    for number, region in enumerate(graph.regions, start=1):
        lines += [f"  {number}. {' → '.join(region.vertices)}: {_promise(region)}"]
        lines += [f"       reads the source of {name}" for name in region.vertices if graph.vertex(name).has_source]
        lines += [f"       {edge}" for edge in region.inputs]
        lines += [f"       {edge} inside one Spark plan" for edge in region.inner]
        lines += [
            f"       expects {', '.join(expected)} of {name}"
            for name in region.vertices
            if (expected := graph.vertex(name).expectations)
        ]
        lines += [f"       publishes the sink of {name}" for name in region.vertices if graph.vertex(name).has_sink]
    return lines


def _promise(region: Region) -> str:
    if region.single_subtask_reason:
        return f"1 subtask, because {region.single_subtask_reason}"
    if region.parallelism is not None:
        return f"{format_count(region.parallelism, 'subtask')}, set by the author"
    return f"1 to {format_count(region.subpartitions, 'subtask')}, decided on the day"


def _parallelism(region: RegionView) -> str:
    return format_count(region.decision.parallelism, "subtask") if region.decision else "?"


def _rows(region: RegionView) -> str:
    return "" if region.rows is None else format_count(region.rows, "row")


def _node(name: str, lines: Iterable[str]) -> str:
    label = _quote("\n".join(line for line in lines if line))
    return f"  {_quote(name)} [shape=box, label={label}];"


def _digraph(name: str, lines: Iterable[str]) -> str:
    return "\n".join([f"digraph {_quote(name)} {{", "  rankdir=LR;", *lines, "}"])


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
