"""A vertex as its author declared it: one record from the DAG file to `plan.json` and its readers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from airflow_abs.core.durability.demands import DeclaredDemands
from airflow_abs.core.expect.expectations import Expectation
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.settings import VertexOptions


@dataclass(frozen=True, slots=True)
class DeclaredVertex:
    """All that an author says of one vertex, but for its inputs and its function.

    Airflow renders the templates in its JSON, which is an argument of the task `plan`.

    Args:
        name: of the vertex.
        source, sink: `Files` or a table as JSON, see `to_declared`.
        sql: query of a vertex without a transform.
        transform_kwargs: JSON values for the transform's further parameters.
        expectations: of its rows.
        options: how it runs; `spark_conf` includes the job's.
        is_awaited: another task of the DAG, or another vertex by ``>>``, comes after it.
        task: a number; vertices that have the same one also have the same Airflow arguments, and may share a task.
        declaration: what `digest_declaration` gives for it in the DAG file; empty in older plans.
    """

    name: str
    source: Mapping[str, Any] | None = None
    sink: Mapping[str, Any] | None = None
    sql: str | None = None
    transform_kwargs: Mapping[str, Any] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()
    options: VertexOptions = field(default_factory=VertexOptions)
    is_awaited: bool = False
    task: int = 0
    declaration: str = ""

    def to_vertex(self) -> JobVertex:
        """The vertex of the graph."""
        return JobVertex(
            self.name,
            self.options.parallelism,
            self.options.max_parallelism,
            has_source=self.source is not None,
            has_sink=self.sink is not None,
            expectations=tuple(each.name for each in self.expectations),
        )

    def to_json(self) -> dict[str, Any]:
        """Nothing in it is copied: a path may be an XCom, which Airflow looks for by identity."""
        return {
            **{each.name: getattr(self, each.name) for each in fields(self)},
            "expectations": [asdict(each) for each in self.expectations],
            "options": asdict(self.options),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> DeclaredVertex:
        """Inverse of `to_json`."""
        expectations = tuple(map(Expectation.from_json, value["expectations"]))
        return DeclaredVertex(
            **{**value, "expectations": expectations, "options": VertexOptions(**value["options"])},
        )

    def as_recorded(self) -> DeclaredVertex:
        """For `plan.json`: an argument that Airflow rendered to no JSON value is its text."""
        return replace(self, transform_kwargs=json.loads(json.dumps(self.transform_kwargs, default=str)))


_OF_NO_ROWS = ("parallelism", "max_parallelism")
"""Options that change how a vertex runs, and never what it makes."""


def digest_declaration(vertex: DeclaredVertex, edges: Iterable[JobEdge]) -> str:
    """Hex digits that are the same as long as a DAG file says the same of a vertex' rows and where they go.

    Args:
        vertex: its templates not rendered.
        edges: all of the job.
    """
    inputs = [
        (edge.producer, edge.input_name, edge.partitioning.value, edge.keys, edge.prunes)
        for edge in edges
        if edge.consumer == vertex.name
    ]
    options = {name: value for name, value in asdict(vertex.options).items() if name not in _OF_NO_ROWS}
    says = [vertex.source, vertex.sink, vertex.sql, vertex.transform_kwargs, options, inputs]
    text = json.dumps([*says, [asdict(each) for each in vertex.expectations]], sort_keys=True, default=_lasting_text)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _lasting_text(value: Any) -> str:
    """The same in every process."""
    text = str(value)
    return type(value).__qualname__ if " at 0x" in text or isinstance(value, (set, frozenset)) else text


def find_declared_demands(vertices: Iterable[DeclaredVertex], unrepeatable: Collection[str] = ()) -> DeclaredDemands:
    """What the vertices themselves demand of durable edges; some more may be known as `unrepeatable`."""
    vertices = list(vertices)
    return DeclaredDemands(
        nondeterministic={each.name for each in vertices if not each.options.deterministic} | set(unrepeatable),
        ordered={each.name for each in vertices if each.is_awaited},
        joins={each.name for each in vertices if each.options.join is not None},
    )
