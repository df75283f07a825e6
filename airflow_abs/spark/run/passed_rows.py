"""How many rows passed the edges inside one Spark operation, by the metrics that Spark keeps of its plan anyway.

The executed plan knows no vertices, and a marker in it would stop filters that Spark pushes into sources, and its
generated code. So the plan is explained with markers (`stage_order.explain_marked`), and both plans are compared by
their landmarks: the operators that make rows (scans, joins, aggregates, ...), not those that pass on, filter, sort or
move them. Where all landmarks agree, in order and in what they read, the rows of a vertex are those that leave its
first landmark, behind the filters of the step that reads them. Nothing is guessed: where they differ, nothing is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_abs.exchange.records.manifest import PassedRows
from airflow_abs.spark.proof.explained import Operator, UnreadablePlanError, read_plan
from airflow_abs.spark.run.stage_order import MARKER, find_owner

_NAMES = """
    Project Filter Sort Coalesce ColumnarToRow RowToColumnar Exchange BroadcastExchange AQEShuffleRead CollectMetrics
    AdaptiveSparkPlan InputAdapter ShuffleQueryStage BroadcastQueryStage ResultQueryStage WriteFiles
"""
_PASSING = frozenset(_NAMES.split())
"""One input, and a row of it is at most one row of theirs."""
_SAME = {
    name: kind
    for kind, names in (
        ("join", "SortMergeJoin BroadcastHashJoin ShuffledHashJoin BroadcastNestedLoopJoin CartesianProduct"),
        ("aggregate", "HashAggregate ObjectHashAggregate SortAggregate"),
    )
    for name in names.split()
}
"""Spark chooses between these while it runs."""
_ROWS = {"Exchange": "shuffle records written"}
_ROWS_OUT = "number of output rows"
_MOVED = {"Exchange": "shuffled", "BroadcastExchange": "broadcast"}
_BYTES = "shuffle bytes written"
"""Of a broadcast Spark knows only the pages of memory that its table takes: 64 MiB for a few rows."""
_UNITS = {unit: 1024**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB"))}
_SIZE = re.compile(r"(\d[\d,.]*) (B|KiB|MiB|GiB|TiB|PiB)\b")
_ADDED = re.compile(r"( \(\d+\)), .*$")
"""What stands behind the number: statistics, or what Spark changed."""
_NUMBER = re.compile(r" \((\d+)\)$")
_HEADER = re.compile(r"\((\d+)\) \S")
_FINAL, _INITIAL = "== Final Plan ==", "== Initial Plan =="


class UnmatchedPlanError(ValueError):
    """The plan as it ran is not the plan with markers; says in a few words what differs."""


@dataclass(slots=True)
class _Node:
    """An operator of the executed plan, with Spark's metrics as it shows them."""

    name: str
    metrics: Mapping[str, str]
    children: list[_Node] = field(default_factory=list)


@dataclass(slots=True)
class _Landmark:
    """What makes rows; `leaving` are the passing nodes above it, the nearest first, and `reader` is the landmark above
    those."""

    kind: str
    node: _Node
    leaving: list[_Node]
    reader: _Landmark | None = None


def find_passed(explained: str, inlined: Mapping[str, str], execution: Mapping[str, Any]) -> dict[str, PassedRows]:
    """The rows of each vertex that Spark has counted, by vertex.

    Args:
        explained: the plan with markers, as `explain("formatted")` shows it.
        inlined: see `PlannedStep`.
        execution: what Spark's REST API tells of the operation: `planDescription`, `nodes`, `edges`.

    Raises:
        UnmatchedPlanError: see there.
    """
    try:
        marked, final = read_plan(explained), read_plan(_final_plan(execution["planDescription"]))
    except UnreadablePlanError as error:
        raise UnmatchedPlanError("Spark's plan cannot be read") from error
    if marked.subqueries:
        raise UnmatchedPlanError("its plan has subqueries")
    places: dict[str, list[int]] = {}
    expected = list(_landmarks_of(marked.root, inlined, places))
    ran = _landmarks_that_ran(_read_graph(execution))
    if [each.kind for each in ran] != [kind for kind, _ in expected]:
        raise UnmatchedPlanError("Spark changed its plan while it ran")
    if [reads for _, reads in expected] != [reads for _, reads in _landmarks_of(final.root, inlined, {})]:
        raise UnmatchedPlanError("Spark changed its plan while it ran")
    last = {found[0]: vertex for vertex, found in reversed(places.items())}  # of each landmark the outermost vertex
    counted = {
        vertex: _count(ran[found[0]], is_last=last[found[0]] == vertex)
        for vertex, found in places.items()
        if len(found) == 1
    }
    return {vertex: passed for vertex, passed in counted.items() if passed is not None}


def _kind(name: str) -> str:
    first = name.split(" ", 1)[0].partition("(")[0]  # without what `SortMergeJoin(skew=true)` adds
    return _SAME.get(first, first)


def _passes(name: str, inputs: int) -> bool:
    return inputs == 1 and (_kind(name) in _PASSING or name.startswith("Execute "))


def _landmarks_of(
    operator: Operator, inlined: Mapping[str, str], places: dict[str, list[int]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Kind, and what it reads, from left to right; `places` gets the number of each vertex' first one."""
    waiting, number, owners = [operator], 0, list[str]()
    while waiting:
        operator = waiting.pop()
        if operator.name == MARKER and (owner := find_owner(operator, inlined)):
            owners.append(owner)
        if not _passes(operator.name, len(operator.children)):
            for owner in owners:
                places.setdefault(owner, []).append(number)
            owners = []
            yield _kind(operator.name), (operator.detail("Location"), operator.detail("ReadSchema"))
            number += 1
        waiting += reversed(operator.children)


def _final_plan(description: str) -> str:
    """The final plan of an operation as an explanation of its own."""
    lines = description.splitlines()
    begin = next((number for number, line in enumerate(lines) if line.strip(" :+-|") == _FINAL), None)
    end = next((number for number, line in enumerate(lines) if line.strip(" :+-|") == _INITIAL), None)
    if begin is None or end is None or end < begin:
        raise UnreadablePlanError("no final plan")
    tree = [_ADDED.sub(r"\1", line) for line in lines[begin + 1 : end]]
    least = min((len(line) - len(line.lstrip(" :+-|")) for line in tree), default=0)
    tree = [line[least:] for line in tree]
    numbers = {match[1] for line in tree if (match := _NUMBER.search(line))}
    after = lines.index("", end) if "" in lines[end:] else len(lines)
    details, kept = list[str](), False
    for line in lines[after:]:
        if match := _HEADER.match(line):
            kept = match[1] in numbers
        if kept or not line:
            details.append(line)
    return "\n".join(["== Physical Plan ==", *tree, "", *details])


def _read_graph(execution: Mapping[str, Any]) -> _Node:
    nodes = {
        each["nodeId"]: _Node(each["nodeName"].strip(), {one["name"]: one["value"] for one in each.get("metrics", ())})
        for each in execution["nodes"]
        if not each["nodeName"].startswith("WholeStageCodegen")
    }
    below = set()
    for edge in execution["edges"]:  # in the order of the inputs
        nodes[edge["toId"]].children.append(nodes[edge["fromId"]])
        below.add(edge["fromId"])
    roots = [node for number, node in nodes.items() if number not in below]
    if len(roots) != 1:
        raise UnmatchedPlanError("Spark's plan cannot be read")
    return roots[0]


def _landmarks_that_ran(root: _Node) -> list[_Landmark]:
    found: list[_Landmark] = []
    waiting: list[tuple[_Node, list[_Node], _Landmark | None]] = [(root, [], None)]
    while waiting:
        node, above, reader = waiting.pop()
        if _passes(node.name, len(node.children)):
            waiting.append((node.children[0], [node, *above], reader))
            continue
        found.append(_Landmark(_kind(node.name), node, above, reader))
        waiting += [(child, [], found[-1]) for child in reversed(node.children)]
    return found


def _count(landmark: _Landmark, *, is_last: bool) -> PassedRows | None:
    """The last count on the way up is of the rows that the next step gets.

    If that step groups them where they are, its own count is of what a written edge could carry instead.
    """
    rows: int | None = None
    size: int | None = None
    how = "passed on"
    for node in [landmark.node, *landmark.leaving]:
        kind = _kind(node.name)
        told = node.metrics.get(_ROWS.get(kind, _ROWS_OUT))
        rows = _read_count(told) if told is not None else rows
        how = _MOVED.get(kind, how)
        size = _read_size(node.metrics[_BYTES]) if _BYTES in node.metrics else size
    if rows is None:
        return None
    groups = landmark.reader if is_last and how == "passed on" else None
    told = groups.node.metrics.get(_ROWS_OUT) if groups is not None and groups.kind == "aggregate" else None
    return PassedRows(rows, size, how, None if told is None else _read_count(told))


def _read_count(text: str) -> int | None:
    digits = text.replace(",", "")
    return int(digits) if digits.isdecimal() else None


def _read_size(text: str) -> int | None:
    """The first size of ``total (min, med, max (stageId: taskId))`` and what follows it; Spark rounds it."""
    found = _SIZE.search(text.partition("\n")[2] or text)
    return None if found is None else round(float(found[1].replace(",", "")) * _UNITS[found[2]])
