"""Proves, vertex by vertex, which inputs may have a hot subpartition cut into parts that several subtasks share.

A part has some rows of one input in a subpartition, and all that the other partitioned inputs have there. Is a vertex
right on such parts? It is asked of the plan that its proof was given already, with another distribution of its inputs:
would it be right if the one input were spread in any way, and every subtask had all rows of the other partitioned
ones? Spark is asked nothing, so the answer takes no request.

Why that is enough: let `f(A, B, S)` be the rows of the vertex, of hash inputs A and B and of what is divided in any way
(S: sources, rescale inputs). The first proof says that a subtask may have any subpartitions, so one by itself, with
any rows of S: `f(A, B, S)` is all `f(A_j, B_j, S_j)` together. The second one holds for any tables, so for `A_j`, `B_j`
and `S_j` as if they were all there is: `f(A_j, B_j, S_j)` is all `f(A_jp, B_j, S_jp)` together, for any parts p.
Nothing in it speaks of keys: a row whose key is NULL is in one subpartition like any other, and its part sees the same
other rows as the whole subpartition. A join that keeps rows of A sees the whole `B_j`, where by the first proof all
rows are that could match; one that keeps rows of B (a right or full join) would give these once for each part, and is
refused like one that keeps rows of a broadcast input. Two inputs that read one result (a self-join) are two tables
here: the one is cut, the other is read whole. An input that the transform reads twice is cut in both places, and a join
of its rows with each other is refused.

What looks at several rows of the input at once is refused, whatever its keys: aggregates, windows, functions of groups
and over partitions. So are values that are no function of the rows: each part would draw its own for the other inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_abs.core.expect.expectations import unique_keys
from airflow_abs.core.graph.job_graph import Region
from airflow_abs.core.graph.partitioning import PARTITIONED
from airflow_abs.spark.non_repeatable import find_non_repeatable
from airflow_abs.spark.proof.prover import Prover, marker_name
from airflow_abs.spark.proof.refusals import Refusal


def find_spreads(prover: Prover, region: Region, exempt: Mapping[str, str | None]) -> dict[str, str | None]:
    """For each partitioned input of a region, by placeholder, why its rows may not be spread; None if they may.

    Args:
        prover: of the graph, which has checked the region's vertices.
        region: what its subtasks run together: all of its vertices have to be right.
        exempt: by vertex why it was not checked, None if it was.
    """
    partitioned = {
        marker_name("divided", placeholder): placeholder
        for name in region.vertices
        for placeholder, edge in prover.compiled[name].inputs.items()
        if edge.partitioning in PARTITIONED
    }
    why = next((why for name in region.vertices if (why := _unfit(prover, name, exempt[name])) is not None), None)
    if why is not None:
        return dict.fromkeys(partitioned.values(), why)
    return {
        placeholder: _refusal(prover, region, marker, partitioned.keys() - {marker})
        for marker, placeholder in partitioned.items()
    }


def _unfit(prover: Prover, name: str, exempt: str | None) -> str | None:
    vertex = prover.compiled[name]
    if exempt is not None:
        return exempt
    if values := find_non_repeatable(vertex.relation):
        return f"{values[0].function}() would be another value in each part"
    if keys := unique_keys(vertex.expectations):
        return f"the expectation {keys[0].name!r} needs all rows of a key in one subtask"
    return None


def _refusal(prover: Prover, region: Region, spread: str, whole: Collection[str]) -> str | None:
    for name in region.vertices:
        try:
            prover.check_spread(name, spread, whole)
        except Refusal as refusal:
            return f"{refusal.what}{prover.lines(name, refusal)} {refusal.why}"
    return None
