"""Which inputs Spark would broadcast: those that the author's hints name, and those that come from small sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.spark.compile.contracts import set_conf
from airflow_abs.spark.compile.vertices import CompiledVertex
from airflow_abs.spark.proof.markers import PREFIX
from airflow_abs.spark.proof.prover import Prover, marker_name
from airflow_abs.spark.template import find_placeholders, messages_of

THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"

SourceBytes = Callable[[str], int | None]
"""What the files of a vertex's source hold today; None if that is not known."""

_HINTS = ("BROADCAST", "BROADCASTJOIN", "MAPJOIN")
_WITH_HINTS = {
    "spark.sql.optimizer.disableHints": "false",
    # The server keeps what it analysed by the relation alone: proofs would see these hints, or we theirs without any.
    "spark.connect.session.planCache.enabled": "false",
}
_SIZE = re.compile(r"(-?\d+)\s*([bkmgtp]?)b?", re.IGNORECASE)
_POWERS = "bkmgtp"
_RESOLVED = re.compile(r"^([ :+|-]*)ResolvedHint \(strategy=broadcast", re.MULTILINE)
_MARKER = re.compile(rf"{PREFIX}\w+")


def hinted_placeholders(prover: Prover, vertex: CompiledVertex) -> frozenset[str]:
    """The placeholders below ``F.broadcast(...)`` and SQL's ``/*+ BROADCAST(c) */``, which Spark resolves."""
    found: set[str] = set()
    in_sql = False
    for message in messages_of(vertex.relation):
        kind = message.DESCRIPTOR.name
        if kind == "Hint" and message.name.upper() in _HINTS:
            found |= find_placeholders(message.input)
        in_sql = in_sql or (kind == "SQL" and "/*+" in message.query)
    if in_sql:
        named = set(_markers_below_hints(_analysed(prover, vertex)))
        found |= {each for each in find_placeholders(vertex.relation) if marker_name("divided", each) in named}
    return frozenset(found)


def read_threshold(vertex: CompiledVertex, default: str) -> int:
    """Bytes up to which Spark broadcasts one side of a join by itself, `default` in other sessions; below 0: never."""
    text = vertex.spark_conf.get(THRESHOLD) or default
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * 1024 ** _POWERS.index(found[2].lower() or "b") if found else -1


def bytes_behind(graph: JobGraph, vertex: str, source_bytes: SourceBytes) -> int | None:
    """What all sources hold together that a vertex's rows come from; None if one of them is not known."""
    waiting, seen, total = [vertex], {vertex}, 0
    while waiting:
        name = waiting.pop()
        if graph.vertex(name).has_source:
            size = source_bytes(name)
            if size is None:
                return None
            total += size
        before = {edge.producer for edge in graph.inputs_of(name)} - seen
        seen |= before
        waiting.extend(before)
    return total


def _analysed(prover: Prover, vertex: CompiledVertex) -> str:
    with set_conf(prover.session, vertex.name, _WITH_HINTS):
        text = prover.explain(vertex.name, prover.relation(vertex), "extended")
    return text.partition("== Analyzed Logical Plan ==")[2].partition("\n\n== ")[0]


def _markers_below_hints(tree: str) -> Iterator[str]:
    """Whatever stands deeper than a hint, up to the next line that does not."""
    for hint in _RESOLVED.finditer(tree):
        for line in tree[hint.end() :].splitlines()[1:]:
            depth = len(line) - len(line.lstrip(" :+|-"))
            if depth <= len(hint[1]):
                break
            yield from _MARKER.findall(line)
