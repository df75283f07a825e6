"""Whether a vertex is the join that its author declared."""

from __future__ import annotations

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.join_types import JoinType, splittable_sides
from airflow_abs.spark.relations import Relation
from airflow_abs.spark.template import find_joins


def check_join(vertex: str, relation: Relation, declared: str) -> None:
    """Compare the one join of a plan with `join=`; several of them, and those in SQL text, are not compared.

    Raises:
        JobGraphError: it is of another type.
    """
    found = find_joins(relation)
    if len(found) == 1 and found[0][0] is not JoinType(declared.upper()):
        kind = found[0][0]
        holds = f"a join of type {kind.lower()!r}" if kind else "a cross join"
        raise JobGraphError(
            f"vertex {vertex!r}: join={declared!r} is declared, but its plan holds {holds}; correct one of the two"
        )


def spreads_a_side(declared: str) -> bool:
    """Whether a hot key of one side or the other may be spread in a step that is such a join and nothing else."""
    sides = splittable_sides(JoinType(declared.upper()))
    return sides.left or sides.right
