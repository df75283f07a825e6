"""Proves, vertex by vertex, that a transform gives the same rows in parts as on the whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.expect.expectations import Expectation, unique_keys
from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.spark.compile.vertices import CompiledVertex
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.non_repeatable import NonRepeatable, find_non_repeatable
from airflow_abs.spark.proof.explained import PhysicalPlan, UnreadablePlanError
from airflow_abs.spark.proof.markers import CONF, Marker
from airflow_abs.spark.proof.proof_copy import check_columns_known
from airflow_abs.spark.proof.prover import Prover, Question
from airflow_abs.spark.proof.refusals import Refusal
from airflow_abs.spark.proof.spreading import find_spreads
from airflow_abs.spark.relations import group_by


class UnsplittableError(JobGraphError):
    """A vertex cannot be shown to give the same rows in parts; one subtask with all rows would be right.

    `why` says in words what needs them, `instead` what to write for a fan-out.
    """

    def __init__(self, message: str, vertex: str, why: str, instead: str) -> None:
        super().__init__(message)
        self.vertex = vertex
        self.why = why
        self.instead = instead


@dataclass(slots=True)
class Findings:
    """What the inference and the proof of one job's vertices find out for each other.

    `answers` are Spark's, see `Prover`. `whole` takes the vertices that are to run as one subtask; None: such a vertex
    is an error.
    """

    answers: dict[Question, str] = field(default_factory=dict)
    whole: dict[str, UnsplittableError] | None = None

    def run_whole(self, graph: JobGraph, error: UnsplittableError) -> None:
        """Take a vertex as one subtask.

        Raises:
            UnsplittableError: it may not be one: none may, or its author has set another parallelism.
        """
        if self.whole is None or graph.region_of(error.vertex).parallelism is not None:
            raise error
        self.whole[error.vertex] = error


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known of one vertex.

    `exempt` says in words why its transform need not be proved; None if it was. `values` are its functions whose
    value is not a function of its rows, `portions` those that get rows in portions that nobody promises. `plan` is
    Spark's, on `markers`; None if none was asked for. `spreads` says of each partitioned input, by placeholder, why a
    hot subpartition of it may not be cut; None if it may, see `find_spreads`.
    """

    vertex: str
    exempt: str | None
    values: tuple[NonRepeatable, ...]
    plan: PhysicalPlan | None = None
    markers: Mapping[str, Marker] = field(default_factory=dict)
    portions: tuple[str, ...] = ()
    spreads: Mapping[str, str | None] = field(default_factory=dict)


def prove_vertices(
    session: Any,
    graph: JobGraph,
    compiled: Mapping[str, CompiledVertex],
    per_subtask: Collection[str] = (),
    min_parallelism: int = 1,
    findings: Findings | None = None,
) -> dict[str, Proof]:
    """Prove all vertices, in topological order; one `explain` request for each that may have several subtasks.

    Args:
        session: a Connect session. Some of its settings are others for the time of the proof.
        graph: as declared: a day that is fused into one subtask proves nothing for the next.
        compiled: its vertices, compiled as this graph has them.
        per_subtask: vertices whose author wants a result for each subtask's part.
        min_parallelism: the job's; above 1 even a vertex that has nothing to divide is several subtasks.
        findings: of the inference of these vertices, if there was one.

    Raises:
        JobGraphError: names the vertex, the operator, what it needs, what the edges give, and what to write.
    """
    with set_for_proof(session):
        findings = findings or Findings()
        prover = Prover(session, graph, compiled, frozenset(per_subtask), findings.answers)
        prover.ask_ahead(
            vertex.name
            for vertex in graph.vertices
            if vertex.name not in per_subtask and one_subtask_reason(graph, vertex.name, min_parallelism) is None
        )
        proofs = {}
        for vertex in graph.vertices:
            try:
                proofs[vertex.name] = _prove(prover, vertex.name, min_parallelism)
            except UnsplittableError as error:
                findings.run_whole(graph, error)
                proofs[vertex.name] = Proof(vertex.name, error.why, find_non_repeatable(compiled[vertex.name].relation))
        for region in graph.regions:
            exempt = {name: proofs[name].exempt for name in region.vertices}
            spreads = find_spreads(prover, region, exempt)
            for name in region.vertices:
                own = {each: spreads[each] for each in compiled[name].inputs if each in spreads}
                proofs[name] = replace(proofs[name], spreads=own)
        return proofs


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
def set_for_proof(session: Any) -> Iterator[None]:
    """A session as proofs need it. One request each to ask, to set and to set back, whatever their number."""
    operation = protos().ConfigRequest.Operation
    unset_as_none = [protos().KeyValue(key=key) for key in CONF]
    asked = operation(get_with_default=protos().ConfigRequest.GetWithDefault(pairs=unset_as_none))
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


def _prove(prover: Prover, name: str, min_parallelism: int) -> Proof:
    vertex = prover.compiled[name]
    single = one_subtask_reason(prover.graph, name, min_parallelism)
    exempt = single or ("per_subtask=True" if name in prover.per_subtask else None)
    portions: tuple[str, ...] = ()
    try:
        if exempt is None:
            portions = tuple(sorted(prover.check(name).portions))
        else:
            check_columns_known(vertex.relation)
        if single is None:
            _check_keys(prover, vertex)
    except Refusal as refusal:
        raise refused(prover, name, refusal) from refusal
    except UnreadablePlanError as error:
        raise unreadable(name, error) from error
    values = find_non_repeatable(vertex.relation)
    if exempt is not None:
        return Proof(name, exempt, values)
    return Proof(name, None, values, prover.plan(name), prover.markers, portions)


def _check_keys(prover: Prover, vertex: CompiledVertex) -> None:
    """Unique keys are counted by each subtask for itself: right if a group by the key could be made so, too."""
    for key in unique_keys(vertex.expectations):
        try:
            prover.follow(vertex, group_by(prover.rows_of(vertex.name), key.columns))
        except Refusal as refusal:
            raise _refused_key(prover, vertex, key, refusal.inputs) from refusal


def _refused_key(prover: Prover, vertex: CompiledVertex, key: Expectation, inputs: frozenset[str]) -> UnsplittableError:
    columns = ", ".join(repr(column) for column in key.columns)
    why = f"rows with the same {', '.join(key.columns)} may be in several subtasks{prover.what_edges_give(inputs)}"
    instead = (
        f"read the input with hash({columns}); or give the expectation to a vertex after it whose input is "
        f"hash({columns})"
    )
    return UnsplittableError(
        f"vertex {vertex.name!r}: expectation {key.name!r} ({key.what}) cannot be counted in parts: {why}. To fix it, "
        f"{instead}; or set VertexOptions(parallelism=1)",
        vertex.name,
        f"expectation {key.name!r} cannot be counted in parts: {why}",
        instead,
    )


def unreadable(vertex: str, error: UnreadablePlanError) -> UnsplittableError:
    """The error for a plan that cannot be read."""
    instead = "VertexOptions(per_subtask=True) if you know that it may"
    return UnsplittableError(
        f"vertex {vertex!r}: Spark's plan of its transform cannot be read for the proof that it may run in parts "
        f"({error}); set VertexOptions(parallelism=1), or {instead}",
        vertex,
        f"Spark's plan of its transform cannot be read ({error})",
        f"set {instead}",
    )


def refused(prover: Prover, name: str, refusal: Refusal) -> JobGraphError:
    """The error for a refusal, with all that may be written instead."""
    why, ways = prover.describe(name, refusal), [refusal.remedy]
    if refusal.partial:
        ways.append("set VertexOptions(per_subtask=True) if you want a result for each subtask's part")
    instead = "; or ".join(ways)
    if refusal.right_alone and "parallelism=1" not in refusal.remedy:
        ways.insert(1, "set VertexOptions(parallelism=1)")
    error = JobGraphError(f"vertex {name!r} cannot run in parts: {why}. To fix it, {'; or '.join(ways)}")
    return UnsplittableError(str(error), name, why, instead) if refusal.right_alone else error
