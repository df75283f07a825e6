"""Whether a vertex is what its author declared: one join of its two inputs, and nothing that needs whole keys."""

from __future__ import annotations

import logging
import re
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.join_types import JoinType, splittable_sides
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.relations import Relation
from airflow_abs.spark.template import find_joins, find_placeholders

log = logging.getLogger(__name__)

# Operators of Spark's analysed plan that treat each row by itself; besides the one join.
_ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias", "LocalRelation", "ResolvedHint", "Generate"})
_OPERATOR = re.compile(r"^[\s:+-]*([A-Za-z]+)", re.MULTILINE)
_ANALYSED = re.compile(r"== Analyzed Logical Plan ==\n[^\n]*\n(.*?)\n\n==", re.DOTALL)


def find_splittable(session: Any, vertex: str, relation: Relation, declared: str) -> frozenset[str]:
    """The placeholders of the sides whose rows of one key may be spread while the other side's are repeated.

    None of them if the plan does more than to join two inputs once, row by row: then rows of a key belong together.

    Raises:
        JobGraphError: the plan joins the two inputs another way than was declared.
    """
    found = find_joins(relation)
    others = _other_operators(session, relation)
    if len(found) != 1 or others:
        what = f"{len(found)} joins" if len(found) != 1 else f"{', '.join(others)} besides the join"
        log.info("vertex %r: join=%r is not spread over several subtasks: its plan holds %s", vertex, declared, what)
        return frozenset()
    ((kind, left, right),) = found
    if kind is not JoinType(declared.upper()):
        holds = f"a join of type {kind.lower()!r}" if kind else "a cross join"
        raise JobGraphError(
            f"vertex {vertex!r}: join={declared!r} is declared, but its plan holds {holds}; correct one of the two"
        )
    sides = splittable_sides(kind)
    of_left, of_right = find_placeholders(left), find_placeholders(right)
    if of_left & of_right:
        return frozenset()
    return (of_left if sides.left else frozenset()) | (of_right if sides.right else frozenset())


def _other_operators(session: Any, relation: Relation) -> list[str]:
    """What Spark found in the plan that may look at several rows at once, also inside of expressions."""
    explained = session.client.explain_string(protos().Plan(root=relation), "extended")
    analysed = _ANALYSED.search(explained)
    if analysed is None:
        return ["an unknown plan"]
    joins = {"Join"}
    return sorted(set(_OPERATOR.findall(analysed[1])) - _ROW_BY_ROW - joins)
