"""Joins of rows that are distributed: which sides may be repeated, and when both sides' rows meet."""

from __future__ import annotations

from airflow_abs.spark.proof import refusals
from airflow_abs.spark.proof.explained import Operator, split_list
from airflow_abs.spark.proof.rows import Keys, Rows, Spread, groups_are_together, pairs_are_together, plain_keys

# Of which side every row, or none, reaches the output whatever the other side holds: it must not be repeated.
_KEEPS_LEFT = ("LeftOuter", "LeftSemi", "LeftAnti", "LeftSingle", "ExistenceJoin")
_KEEPS_RIGHT = ("RightOuter",)
_KEEPS_NONE = ("Inner", "Cross")
_FULL, _SEMI = "FullOuter", "LeftSemi"


def join_type(operator: Operator) -> str:
    """``Inner``, ``LeftOuter``, ..., without the column of an existence join."""
    return operator.detail("Join type").split("(")[0].strip() or "unknown"


def join_rows(operator: Operator, left: Rows, right: Rows) -> Rows:
    """The rows of a join.

    Raises:
        Refusal: rows of two subtasks would have to meet, or rows of a broadcast input would come out of each subtask.
    """
    kind = join_type(operator)
    inputs = left.inputs | right.inputs
    if kind not in (*_KEEPS_LEFT, *_KEEPS_RIGHT, *_KEEPS_NONE, _FULL):
        raise refusals.unknown(operator)
    if left.divided and right.divided:
        _check_both_divided(operator, left, right)
        return Rows(Spread.DIVIDED, _kept_keys(kind, left, right), inputs)
    if not left.divided and not right.divided:
        return Rows(Spread.REPLICATED, inputs=inputs)
    if kind == _SEMI and right.divided and _one_subtask_matches(operator, right):
        return Rows(Spread.DIVIDED, inputs=inputs)
    wrong = kind == _FULL or kind in (_KEEPS_RIGHT if left.divided else _KEEPS_LEFT)
    if wrong:
        raise refusals.outer_join(operator, kind, left, right)
    divided = left if left.divided else right
    return Rows(Spread.DIVIDED, divided.together, inputs)


def name_outer_keys(operator: Operator, rows: Rows, left: Rows, right: Rows) -> frozenset[Keys]:
    """Keys of a full outer join: a row has its left key or its right one (``coalesce(l, r)``)."""
    if join_type(operator) != _FULL or not (left.divided and right.divided):
        return rows.together
    pairs = join_pairs(operator)
    return frozenset(
        tuple(f"coalesce({one}, {other})" for one, other in zip(keys, others, strict=True))
        for keys in left.together
        for others in right.together
        if len(keys) == len(others) and all(pair in pairs for pair in zip(keys, others, strict=True))
    )


def _check_both_divided(operator: Operator, left: Rows, right: Rows) -> None:
    broadcast = any(rows.need is not None and rows.need.broadcast for rows in (left, right))
    if broadcast or operator.name.startswith(("CartesianProduct", "BroadcastNestedLoopJoin")):
        raise refusals.join(operator, left, right)
    if not pairs_are_together(left.together, right.together, join_pairs(operator)):
        raise refusals.join(operator, left, right)


def _one_subtask_matches(operator: Operator, right: Rows) -> bool:
    """True if all rows that a left row is compared equal with are in one subtask: only that one keeps it."""
    return groups_are_together(right.together, plain_keys(split_list(operator.detail("Right keys"))))


def join_keys(operator: Operator) -> tuple[list[str], list[str]]:
    """The keys of both sides exactly as Spark writes them; a null-safe comparison of two columns is two keys a side."""
    return split_list(operator.detail("Left keys")), split_list(operator.detail("Right keys"))


def join_pairs(operator: Operator) -> list[tuple[str, str]]:
    """The expressions that a join compares, left and right, in Spark's text."""
    sides = [plain_keys(keys) for keys in join_keys(operator)]
    return list(zip(*sides, strict=True)) if len(sides[0]) == len(sides[1]) else []


def _kept_keys(kind: str, left: Rows, right: Rows) -> frozenset[Keys]:
    """Where a row of the output is: with its left row, its right row, or both. NULLs for a missing row say nothing."""
    if kind in _KEEPS_NONE:
        return left.together | right.together
    if kind in _KEEPS_LEFT:
        return left.together
    return right.together if kind in _KEEPS_RIGHT else frozenset()
