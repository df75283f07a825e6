"""Proves, vertex by vertex, that a transform gives the same rows in parts as on the whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.spark.compile.call_sites import find_lines
from airflow_abs.spark.compile.contracts import set_conf
from airflow_abs.spark.compile.key_types import compute_common_types, resolve_keys
from airflow_abs.spark.compile.vertices import CompiledVertex, is_materialised
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.non_repeatable import NonRepeatable, find_non_repeatable
from airflow_abs.spark.proof import refusals
from airflow_abs.spark.proof.explained import UnreadablePlanError, read_plan
from airflow_abs.spark.proof.markers import CONF, PREFIX, Marker
from airflow_abs.spark.proof.refusals import Refusal
from airflow_abs.spark.proof.rows import Spread
from airflow_abs.spark.proof.template import check_columns_known, check_samples, check_values, proof_copy
from airflow_abs.spark.proof.walk import follow_rows
from airflow_abs.spark.relations import Relation
from airflow_abs.spark.template import PLACEHOLDER_PREFIX


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known of one vertex.

    `exempt` says in words why its transform need not be proved; None if it was. `values` are its functions whose
    value is not a function of its rows.
    """

    vertex: str
    exempt: str | None
    values: tuple[NonRepeatable, ...]


def prove_vertices(
    session: Any,
    graph: JobGraph,
    compiled: Mapping[str, CompiledVertex],
    per_subtask: Collection[str] = (),
    min_parallelism: int = 1,
) -> dict[str, Proof]:
    """Prove all vertices, in topological order; one `explain` request for each that may have several subtasks.

    Args:
        session: a Connect session. Some of its settings are others for the time of the proof.
        graph: as declared: a day that is fused into one subtask proves nothing for the next.
        compiled: its vertices, compiled as this graph has them.
        per_subtask: vertices whose author wants a result for each subtask's part.
        min_parallelism: the job's; above 1 even a vertex that has nothing to divide is several subtasks.

    Raises:
        JobGraphError: names the vertex, the operator, what it needs, what the edges give, and what to write.
    """
    with _set_for_proof(session):
        prover = _Prover(session, graph, compiled, frozenset(per_subtask), min_parallelism)
        return {vertex.name: prover.prove(vertex.name) for vertex in graph.vertices}


def one_subtask_reason(graph: JobGraph, vertex: str, min_parallelism: int = 1) -> str | None:
    """Why a vertex is one subtask on every day, in words; None if it may be several."""
    region = graph.region_of(vertex)
    if region.single_subtask_reason is not None:
        return region.single_subtask_reason
    if region.parallelism == 1:
        return "parallelism=1"
    if region.subpartitions == 1:
        return "max_parallelism=1"
    cut = [edge for edge in region.inputs if edge.partitioning is not Partitioning.BROADCAST]
    sources = [name for name in region.vertices if graph.vertex(name).has_source]
    if not cut and not sources and region.parallelism is None and min_parallelism == 1:
        return "all its inputs are broadcast"
    return None


@contextmanager
def _set_for_proof(session: Any) -> Iterator[None]:
    """One request each to ask, to set and to set back, whatever their number."""
    operation = protos().ConfigRequest.Operation
    asked = operation(get_option=protos().ConfigRequest.GetOption(keys=list(CONF)))
    before = dict(session.client.config(asked).pairs)
    _set(session, CONF)
    try:
        yield
    finally:
        _set(session, {key: value for key, value in before.items() if value is not None})
        unset = [key for key in CONF if before.get(key) is None]
        if unset:
            session.client.config(operation(unset=protos().ConfigRequest.Unset(keys=unset)))


def _set(session: Any, values: Mapping[str, str]) -> None:
    pairs = [protos().KeyValue(key=key, value=value) for key, value in values.items()]
    session.client.config(protos().ConfigRequest.Operation(set=protos().ConfigRequest.Set(pairs=pairs)))


@dataclass(slots=True)
class _Prover:
    session: Any
    graph: JobGraph
    compiled: Mapping[str, CompiledVertex]
    per_subtask: frozenset[str]
    min_parallelism: int
    markers: dict[str, Marker] = field(default_factory=dict)

    def prove(self, name: str) -> Proof:
        vertex = self.compiled[name]
        values = find_non_repeatable(vertex.relation)
        exempt = one_subtask_reason(self.graph, name, self.min_parallelism) or (
            "per_subtask=True" if name in self.per_subtask else None
        )
        try:
            check_columns_known(vertex.relation)
            if exempt is None:
                check_samples(vertex.relation)
                check_values(values, reads_source=bool(vertex.sources))
                self._check_rows(vertex)
        except Refusal as refusal:
            raise JobGraphError(self._describe(vertex, refusal)) from refusal
        except UnreadablePlanError as error:
            raise JobGraphError(
                f"vertex {name!r}: Spark's plan of its transform cannot be read for the proof that it may run in "
                f"parts ({error}); set parallelism=1, or per_subtask=True if you know that it may"
            ) from error
        return Proof(name, exempt, values)

    def _check_rows(self, vertex: CompiledVertex) -> None:
        plan = protos().Plan()
        plan.root.CopyFrom(self._proof_relation(vertex))  # the constructor refuses deep plans
        own = {key: value for key, value in vertex.spark_conf.items() if key not in CONF}
        with set_conf(self.session, vertex.name, own):
            text = self.session.client.explain_string(plan, "formatted")
        rows = follow_rows(read_plan(text), self.markers)
        leaves_subtask = self.graph.vertex(vertex.name).has_sink or any(
            self.graph.crosses_regions(edge) for edge in self.graph.outputs_of(vertex.name)
        )
        if rows.spread is Spread.REPLICATED and (leaves_subtask or not self.graph.outputs_of(vertex.name)):
            raise refusals.replicated_output(rows)

    def _proof_relation(self, vertex: CompiledVertex) -> Relation:
        """The vertex's relation on markers; what it takes from vertices of its region is their proof relation."""
        inputs: dict[str, Callable[[], Relation]] = {}
        opaque: dict[int, Callable[[], Relation]] = {}
        for name in self.graph.region_of(vertex.name).vertices:
            member = self.compiled[name]
            for source in member.sources:
                inputs[source.placeholder] = self._source(member, source.placeholder)
            for placeholder, edge in member.inputs.items():
                inputs[placeholder] = self._edge(placeholder, edge)
            for placeholder, producer in member.local.items():
                inputs[placeholder] = partial(self._producer, producer)
            if name in self.per_subtask and name != vertex.name and not is_materialised(self.graph, name):
                opaque[member.relation.common.plan_id] = partial(self._part_of, member)
        return proof_copy(vertex.relation, inputs, opaque)

    def _producer(self, name: str) -> Relation:
        producer = self.compiled[name]
        return self._part_of(producer) if name in self.per_subtask else self._proof_relation(producer)

    def _part_of(self, member: CompiledVertex) -> Relation:
        """What each subtask makes of its part, whatever that is: other rows in each, together by no key."""
        marker = Marker(f"{PREFIX}part_{_plain(member.name)}", member.name, tuple(member.schema.names))
        return self._marked(marker, member.schema)

    def _source(self, member: CompiledVertex, placeholder: str) -> Callable[[], Relation]:
        from pyspark.sql.types import StructType, _parse_datatype_json_string

        (source,) = (entry for entry in member.sources if entry.placeholder == placeholder)
        schema: StructType = _parse_datatype_json_string(source.schema)
        marker = Marker(_name("divided", placeholder), f"the source of {member.name}", tuple(schema.names), source=True)
        return partial(self._marked, marker, schema)

    def _edge(self, placeholder: str, edge: JobEdge) -> Callable[[], Relation]:
        schema = self.compiled[edge.producer].schema
        columns = tuple(schema.names)
        match edge.partitioning:
            case Partitioning.BROADCAST:
                marker = Marker(_name("replicated", placeholder), edge.input_name, columns, replicated=True)
            case Partitioning.HASH:
                keys = tuple(self._keys(edge))
                marker = Marker(_name("divided", placeholder), edge.input_name, columns, keys=keys)
            case _:
                marker = Marker(_name("divided", placeholder), edge.input_name, columns)
        return partial(self._marked, marker, schema)

    def _marked(self, marker: Marker, schema: Any) -> Relation:
        self.markers[marker.name] = marker
        return marker.relation(schema)

    def _keys(self, edge: JobEdge) -> Iterator[tuple[str, str | None]]:
        """The keys of a hash edge, with the type as which they are hashed where that is not their own."""
        hashed = [
            other
            for other in self.graph.inputs_of(edge.consumer)
            if other.partitioning is Partitioning.HASH and self.graph.crosses_regions(other)
        ]
        own: dict[str, list[tuple[str, Any]]] = {}
        for other in hashed:
            schema = self.compiled[other.producer].schema
            own[other.input_name] = [
                (key, schema[key].dataType) for key in resolve_keys(other.producer, schema, other.keys)
            ]
        types = {name: [data_type for _, data_type in keys] for name, keys in own.items()}
        common = compute_common_types(self.session, edge.consumer, types)
        for (key, data_type), cast in zip(own[edge.input_name], common, strict=True):
            yield key, None if data_type.simpleString() == cast else cast

    def _describe(self, vertex: CompiledVertex, refusal: Refusal) -> str:
        sites = {number: line for member in self.compiled.values() for number, line in member.call_sites.items()}
        lines = find_lines(vertex.relation, refusal.relations, sites)
        if refusal.relations and not lines:  # an aggregate in a select(), say
            lines = find_lines(vertex.relation, ("project", "with_columns", "filter"), sites)
        gives = "; ".join(self.markers[name].describe() for name in sorted(refusal.inputs) if name in self.markers)
        found = f" (here {gives})" if gives else ""
        ways = [refusal.remedy, "set parallelism=1"] if "parallelism=1" not in refusal.remedy else [refusal.remedy]
        if refusal.partial:
            ways.append("say per_subtask=True if a result for each subtask's part is what you want")
        return (
            f"vertex {vertex.name!r} cannot run in parts: {refusal.what}{lines} {refusal.why}{found}. "
            f"To mend it, {'; or '.join(ways)}"
        )


def _name(kind: str, placeholder: str) -> str:
    return f"{PREFIX}{kind}_{placeholder.removeprefix(PLACEHOLDER_PREFIX)}"


def _plain(name: str) -> str:
    return "".join(character if character.isalnum() else f"_{ord(character)}_" for character in name)
