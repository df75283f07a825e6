"""Proves a composition as the one step of a job, and runs the very plan that was proved: on the whole, and in parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import CompiledVertex, compile_vertices
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.proof import prove_vertices
from airflow_abs.spark.relations import Relation, coalesce, sql_expression
from airflow_abs.spark.template import bind
from tests.job_runner import program_of
from tests.proof.compositions import LEFT, RIGHT, Composition, split_rows

CONF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.ansi.enabled": "false",  # text is compared with numbers: NULL, not an error
    # A few dozen rows: what a plan costs is its compilation and its stages.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
COLUMNS = {"left": LEFT, "right": RIGHT}
ROWS = {
    "left": [(n % 5 or None, n % 3, "xyz"[n % 3] if n % 4 else None, n) for n in range(24)],
    "right": [(n % 4 or None, n % 2, "xyw"[n % 3], n % 6) for n in range(14)],
}
STEP = "step"
_IS_PART = "is_part__"


@dataclass(slots=True)
class CompositionBench:
    """A session that is set to `CONF`."""

    session: Any
    _schemas: dict[str, Any] = field(default_factory=dict)

    def compile(self, composition: Composition) -> tuple[JobGraph, dict[str, CompiledVertex]]:
        inputs = {"left": composition.left, "right": composition.right}
        graph = build_job_graph(
            # One subtask each, of which there is nothing to prove.
            [*(JobVertex(name, has_source=True, parallelism=1) for name in inputs), JobVertex(STEP)],
            [JobEdge(name, STEP, name, each.partitioning, each.names(COLUMNS[name])) for name, each in inputs.items()],
            128,
        )
        programs = {name: program_of(name, None, {}, Files("/-", schema=_ddl(COLUMNS[name]))) for name in inputs}
        programs[STEP] = program_of(STEP, composition, {})
        return graph, compile_vertices(self.session, graph, programs)

    def prove(self, composition: Composition) -> CompiledVertex:
        """The step.

        Raises:
            JobGraphError: it is refused.
        """
        graph, compiled = self.compile(composition)
        prove_vertices(self.session, graph, compiled)
        return compiled[STEP]

    def run(self, composition: Composition, step: CompiledVertex, parts: int) -> tuple[Any, Any]:
        """The rows of the whole, and those that `parts` subtasks give together; one request."""
        import pyarrow.compute as pc

        dealt = {
            "left": split_rows(ROWS["left"], LEFT, composition.left, parts),
            "right": split_rows(ROWS["right"], RIGHT, composition.right, parts),
        }
        runs = [self._bound(step, ROWS, is_part=False)]
        runs += [self._bound(step, {name: dealt[name][part] for name in dealt}, is_part=True) for part in range(parts)]
        plan = protos().Plan()
        plan.root.CopyFrom(reduce(_union, runs))
        table, _, _ = self.session.client.to_table(plan, {})
        is_part = table[_IS_PART]
        rows = table.drop_columns([_IS_PART])
        return rows.filter(pc.invert(is_part)), rows.filter(is_part)

    def _bound(self, step: CompiledVertex, rows: Mapping[str, Iterable[Any]], *, is_part: bool) -> Relation:
        local = {name: partial(coalesce, self._local(name, rows[name]), 1) for name in rows}
        bound = bind(step.relation, {placeholder: local[edge.input_name] for placeholder, edge in step.inputs.items()})
        proto = protos()
        columns = [sql_expression("*"), sql_expression(f"{str(is_part).lower()} AS {_IS_PART}")]
        return proto.Relation(project=proto.Project(input=bound, expressions=columns))

    def _local(self, name: str, rows: Iterable[Any]) -> Relation:
        if name not in self._schemas:
            self._schemas[name] = self.session.createDataFrame([], _ddl(COLUMNS[name])).schema
        frame = self.session.createDataFrame(list(rows), self._schemas[name])
        return frame._plan.to_proto(self.session.client).root


def _union(one: Relation, other: Relation) -> Relation:
    proto = protos()
    union = proto.SetOperation.SET_OP_TYPE_UNION
    return proto.Relation(set_op=proto.SetOperation(left_input=one, right_input=other, set_op_type=union, is_all=True))


def _ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
