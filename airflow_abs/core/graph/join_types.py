"""Join types, and which sides of a join may be spread over several subtasks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class JoinType(StrEnum):
    """Kind of a join; SEMI and ANTI keep rows of the left side."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"
    ANTI = "ANTI"


@dataclass(frozen=True, slots=True)
class JoinSides:
    """A yes or no for each side."""

    left: bool
    right: bool


def splittable_sides(join: JoinType) -> JoinSides:
    """Sides whose rows of one key may be spread over several subtasks while the other side's are repeated.

    A side whose unmatched rows the join must emit cannot be the repeated one.
    """
    return JoinSides(
        left=join in (JoinType.INNER, JoinType.LEFT, JoinType.SEMI, JoinType.ANTI),
        right=join in (JoinType.INNER, JoinType.RIGHT),
    )
