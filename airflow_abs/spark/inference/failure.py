"""Why no edges serve a vertex: which of its steps need what, and where to cut it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge
from airflow_abs.spark.proof.prove import UnsplittableError, refused
from airflow_abs.spark.proof.prover import Prover
from airflow_abs.spark.proof.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Failure:
    """One choice of edges that the proof refuses, with the prover that holds its markers."""

    vertex: str
    error: Refusal | JobGraphError
    prover: Prover
    choice: Mapping[JobEdge, JobEdge]

    @property
    def text(self) -> str:
        """``a join on a = b at revenue.py:12 needs the rows that match in one subtask``."""
        if isinstance(self.error, JobGraphError):
            return str(self.error)
        return f"{self.error.what}{self.prover.lines(self.vertex, self.error)} {self.error.why}"


def explain_failures(failures: Sequence[Failure]) -> JobGraphError:
    """The error for a vertex that no edges serve.

    Args:
        failures: first without any keys, then with each proposal, the likeliest first.
    """
    bare, *keyed = failures
    refused = [failure for failure in keyed if isinstance(failure.error, Refusal)]
    if not refused:
        return _told_as_it_is(keyed[0] if keyed else bare)
    second = refused[0]
    if second.vertex != bare.vertex or second.text == bare.text:
        return _told_as_it_is(second)
    hashed = [edge for edge in second.choice.values() if edge.keys]
    edges = ", ".join(f"{edge.input_name} by {', '.join(edge.keys)}" for edge in hashed)
    alone = (
        " with VertexOptions(parallelism=1)"
        if isinstance(second.error, Refusal) and "all rows in" in second.error.why
        else ""
    )
    needs = f"{bare.text}, which is so once they are hashed ({edges}); but then {second.text}"
    instead = (
        f"return what comes before that step, and do the rest in a vertex of its own{alone} that has this one as "
        "input; or read an input that stays small with broadcast()"
    )
    return UnsplittableError(
        f"vertex {second.vertex!r} needs its rows distributed more than once: {needs}. Cut it there: {instead}",
        second.vertex,
        f"it needs its rows distributed more than once: {needs}",
        instead,
    )


def _told_as_it_is(failure: Failure) -> JobGraphError:
    if isinstance(failure.error, JobGraphError):
        return failure.error
    return refused(failure.prover, failure.vertex, failure.error)
