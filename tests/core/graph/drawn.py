"""Small graphs, written as text or drawn by hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning

_PARTITIONINGS = {">": Partitioning.HASH, "-": Partitioning.FORWARD, "~": Partitioning.RESCALE}


def graph_of(edges: str, *, sinks: str = "", fixed: str = "", durable: str = "", inside: str = "") -> JobGraph:
    """`"a>c b>c"`: vertices are letters; those that nobody feeds are sources; `-` instead of `>` is a forward edge,
    `~` one that was inferred as rescale.

    `durable` and `inside` are edges, such as ``"ac bc"``, with `durable=True` and `durable=False`.
    """
    pairs = [(each[0], each[1], each[2]) for each in edges.split()]
    names = sorted({name for one, _, other in pairs for name in (one, other)})
    fed = {other for _, _, other in pairs}
    asked = dict.fromkeys(durable.split(), True) | dict.fromkeys(inside.split(), False)
    vertices = [JobVertex(n, 2 if n in fixed else None, None, n not in fed, n in sinks) for n in names]
    return build_job_graph(
        vertices,
        [
            JobEdge(
                one,
                other,
                one,
                _PARTITIONINGS[how],
                ("key",) if how == ">" else (),
                durable=asked.get(one + other),
                inferred=how == "~",
            )
            for one, how, other in pairs
        ],
        8,
    )


def draw_graph(data: st.DataObject, ways: str = ">>-") -> JobGraph:
    """Up to seven vertices, edges from earlier letters to later ones; some have sinks."""
    names = "abcdefg"
    pairs = [one + other for index, one in enumerate(names) for other in names[index + 1 :]]
    chosen = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=12, unique=True))
    edges = " ".join(f"{one}{data.draw(st.sampled_from(ways))}{other}" for one, other in chosen)
    return graph_of(edges, sinks=data.draw(st.sampled_from(["", "g", "cg", "abcdefg"])))
