"""Names the edges that the author did not declare: `plan` finds out how the rows of each input must reach its vertex.

Region by region, in topological order. Inputs that the author's hints name or that come from small sources are
broadcast first, one always stays divided (what is right on a small day must be right on the biggest). With the others
of unknown distribution Spark's plan says what has to be together (`needs`), the core proposes keys for it, and the
ordinary proof decides: this module only proposes, so what it gets wrong is refused and never green and wrong.

Where any distribution will do, the edge is a rescale: whole files cost least, nothing is hashed or sorted. Of a
producer that is one subtask on every day it is a rebalance, which can be spread although there are few files.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, Region
from airflow_abs.core.graph.key_choice import propose_keys
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.wording import format_bytes
from airflow_abs.spark.compile.key_types import row_hash
from airflow_abs.spark.compile.vertices import CompiledVertex
from airflow_abs.spark.inference.broadcasts import (
    THRESHOLD,
    SourceBytes,
    bytes_behind,
    hinted_placeholders,
    read_threshold,
)
from airflow_abs.spark.inference.failure import Failure, explain_failures
from airflow_abs.spark.inference.needs import find_needs
from airflow_abs.spark.proof.explained import UnreadablePlanError
from airflow_abs.spark.proof.prove import (
    Findings,
    UnsplittableError,
    one_subtask_reason,
    set_for_proof,
    unreadable,
)
from airflow_abs.spark.proof.prover import Prover, Question, marker_name
from airflow_abs.spark.proof.refusals import Refusal

_MOST_PROPOSALS = 8
"""Of keys, for one choice of what is broadcast; each costs Spark one plan of each vertex of the region."""


@dataclass(frozen=True, slots=True)
class InferredEdges:
    """The graph and its compiled vertices with every edge known, and why each inferred one is what it is."""

    graph: JobGraph
    compiled: Mapping[str, CompiledVertex]
    reasons: Mapping[JobEdge, str]


def infer_edges(
    session: Any,
    graph: JobGraph,
    compiled: Mapping[str, CompiledVertex],
    source_bytes: SourceBytes = lambda vertex: None,
    per_subtask: Collection[str] = (),
    min_parallelism: int = 1,
    joins: Collection[str] = (),
    findings: Findings | None = None,
) -> InferredEdges:
    """Find out what every inferred edge is; no request at all if there is none.

    Args:
        session: a Connect session; it is asked for plans and runs nothing.
        graph: as declared, with its vertices `compiled` as it has them.
        source_bytes: what the files of a vertex's source hold today.
        per_subtask, min_parallelism: as in `prove_vertices`.
        joins: vertices that are declared as a join of two hash inputs, so neither is broadcast.
        findings: takes what is found out for the proof; the regions of what is to run whole are one subtask then.

    Raises:
        JobGraphError: no edges serve a vertex; says which steps need what, and where to cut it.
    """
    regions = [region for region in graph.regions if _inferred_edges(region)]
    if not regions:
        return InferredEdges(graph, compiled, {})
    findings = findings or Findings()
    common = frozenset(per_subtask), min_parallelism, session.conf.get(THRESHOLD), findings.answers
    reasons: dict[JobEdge, str] = {}
    with set_for_proof(session):
        searches = [_Search(session, graph, compiled, region, *common) for region in regions]
        _ask_ahead(searches, source_bytes, joins)
        for search in searches:
            search.graph, search.compiled = graph, compiled
            try:
                chosen = search.run(source_bytes, joins)
            except UnsplittableError as error:
                findings.run_whole(graph, error)
                search.graph = graph.with_single_subtask({error.vertex: error.why})
                chosen = search.run(source_bytes, joins)
            graph, compiled = search.resolved(chosen)
            reasons |= {chosen[edge]: search.reasons[edge] for edge in search.edges}
    return InferredEdges(graph, compiled, reasons)


def _inferred_edges(region: Region) -> list[JobEdge]:
    return [edge for edge in (*region.inputs, *region.inner) if edge.partitioning is Partitioning.INFERRED]


def _ask_ahead(searches: Sequence[_Search], source_bytes: SourceBytes, joins: Collection[str]) -> None:
    """Ask Spark for the plans that the searches begin with, at once."""
    first: dict[JobEdge, JobEdge] = {}
    names: list[str] = []
    for search in searches:
        first |= search.guess(source_bytes, joins)
        names += [name for name in search.region.vertices if name not in search.per_subtask]
    graph, compiled = searches[0].resolved(first)
    Prover(searches[0].session, graph, compiled, searches[0].per_subtask, searches[0].answers).ask_ahead(
        name for name in names if one_subtask_reason(graph, name, searches[0].min_parallelism) is None
    )


Choice = Mapping[JobEdge, JobEdge]
"""For each inferred edge what it might be."""


@dataclass
class _Search:
    """The inferred edges of one region; `reasons` say why each is what it is, once `run` has returned."""

    session: Any
    graph: JobGraph
    compiled: Mapping[str, CompiledVertex]
    region: Region
    per_subtask: frozenset[str]
    min_parallelism: int
    threshold: str
    answers: dict[Question, str]
    reasons: dict[JobEdge, str] = field(default_factory=dict)

    @cached_property
    def edges(self) -> list[JobEdge]:
        return _inferred_edges(self.region)

    def run(self, source_bytes: SourceBytes, joins: Collection[str]) -> Choice:
        """What each edge is.

        Raises:
            JobGraphError: see `infer_edges`.
        """
        single = one_subtask_reason(self.graph, self.region.name, self.min_parallelism)
        if single is not None:
            self.reasons = dict.fromkeys(self.edges, f"one subtask reads everything: {single}")
            return {edge: _as(edge, Partitioning.RESCALE) for edge in self.edges}
        self._check_whole()
        small = self._small(source_bytes)
        hinted = self._hinted()
        broadcast = {edge for edge in (*hinted, *small) if edge.consumer not in joins}
        self.reasons = {edge: f"{small[edge]}" for edge in small} | dict.fromkeys(hinted, "the author's hint")
        sizes = {edge: bytes_behind(self.graph, edge.producer, source_bytes) for edge in broadcast}
        return self._find(broadcast, sizes, joins)

    def guess(self, source_bytes: SourceBytes, joins: Collection[str]) -> Choice:
        """What is tried first if the author gives no hints."""
        small = {edge for edge in self._small(source_bytes) if edge.consumer not in joins}
        sizes = {edge: bytes_behind(self.graph, edge.producer, source_bytes) for edge in small}
        return self._base(next(self._with_one_divided(small, sizes), frozenset()))

    def resolved(self, choice: Choice) -> tuple[JobGraph, dict[str, CompiledVertex]]:
        """Graph and vertices with these edges."""
        return self.graph.with_edges(choice), {name: each.with_edges(choice) for name, each in self.compiled.items()}

    def _check_whole(self) -> None:
        for edge in self.edges:
            if edge.consumer in self.per_subtask:
                raise JobGraphError(
                    f"vertex {edge.consumer!r}: its result is per subtask (per_subtask=True), and input "
                    f"{edge.input_name!r} does not say which rows a subtask has; expected {edge.producer}.hash(...), "
                    ".broadcast(), .rescale() or .rebalance()"
                )

    def _small(self, source_bytes: SourceBytes) -> dict[JobEdge, str]:
        """Edges from sources that hold no more than Spark would broadcast, with the reason in words."""
        if len(self.region.inputs) + sum(self.graph.vertex(each).has_source for each in self.region.vertices) < 2:
            return {}
        found = {}
        for edge in self.edges:
            size = bytes_behind(self.graph, edge.producer, source_bytes)
            threshold = read_threshold(self.compiled[edge.consumer], self.threshold)
            if size is not None and size <= threshold:
                found[edge] = f"its sources hold {format_bytes(size)}, {THRESHOLD} is {format_bytes(threshold)}"
        return found

    def _hinted(self) -> list[JobEdge]:
        prover = self._prover({edge: _as(edge, Partitioning.RESCALE) for edge in self.edges})
        found: set[str] = set()
        for name in self.region.vertices:
            found |= hinted_placeholders(prover, self.compiled[name])
        return [edge for placeholder, edge in self._placeholders() if placeholder in found and edge in self.edges]

    def _find(self, broadcast: set[JobEdge], sizes: Mapping[JobEdge, int | None], joins: Collection[str]) -> Choice:
        first: list[Failure] = []
        tried = set(broadcast)
        while True:
            at_fault: set[JobEdge] = set()
            divided: set[JobEdge] = set()
            for together in self._with_one_divided(broadcast, sizes):
                choice, failures = self._attempt(together)
                if choice is not None:
                    return choice
                first = first or failures
                at_fault |= {edge for failure in failures for edge in self._named_in(failure, "replicated")}
                divided |= {edge for failure in failures for edge in self._named_in(failure, "divided")}
            totals = {edge for edge in divided - tried if self._from_one_subtask(edge) and edge.consumer not in joins}
            if at_fault & broadcast:
                broadcast = broadcast - at_fault
            elif totals:
                broadcast, tried, first = broadcast | totals, tried | totals, []
                self.reasons |= dict.fromkeys(totals, "one subtask writes it, and a step needs it whole")
            else:
                raise explain_failures(first)

    def _with_one_divided(
        self, broadcast: set[JobEdge], sizes: Mapping[JobEdge, int | None]
    ) -> Iterator[frozenset[JobEdge]]:
        """What could be broadcast together: all of them, if something else is divided, or all but one, large first."""
        others = [edge for edge in self.region.inputs if edge not in broadcast]
        divided = any(edge.partitioning is not Partitioning.BROADCAST for edge in others)
        if divided or any(self.graph.vertex(name).has_source for name in self.region.vertices):
            yield frozenset(broadcast)
            return
        in_order = [edge for edge in self.edges if edge in broadcast]
        for edge in sorted(in_order, key=lambda edge: sizes.get(edge) or math.inf, reverse=True):
            yield frozenset(broadcast - {edge})

    def _attempt(self, broadcast: Collection[JobEdge]) -> tuple[Choice | None, list[Failure]]:
        """Without any keys; then with those that are proposed for what is missing."""
        base = self._base(broadcast)
        failure = self._try(base)
        if failure is None:
            return self._explained(base, "each subtask may read any rows"), []
        failures = [failure]
        for choice in self._with_keys(base, failure.prover):
            failed = self._try(choice)
            if failed is None:
                return self._explained(choice, failure.text), []
            failures.append(failed)
        return None, failures

    def _base(self, broadcast: Collection[JobEdge]) -> Choice:
        return {
            edge: _as(edge, Partitioning.BROADCAST) if edge in broadcast else self._spread(edge) for edge in self.edges
        }

    def _with_keys(self, base: Choice, prover: Prover) -> Iterator[Choice]:
        edge_of = {marker_name("divided", placeholder): edge for placeholder, edge in self._placeholders()}
        fixed = {name: edge.keys for name, edge in edge_of.items() if edge.partitioning is Partitioning.HASH}
        needs = [need for name in self.region.vertices for need in find_needs(prover.plan(name), prover.markers)]
        for keys in propose_keys(needs, fixed, _MOST_PROPOSALS):
            hashed = {
                edge_of[name]: _as(edge_of[name], Partitioning.HASH, of)
                for name, of in keys.items()
                if edge_of.get(name) in base
            }
            if hashed:
                yield {**base, **hashed}

    def _try(self, choice: Choice) -> Failure | None:
        prover = self._prover(choice)
        for name in self.region.vertices:
            try:
                if name not in self.per_subtask:
                    prover.check(name)
            except (Refusal, JobGraphError) as error:
                return Failure(name, error, prover, choice)
            except UnreadablePlanError as error:
                raise unreadable(name, error) from error
        return None

    def _explained(self, choice: Choice, why: str) -> Choice:
        for edge, chosen in choice.items():
            if chosen.partitioning is not Partitioning.BROADCAST:
                self.reasons[edge] = why if chosen.keys else "each subtask may read any rows"
        return choice

    def _spread(self, edge: JobEdge) -> JobEdge:
        by_row = self._from_one_subtask(edge) and row_hash(self.compiled[edge.producer].schema) is not None
        return _as(edge, Partitioning.REBALANCE if by_row else Partitioning.RESCALE)

    def _from_one_subtask(self, edge: JobEdge) -> bool:
        return one_subtask_reason(self.graph, edge.producer, self.min_parallelism) is not None

    def _prover(self, choice: Choice) -> Prover:
        graph, compiled = self.resolved(choice)
        return Prover(self.session, graph, compiled, self.per_subtask, self.answers)

    def _placeholders(self) -> list[tuple[str, JobEdge]]:
        return [item for name in self.region.vertices for item in self.compiled[name].inputs.items()]

    def _named_in(self, failure: Failure, kind: str) -> set[JobEdge]:
        """The inferred edges whose rows a refusal is about, of those that are ``divided`` or ``replicated``."""
        if not isinstance(failure.error, Refusal):
            return set()
        names = {marker_name(kind, placeholder): edge for placeholder, edge in self._placeholders()}
        return {names[each] for each in failure.error.inputs if each in names} & set(self.edges)


def _as(edge: JobEdge, partitioning: Partitioning, keys: tuple[str, ...] = ()) -> JobEdge:
    return replace(edge, partitioning=partitioning, keys=keys, inferred=True)
