"""Skew: subpartitions far above the others, and joins that may spread them over several subtasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from airflow_abs.core.checks import check_int, check_number, check_sizes
from airflow_abs.core.decide.decision import Decision
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.graph.join_types import JoinSides, JoinType, splittable_sides


class SkewedJoinStrategy(StrEnum):
    """When to spread skewed keys: if it costs no extra shuffle, even if it does, or never."""

    AUTO = "auto"
    FORCED = "forced"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SkewOptions:
    """A subpartition is skewed above `factor` times the median, and above `threshold_bytes` in any case."""

    factor: float = 4.0
    threshold_bytes: int = 256 * 2**20

    def __post_init__(self) -> None:
        check_number("skew factor", self.factor, at_least=0)
        check_int("skew threshold", self.threshold_bytes, at_least=0)

    def threshold_for(self, bytes_by_subpartition: Sequence[int]) -> int:
        """Bytes above which a subpartition is skewed among these."""
        return compute_skew_threshold(compute_median(bytes_by_subpartition), self)


@dataclass(frozen=True, slots=True)
class SkewedJoinDecision(Decision):
    """Which sides are released from keeping a key in one subtask, and the numbers that led to it."""

    release: JoinSides
    join: JoinType
    options: SkewOptions
    left_largest: int
    left_threshold: int
    right_largest: int
    right_threshold: int


def compute_median(sizes: Sequence[int]) -> int:
    """Median rounded down, at least 1."""
    check_sizes("sizes", sizes)
    if not sizes:
        raise InvalidValueError("median: expected at least one size, found none")
    ordered = sorted(sizes)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
    return max(median, 1)


def compute_skew_threshold(median: int, options: SkewOptions) -> int:
    """Bytes above which a subpartition is skewed, given the median of all."""
    return int(max(median * options.factor, options.threshold_bytes))


def compute_target_size(bytes_by_subpartition: Sequence[int], skew_threshold: int, target_bytes: int) -> int:
    """Bytes that a piece of a skewed subpartition should have: the average of the others, at least the target."""
    others = [size for size in bytes_by_subpartition if size <= skew_threshold]
    return max(target_bytes, sum(others) // len(others)) if others else target_bytes


def decide_skewed_join(
    join: JoinType,
    left_bytes: Sequence[int],
    right_bytes: Sequence[int],
    options: SkewOptions,
    *,
    strategy: SkewedJoinStrategy = SkewedJoinStrategy.AUTO,
    needs_extra_shuffle: bool = False,
    is_broadcast: bool = False,
) -> SkewedJoinDecision:
    """Decide, once both sides have finished, which of them may be spread.

    Args:
        join: its type decides which sides may be.
        left_bytes: bytes by subpartition.
        right_bytes: bytes by subpartition.
        options: what counts as skewed.
        strategy: `auto` gives up where a shuffle would have to be added, `forced` adds it.
        needs_extra_shuffle: whether a consumer relies on the join's output being dealt out by its keys.
        is_broadcast: whether the join was turned into a broadcast join already.
    """
    left, right = options.threshold_for(left_bytes), options.threshold_for(right_bytes)
    allowed = splittable_sides(join)
    release = JoinSides(allowed.left and max(left_bytes) > left, allowed.right and max(right_bytes) > right)
    reason = _refusal(strategy, needs_extra_shuffle=needs_extra_shuffle, is_broadcast=is_broadcast)
    if reason:
        release = JoinSides(False, False)
    else:
        sides = [name for name, released in (("left", release.left), ("right", release.right)) if released]
        reason = f"skewed and spreadable: {' and '.join(sides)}" if sides else f"no skewed side that {join} may spread"
    return SkewedJoinDecision(
        "skewed_join", reason, release, join, options, max(left_bytes), left, max(right_bytes), right
    )


def _refusal(strategy: SkewedJoinStrategy, *, needs_extra_shuffle: bool, is_broadcast: bool) -> str:
    if strategy is SkewedJoinStrategy.NONE:
        return "strategy none"
    if is_broadcast:
        return "already a broadcast join"
    if strategy is SkewedJoinStrategy.AUTO and needs_extra_shuffle:
        return "strategy auto adds no shuffle"
    return ""
