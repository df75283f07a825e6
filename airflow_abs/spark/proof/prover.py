"""Plans one vertex on stand-ins for its inputs, and follows its rows through Spark's plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.planned_source import PlannedSource
from airflow_abs.spark.compile.contracts import set_conf
from airflow_abs.spark.compile.key_types import compute_common_types, find_hash_keys
from airflow_abs.spark.compile.vertices import CompiledVertex, is_materialised
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.connect.session import is_gone
from airflow_abs.spark.non_repeatable import find_non_repeatable
from airflow_abs.spark.proof import refusals
from airflow_abs.spark.proof.explained import PhysicalPlan, read_plan
from airflow_abs.spark.proof.markers import CONF, PREFIX, Marker
from airflow_abs.spark.proof.operators import all_are_known, tried_operators
from airflow_abs.spark.proof.partitions import function_over_partitions, hint_in_sql
from airflow_abs.spark.proof.proof_copy import check_columns_known, check_samples, check_values, proof_copy
from airflow_abs.spark.proof.refusals import Refusal
from airflow_abs.spark.proof.rows import Rows, Spread
from airflow_abs.spark.proof.walk import follow_rows
from airflow_abs.spark.relations import Relation
from airflow_abs.spark.template import PLACEHOLDER_PREFIX, names_metadata
from airflow_abs.spark.transforms.call_sites import find_lines

_REQUESTS = 4
"""At once."""

Settings = tuple[tuple[str, str], ...]
Question = tuple[Settings, bytes]
"""A vertex's own settings of Spark, and the relation, serialised."""


@dataclass(slots=True)
class Prover:
    """The vertices of one graph; `markers` are the stand-ins that were planned so far, by name.

    The session must be set for proofs (`prove.set_for_proof`). `answers` are Spark's, for provers of one job to share.
    """

    session: Any
    graph: JobGraph
    compiled: Mapping[str, CompiledVertex]
    per_subtask: frozenset[str]
    answers: dict[Question, str] = field(default_factory=dict)
    markers: dict[str, Marker] = field(default_factory=dict)
    _plans: dict[str, PhysicalPlan] = field(default_factory=dict)

    def check(self, name: str) -> Rows:
        """Plan a vertex and follow its rows: what is known of those that it returns.

        Raises:
            Refusal: it does not give the same rows in parts as on the whole.
            UnreadablePlanError, JobGraphError: Spark's plan cannot be read; the keys of its edges do not fit.
        """
        vertex = self.compiled[name]
        check_columns_known(vertex.relation)
        check_samples(vertex.relation)
        check_values(find_non_repeatable(vertex.relation), reads_source=bool(vertex.sources))
        hint = hint_in_sql(vertex.relation)
        if hint and any(function_over_partitions(each, self.markers) for each in self.plan(name).operators()):
            raise refusals.hinted_partitions(hint)
        rows = self._follow(self.plan(name))
        self._check_output(name, rows)
        return rows

    def check_spread(self, name: str, spread: str, whole: Collection[str]) -> None:
        """Follow the rows of a vertex, which was checked, once more: with the marker `spread` divided in any way, and
        the markers in `whole` as every subtask has them. Asks Spark nothing.

        Raises:
            Refusal: it does not give the same rows then.
        """
        markers = {
            each: replace(marker, keys=(), replicated=each in whole) if each == spread or each in whole else marker
            for each, marker in self.markers.items()
        }
        self._check_output(name, follow_rows(self.plan(name), markers, other_edges=True))

    def _check_output(self, name: str, rows: Rows) -> None:
        leaves_subtask = self.graph.vertex(name).has_sink or any(
            self.graph.crosses_regions(edge) for edge in self.graph.outputs_of(name)
        )
        if rows.spread is Spread.REPLICATED and (leaves_subtask or not self.graph.outputs_of(name)):
            raise refusals.replicated_output(rows)

    def plan(self, name: str) -> PhysicalPlan:
        """Spark's physical plan of a vertex on markers; asked for once.

        Raises:
            UnreadablePlanError: it cannot be read for certain.
            JobGraphError: Spark itself cannot plan it.
        """
        if name not in self._plans:
            vertex = self.compiled[name]
            self._plans[name] = self._explain(vertex, self.relation(vertex))
        return self._plans[name]

    def ask_ahead(self, names: Iterable[str]) -> None:
        """Ask for the plans of several vertices at once, so that they are there for those who ask for one of them.

        What fails here fails again there.
        """
        alike: dict[Settings, list[tuple[str, Relation]]] = {}
        for name in names:
            with suppress(JobGraphError, Refusal):
                vertex = self.compiled[name]
                relation = self.relation(vertex)
                check_columns_known(relation)  # Spark would read all rows of the stand-ins for it, and has no end
                alike.setdefault(_own_settings(vertex), []).append((name, relation))

        def ask(settings: Settings, name: str, relation: Relation) -> None:
            with suppress(JobGraphError):
                self._answer(settings, name, relation)

        with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="explain") as pool:
            for settings, group in alike.items():
                with suppress(JobGraphError), set_conf(self.session, group[0][0], dict(settings)):
                    for asked in [pool.submit(ask, settings, *each) for each in group]:
                        asked.result()

    def follow(self, vertex: CompiledVertex, relation: Relation) -> Rows:
        """What is known of the rows of a relation that is put on a vertex's own; errors as `check`."""
        return self._follow(self._explain(vertex, relation))

    def _follow(self, plan: PhysicalPlan) -> Rows:
        rows = follow_rows(plan, self.markers)
        release: str = self.session.version
        if not all_are_known(release):
            tried = tried_operators(release)
            untried = next((each for each in plan.operators() if each.name.strip() not in tried), None)
            if untried is not None:
                raise refusals.untried(untried, release)
        return rows

    def _explain(self, vertex: CompiledVertex, relation: Relation) -> PhysicalPlan:
        settings = _own_settings(vertex)
        if _question(settings, relation) in self.answers:
            return read_plan(self._answer(settings, vertex.name, relation))
        with set_conf(self.session, vertex.name, dict(settings)):
            return read_plan(self._answer(settings, vertex.name, relation))

    def _answer(self, settings: Settings, vertex: str, relation: Relation) -> str:
        """Spark's, from a session that has these settings if it was not asked before."""
        question = _question(settings, relation)
        if question not in self.answers:
            self.answers[question] = self.explain(vertex, relation, "formatted")
        return self.answers[question]

    def explain(self, vertex: str, relation: Relation, mode: str) -> str:
        """What Spark says of a relation of a vertex.

        Raises:
            JobGraphError: it cannot plan it. What says that the server or the session is gone is passed on.
        """
        from pyspark.errors import PySparkException

        plan = protos().Plan()
        plan.root.CopyFrom(relation)  # the constructor refuses deep plans
        try:
            text: str = self.session.client.explain_string(plan, mode)
        except PySparkException as error:
            if is_gone(error):
                raise
            raise JobGraphError(
                f"vertex {vertex!r}: Spark itself cannot plan its transform, so it would fail in every subtask: "
                f"{_first_line(error)}. Write the step differently, or split it into two vertices; if Spark runs it "
                "elsewhere, set VertexOptions(parallelism=1), which needs no plan in advance"
            ) from error
        return text

    def relation(self, vertex: CompiledVertex) -> Relation:
        """The vertex's relation on markers; what it takes from vertices of its region is their proof relation."""
        inputs: dict[str, Callable[[], Relation]] = {}
        opaque: dict[int, Callable[[], Relation]] = {}
        metadata = names_metadata(vertex.relation)
        for name in self.graph.region_of(vertex.name).vertices:
            member = self.compiled[name]
            for source in member.sources:
                inputs[source.placeholder] = self._source(member, source, metadata=metadata)
            for placeholder, edge in member.inputs.items():
                inputs[placeholder] = self._edge(placeholder, edge)
            for placeholder, producer in member.local.items():
                inputs[placeholder] = partial(self.rows_of, producer)
            if name in self.per_subtask and name != vertex.name and not is_materialised(self.graph, name):
                opaque[member.relation.common.plan_id] = partial(self._part_of, member)
        return proof_copy(vertex.relation, inputs, opaque)

    def rows_of(self, name: str) -> Relation:
        """A vertex's rows as those see them who read it inside of its region."""
        producer = self.compiled[name]
        return self._part_of(producer) if name in self.per_subtask else self.relation(producer)

    def _part_of(self, member: CompiledVertex) -> Relation:
        """What each subtask makes of its part, whatever that is: other rows in each, together by no key."""
        marker = Marker(f"{PREFIX}part_{_plain(member.name)}", member.name, tuple(member.schema.names))
        return self._marked(marker, member.schema)

    def _source(self, member: CompiledVertex, source: PlannedSource, *, metadata: bool) -> Callable[[], Relation]:
        from pyspark.sql.types import StructType, _parse_datatype_json_string

        schema: StructType = _parse_datatype_json_string(source.schema)
        marker = Marker(
            marker_name("divided", source.placeholder),
            f"the source of {member.name}",
            tuple(schema.names),
            source=True,
            format=source.files.format if metadata and source.files is not None else None,
        )
        return partial(self._marked, marker, schema)

    def _edge(self, placeholder: str, edge: JobEdge) -> Callable[[], Relation]:
        schema = self.compiled[edge.producer].schema
        columns = tuple(schema.names)
        replicated = edge.partitioning is Partitioning.BROADCAST
        marker = Marker(
            name=marker_name("replicated" if replicated else "divided", placeholder),
            input=edge.input_name,
            columns=columns,
            replicated=replicated,
            keys=tuple(self._keys(edge)) if edge.partitioning is Partitioning.HASH else (),
            inferred=edge.inferred,
        )
        return partial(self._marked, marker, schema)

    def _marked(self, marker: Marker, schema: Any) -> Relation:
        self.markers[marker.name] = marker
        return marker.relation(schema)

    def _keys(self, edge: JobEdge) -> Iterator[tuple[str, str | None]]:
        """The keys of a hash edge, with the type as which they are hashed where that is not their own."""
        schemas = {name: vertex.schema for name, vertex in self.compiled.items()}
        keys = find_hash_keys(self.graph, schemas, edge.consumer)
        common = compute_common_types(self.session, edge.consumer, keys)
        for (key, data_type), cast in zip(keys[edge.input_name], common, strict=True):
            yield key, None if data_type.simpleString() == cast else cast

    def describe(self, name: str, refusal: Refusal) -> str:
        """What is refused, with the lines of the author's code, what it needs and what the edges give."""
        given = self.what_edges_give(refusal.inputs)
        return f"{refusal.what}{self.lines(name, refusal)} {refusal.why}{given}"

    def what_edges_give(self, inputs: frozenset[str]) -> str:
        """`` (here orders is hashed by customer_id)``, or nothing."""
        gives = "; ".join(self.markers[name].describe() for name in sorted(inputs) if name in self.markers)
        return f" (here {gives})" if gives else ""

    def lines(self, name: str, refusal: Refusal) -> str:
        """Where the author wrote it: `` at revenue.py:12``, or nothing."""
        relation = self.compiled[name].relation
        sites = {number: line for member in self.compiled.values() for number, line in member.call_sites.items()}
        lines = find_lines(relation, refusal.relations, sites)
        if refusal.relations and not lines:  # an aggregate in a select(), say
            return find_lines(relation, ("project", "with_columns", "filter"), sites)
        return lines


def marker_name(kind: str, placeholder: str) -> str:
    """What the stand-in for a placeholder is called; `kind` is ``divided`` or ``replicated``."""
    return f"{PREFIX}{kind}_{placeholder.removeprefix(PLACEHOLDER_PREFIX)}"


def _own_settings(vertex: CompiledVertex) -> Settings:
    return tuple(sorted((key, value) for key, value in vertex.spark_conf.items() if key not in CONF))


def _question(settings: Settings, relation: Relation) -> Question:
    return settings, relation.SerializeToString(deterministic=True)


def _first_line(error: Exception) -> str:
    """Spark's own words without its stack."""
    return str(error).strip().partition("\n")[0].rstrip(".")


def _plain(name: str) -> str:
    return "".join(character if character.isalnum() else f"_{ord(character)}_" for character in name)
