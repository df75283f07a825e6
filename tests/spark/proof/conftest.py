"""One vertex between declared inputs, compiled and proved on the suite's shared server."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import compile_vertices
from airflow_abs.spark.proof import Proof, prove_vertices
from tests.job_runner import program_of

SCHEMAS = {
    "orders": "customer INT, region STRING, amount DOUBLE, id BIGINT",
    "customers": "customer INT, name STRING, region STRING",
    "longs": "customer BIGINT, note STRING",
    "rates": "customer INT, rate DOUBLE",
    "events": "customer INT, region STRING, amount DOUBLE, id BIGINT",
    "weights": "amount DOUBLE, label STRING",
    "scales": "amount DOUBLE, factor INT",
    "pairs": "region STRING, customer INT, total DOUBLE",
    "others": "region STRING, customer INT, total DOUBLE",
    "plans": "customer INT, day INT, goal INT",
    "visits": "customer INT, day INT, seconds INT",
}
EDGES = {
    "orders": (Partitioning.HASH, ("customer",)),
    "customers": (Partitioning.HASH, ("customer",)),
    "longs": (Partitioning.HASH, ("customer",)),
    "rates": (Partitioning.BROADCAST, ()),
    "events": (Partitioning.REBALANCE, ()),
    "weights": (Partitioning.HASH, ("amount",)),
    "scales": (Partitioning.HASH, ("amount",)),
    "pairs": (Partitioning.HASH, ("region", "customer")),
    "others": (Partitioning.HASH, ("region", "customer")),
    "plans": (Partitioning.HASH, ("customer",)),
    "visits": (Partitioning.HASH, ("day",)),
}
Transform = Callable[..., Any]


def prove_step(session: Any, transform: Transform, **vertex: Any) -> Proof:
    """Prove a vertex ``step`` whose inputs are those of `SCHEMAS` that the transform's parameters name.

    A parameter ``source`` is the vertex's own. `vertex` are arguments of `JobVertex`, and
    `per_subtask`, `expectations`, `join` and `spark_conf`.
    """
    per_subtask = ["step"] if vertex.pop("per_subtask", False) else []
    own = {name: vertex.pop(name) for name in ("expectations", "join", "spark_conf") if name in vertex}
    names = [name for name in inspect.signature(transform).parameters if name != "source"]
    source = (
        Files("/nowhere", schema=SCHEMAS["orders"]) if "source" in inspect.signature(transform).parameters else None
    )
    graph = build_job_graph(
        [
            *(JobVertex(name, has_source=True) for name in names),
            JobVertex("step", has_source=source is not None, has_sink=True, **vertex),
        ],
        [JobEdge(name, "step", name, *EDGES[name]) for name in names],
        128,
    )
    programs = [program_of(name, None, {}, Files("/nowhere", schema=SCHEMAS[name])) for name in names]
    step = program_of("step", transform, {}, source, Files("/out"), **own)
    compiled = compile_vertices(session, graph, {program.name: program for program in (*programs, step)})
    return prove_vertices(session, graph, compiled, per_subtask)["step"]


@pytest.fixture
def prove(session: Any) -> Callable[..., Proof]:
    def prove(transform: Transform, **vertex: Any) -> Proof:
        return prove_step(session, transform, **vertex)

    return prove


@pytest.fixture
def refusal(session: Any) -> Callable[..., str]:
    """The message with which a transform is refused."""

    def refusal(transform: Transform, **vertex: Any) -> str:
        with pytest.raises(JobGraphError) as caught:
            prove_step(session, transform, **vertex)
        return str(caught.value)

    return refusal
