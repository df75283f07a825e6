"""Whether a join that was planned with two shuffles becomes a broadcast join, once the size of a side is known."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.core.checks import check_int
from airflow_abs.core.explain import Decision, format_bytes
from airflow_abs.core.joins import JoinSide, JoinType, broadcastable_sides

_RULE = "broadcast_join"


@dataclass(frozen=True, slots=True)
class BroadcastJoinDecision(Decision):
    """`broadcast` and `build_side` are None as long as another side must finish first."""

    broadcast: bool | None
    build_side: JoinSide | None
    join: JoinType
    left_bytes: int | None
    right_bytes: int | None
    threshold_bytes: int

    @property
    def must_wait(self) -> bool:
        """Whether the decision needs the other side's bytes."""
        return self.broadcast is None


def decide_broadcast_join(
    join: JoinType, left_bytes: int | None, right_bytes: int | None, threshold_bytes: int
) -> BroadcastJoinDecision:
    """Decide from the sides that have finished (None: not yet); a side must be smaller than the threshold.

    One small finished side that the join type allows is enough; the left one is looked at first. If both are known and
    neither qualifies, the join stays shuffled and the smaller side builds (the right one if they are equal). A negative
    threshold turns the choice off.
    """
    check_int("threshold_bytes", threshold_bytes)
    inputs = (join, left_bytes, right_bytes, threshold_bytes)
    allowed = broadcastable_sides(join)
    for side, size, may_build in (
        (JoinSide.LEFT, left_bytes, allowed.left),
        (JoinSide.RIGHT, right_bytes, allowed.right),
    ):
        if size is not None:
            check_int(f"{side} bytes", size, at_least=0)
        if size is not None and may_build and size < threshold_bytes:
            reason = f"{side} side of {format_bytes(size)} is below {format_bytes(threshold_bytes)}"
            return BroadcastJoinDecision(_RULE, reason, True, side, *inputs)
    if left_bytes is None or right_bytes is None:
        return BroadcastJoinDecision(_RULE, "wait for the other side", None, None, *inputs)
    build = JoinSide.LEFT if left_bytes < right_bytes else JoinSide.RIGHT
    reason = f"no side that may be broadcast is below {format_bytes(threshold_bytes)}"
    return BroadcastJoinDecision(_RULE, reason, False, build, *inputs)
