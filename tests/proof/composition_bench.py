"""Proves a composition as the one step of a job, and runs the very plan that was proved: on the whole, and in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import product
from typing import Any

from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.core.sql_names import quote
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.steps import assign_results
from airflow_abs.spark.compile.vertices import CompiledVertex, compile_vertices
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.narrowing import combine_edges, narrow_vertices
from airflow_abs.spark.proof import prove_vertices
from airflow_abs.spark.relations import Relation, coalesce, sql_expression
from airflow_abs.spark.template import bind
from tests.job_runner import program_of
from tests.proof.compositions import Composition
from tests.proof.key_kinds import KEY_KINDS

CONF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.ansi.enabled": "false",  # text is compared with numbers: NULL, not an error
    # A few dozen rows: what a plan costs is its compilation and its stages.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
ROWS = {
    "left": [(n % 5 or None, n % 3, "xyz"[n % 3] if n % 4 else None, n) for n in range(24)],
    "right": [(n % 4 or None, n % 2, "xyw"[n % 3], n % 6) for n in range(14)],
}
STEP = "step"
_IS_PART = "is_part__"


Rows = Sequence[tuple[Any, ...]]


@dataclass(slots=True)
class CompositionBench:
    """A session that is set to `CONF`; `missed_columns` counts those that were left out on purpose, and missed,
    `spread` the inputs that were spread, `grouped_first` those with partial aggregates of rows that are joined."""

    session: Any
    missed_columns: int = 0
    spread: int = 0
    grouped_first: int = 0
    _schemas: dict[str, Any] = field(default_factory=dict)

    def compile(self, composition: Composition) -> tuple[JobGraph, dict[str, CompiledVertex]]:
        inputs = {"left": composition.left, "right": composition.right}
        columns = composition.columns
        graph = build_job_graph(
            # One subtask each, of which there is nothing to prove.
            [*(JobVertex(name, has_source=True, parallelism=1) for name in inputs), JobVertex(STEP)],
            [JobEdge(name, STEP, name, each.partitioning, each.names(columns[name])) for name, each in inputs.items()],
            128,
        )
        programs = {name: program_of(name, None, {}, Files("/-", schema=_ddl(columns[name]))) for name in inputs}
        programs[STEP] = program_of(STEP, composition, {})
        return graph, compile_vertices(self.session, graph, programs)

    def prove(self, composition: Composition) -> tuple[JobGraph, dict[str, CompiledVertex]]:
        """All of it, compiled and proved.

        Raises:
            JobGraphError: it is refused.
        """
        graph, compiled = self.compile(composition)
        proofs = prove_vertices(self.session, graph, compiled)
        return graph, {**compiled, STEP: replace(compiled[STEP], spreads=proofs[STEP].spreads)}

    def narrow(self, graph: JobGraph, compiled: Mapping[str, CompiledVertex]) -> dict[str, CompiledVertex]:
        """As they run: both tables are written without what the step does not read of them."""
        shares = dict.fromkeys(compiled, 0.0)  # as if earlier runs had found few groups
        combined = combine_edges(self.session, graph, compiled, shares=shares)
        self.grouped_first += sum(bool(each.partial and each.groups) for each in combined.values())
        return narrow_vertices(self.session, graph, combined)

    def run(
        self,
        composition: Composition,
        graph: JobGraph,
        compiled: Mapping[str, CompiledVertex],
        parts: int,
        narrowed: Mapping[str, CompiledVertex] | None = None,
        spread: str | None = None,
    ) -> tuple[Any, Any]:
        """The rows of the whole, and those that `parts` subtasks give together, `narrowed` or not; one request.

        With `spread` every one of them is two, which read that input's rows in turn, and all of the other's.
        """
        import pyarrow.compute as pc

        run = narrowed or compiled
        specs = {edge.producer: spec for edge, spec in assign_results(self.session, graph, run).items()}
        runs = [self._bound(compiled[STEP], self._tables(composition, ROWS), is_part=False)]
        for part, half in product(range(parts), (0, 1) if spread else (None,)):
            tables = self._tables(composition, ROWS)
            cut = {name: specs[name].expression for name in tables}
            number = {name: list(composition.columns[name])[-1] for name in tables}
            if spread:
                tables[spread] = _only(tables[spread], f"{number[spread]} % 2 = {half}")
            written = {name: _written(run[name], rows, number[name]) for name, rows in tables.items()}
            own = {
                name: _only(rows, f"{cut[name]} % {parts} = {part}") if cut[name] else rows
                for name, rows in written.items()
            }
            runs.append(self._bound(run[STEP], own, is_part=True))
        table = self._fetch(reduce(_union, runs))
        is_part = table[_IS_PART]
        rows = table.drop_columns([_IS_PART])
        return rows.filter(pc.invert(is_part)), rows.filter(is_part)

    def run_whole(
        self, composition: Composition, compiled: Mapping[str, CompiledVertex], *, turned: bool = False
    ) -> Any:
        """The rows of the whole alone; `turned` gives it its own in another order."""
        rows = {name: ROWS[name][::-1] if turned else ROWS[name] for name in ROWS}
        whole = self._fetch(self._bound(compiled[STEP], self._tables(composition, rows), is_part=False))
        return whole.drop_columns([_IS_PART])

    def _fetch(self, relation: Relation) -> Any:
        plan = protos().Plan()
        plan.root.CopyFrom(relation)
        table, _, _ = self.session.client.to_table(plan, {})
        return table

    def _bound(self, step: CompiledVertex, tables: Mapping[str, Relation], *, is_part: bool) -> Relation:
        local = {name: partial(coalesce, table, 1) for name, table in tables.items()}
        bound = bind(step.relation, {placeholder: local[edge.input_name] for placeholder, edge in step.inputs.items()})
        proto = protos()
        chosen = [*(_comparable(each) for each in step.schema.fields), f"{str(is_part).lower()} AS {_IS_PART}"]
        return proto.Relation(project=proto.Project(input=bound, expressions=list(map(sql_expression, chosen))))

    def _tables(self, composition: Composition, rows: Mapping[str, Rows]) -> dict[str, Relation]:
        """With values in the place of the numbers that stand for them."""
        kind = KEY_KINDS[composition.kind]
        proto = protos()
        tables = {}
        for name, columns in composition.columns.items():
            first, *others = columns
            chosen = [f"{kind.expression(first, name)} AS {first}", *others]
            expressions = [sql_expression(each) for each in chosen]
            local = self._local(name, [first, *others], rows[name])
            tables[name] = proto.Relation(project=proto.Project(input=local, expressions=expressions))
        return tables

    def _local(self, name: str, columns: Sequence[str], rows: Rows) -> Relation:
        if name not in self._schemas:
            kinds = dict(zip(columns, ("int", "int", "string", "bigint"), strict=True))
            self._schemas[name] = self.session.createDataFrame([], _ddl(kinds)).schema
        frame = self.session.createDataFrame(list(rows), self._schemas[name])
        return frame._plan.to_proto(self.session.client).root


def _comparable(column: Any) -> str:
    """As text, where Arrow's Python has no value for it."""
    name = quote(column.name)
    return f"CAST({name} AS STRING) AS {name}" if column.dataType.typeName() == "yearmonthinterval" else name


def _written(vertex: CompiledVertex, rows: Relation, number: str) -> Relation:
    """What a vertex writes of its source's rows; partial results are those of two subtasks, by a column of theirs."""
    (source,) = vertex.sources
    halves = [_only(rows, f"{number} % 2 = {half}") for half in (0, 1)] if vertex.partial else [rows]
    return reduce(_union, [bind(vertex.relation, {source.placeholder: partial(_same, half)}) for half in halves])


def _same(rows: Relation) -> Relation:
    return rows


def _only(rows: Relation, condition: str) -> Relation:
    proto = protos()
    return proto.Relation(filter=proto.Filter(input=rows, condition=sql_expression(condition)))


def _union(one: Relation, other: Relation) -> Relation:
    proto = protos()
    union = proto.SetOperation.SET_OP_TYPE_UNION
    return proto.Relation(set_op=proto.SetOperation(left_input=one, right_input=other, set_op_type=union, is_all=True))


def _ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
