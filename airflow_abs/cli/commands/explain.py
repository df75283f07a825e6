"""`airflow-abs explain`: a run from its exchange alone, or the graph of a DAG file before anything ran."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from airflow_abs.cli.commands.runs import find_folders
from airflow_abs.cli.output.graph_text import run_to_dot
from airflow_abs.cli.output.tables import Block, Column, Table, show
from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.exchange.results.waiting import read_waiting
from airflow_abs.exchange.runs.run_account import describe_seconds
from airflow_abs.exchange.runs.run_json import run_to_json
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.runs.run_view import EdgeView, RegionView, RunView, SubtaskView

SHOWN_SUBTASKS = 8
_SUBTASK_COLUMNS = (
    Column("subtask", is_number=True),
    Column("reads"),
    Column("bytes", is_number=True),
    Column("rows", is_number=True),
    Column("bytes out", is_number=True),
    Column("seconds", is_number=True),
    Column("attempt", is_number=True),
    Column("state"),
)
_REGION_COLUMNS = (
    Column("vertex"),
    Column("bytes in", is_number=True),
    Column("subtasks", is_number=True),
    Column("max/mean", is_number=True),
    Column("rows", is_number=True),
    Column("bytes out", is_number=True),
    Column("seconds", is_number=True),
    Column("attempts", is_number=True),
    Column("why"),
)


def explain_run(name: str, exchange: str | None, form: str, *, every_subtask: bool = False) -> int:
    """Print what was planned, decided and done; `form` is text, json or dot. The exit status."""
    runs = [read_run(folder) for folder in find_folders(name, exchange)]
    match form:
        case "json":
            told: list[dict[str, Any]] = [run_to_json(run) for run in runs]
            print(json.dumps(told[0] if len(told) == 1 else told, indent=2))
        case "dot":
            print("\n".join(run_to_dot(run) for run in runs))
        case _:
            show([block for run in runs for block in describe_run(run, every_subtask=every_subtask)])
    return 0


def describe_run(run: RunView, *, every_subtask: bool = False) -> list[Block]:
    """A table of all regions, then each region with what it rests on and its subtasks."""
    options = run.plan.options
    target = format_bytes(options.target_bytes) + (" or more" if options.most_waves else "")
    where = f"{run.folder.dag_id} / {run.folder.run_id} / {run.folder.job}"
    facts = f"target {target} per subtask, strategy {options.strategy}, Spark {run.plan.spark_version}"
    slots = f", {format_count(run.plan.slots, 'slot')}" if run.plan.slots else ""
    seconds = describe_seconds(run)
    account = [f"seconds {seconds}"] if seconds else []
    regions = Table(_REGION_COLUMNS, [_region_row(region) for region in run.regions])
    blocks: list[Block] = [where, f"{facts}{slots}", *account, "", regions]
    for region in run.regions:
        blocks += ["", *_describe_region(region, every_subtask=every_subtask), *_waiting(run, region)]
    return blocks


def _waiting(run: RunView, region: RegionView) -> list[str]:
    """What its operations want and the cluster does not have."""
    if region.stored is None or region.committed == len(region.subtasks):
        return []
    what = read_waiting(run.folder, region.name, region.stored.digest, time.time())
    return [f"  waiting for resources: {what}"] if what else []


def _describe_region(region: RegionView, *, every_subtask: bool) -> list[Block]:
    decision = region.decision
    if decision is None:
        lines = [f"{region.title}: not decided yet, at most {format_count(region.planned.subpartitions, 'subtask')}"]
        return [*lines, *_edge_lines(region.edges), *_durability(region), *_expected(region), *_problems(region)]
    blocks: list[Block] = [f"{region.title}: {decision.reason}"]
    blocks.append(
        f"  rule {decision.rule}, target {format_bytes(decision.options.target_bytes)}, {decision.options.bounds}"
    )
    blocks += [f"  bound {clamp}" for clamp in decision.clamps]
    blocks += [f"  strange: {line}" for line in region.strange]
    blocks += _durability(region)
    declared = [edge for edge in region.edges if edge.keys and not edge.inferred]
    keys = {edge.name: f", by {', '.join(edge.keys)}" for edge in declared}
    blocks += [f"  {entry}{keys.get(entry.name, '')}" for entry in decision.inputs]
    blocks += [f"  writes {sink.label}" for sink in region.planned.sinks]
    blocks += [*_expected(region), *_prediction(region), *_skew(region), *_hot_key(region)]
    shown = region.subtasks if every_subtask else region.subtasks[:SHOWN_SUBTASKS]
    blocks.append(Table(_SUBTASK_COLUMNS, [_subtask_row(subtask) for subtask in shown]))
    if hidden := len(region.subtasks) - len(shown):
        blocks.append(f"  ... and {format_count(hidden, 'more subtask')}; --all shows them")
    return [*blocks, *_problems(region)]


def _edge_lines(edges: Sequence[EdgeView]) -> list[str]:
    return [
        f"  source {edge.path}" if edge.kind == "source" else f"  input {edge.name} ({edge.how}) from {edge.vertex}"
        for edge in edges
    ]


def _expected(region: RegionView) -> list[str]:
    """What came of the expectations so far; before that, what they are."""
    told = {(verdict.vertex, verdict.expectation.name) for verdict in region.verdicts}
    waiting = [
        f"  {vertex} expects {entry.name} ({entry.what})"
        for vertex, entry in region.expectations
        if (vertex, entry.name) not in told
    ]
    return [*(f"  {verdict}" for verdict in region.verdicts), *waiting]


def _prediction(region: RegionView) -> list[str]:
    """One line: what was predicted, and what came."""
    if (predicted := region.predicted) is None:
        return []
    source = "earlier runs" if predicted.from_history else "the defaults"
    came = f"; took {_seconds(region.took)} s" if region.took is not None else ""
    wrote = f" and wrote {format_bytes(region.bytes_out)}" if came and region.bytes_out is not None else ""
    said = f"{_seconds(predicted.seconds)} s and {format_bytes(predicted.output_bytes)}"
    return [f"  predicted {said} from {source}{came}{wrote}"]


def _skew(region: RegionView) -> list[str]:
    """One line, if one subpartition is far above the mean: no cut can help there."""
    sizes = region.bytes_by_subpartition
    held = [size for size in sizes if size]
    if len(held) < 2:
        return []
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    over = sizes[largest] * len(held) / sum(held)
    if over < 2:
        return []
    size = format_bytes(sizes[largest])
    return [
        f"  skew: subpartition {largest} holds {size}, {over:.1f} times the mean of the {len(held)} that are not empty"
    ]


def _hot_key(region: RegionView) -> list[str]:
    if region.hot_key is None:
        return []
    return [f"  hot key: {region.hot_key.describe()}", f"    {region.hot_key_advice}"]


def _durability(region: RegionView) -> list[str]:
    orders = [f"  rows of {edge.name} {edge.order}" for edge in region.edges if edge.order]
    hot = [f"  hot keys of {edge.name} {edge.hot_keys}" for edge in region.edges if edge.hot_keys]
    broadcast = [f"  {region.planned.broadcast_join}"] if region.planned.broadcast_join else []
    told = hot if len(hot) > 1 else []  # of a single input that is kept whole there is nothing to choose
    return [*(f"  edge {region.describe_edge(edge)}" for edge in region.planned_edges), *broadcast, *orders, *told]


def _problems(region: RegionView) -> list[str]:
    return [f"  cannot be read: {problem}" for problem in region.problems]


def _region_row(region: RegionView) -> list[str]:
    decision = region.decision
    if decision is None:
        return [region.title, "?", "?", "?", "-", "-", "-", "-", "not decided yet"]
    return [
        region.title,
        format_bytes(region.bytes_in or 0),
        str(decision.parallelism),
        f"{decision.max_over_mean:.2f}",
        _or_dash(region.rows),
        "-" if region.bytes_out is None else format_bytes(region.bytes_out),
        _seconds(region.seconds),
        str(region.attempts or "-"),
        decision.reason,
    ]


def _subtask_row(subtask: SubtaskView) -> list[str]:
    return [
        str(subtask.index),
        subtask.reads,
        format_bytes(subtask.bytes),
        _or_dash(subtask.rows),
        "-" if subtask.bytes_out is None else format_bytes(subtask.bytes_out),
        _seconds(subtask.seconds),
        str(subtask.attempt or "-"),
        _state(subtask),
    ]


def _state(subtask: SubtaskView) -> str:
    if subtask.is_stale:
        return "of an earlier decision"
    return "committed" if subtask.is_committed else "not committed"


def _or_dash(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"
