"""Join types, and which side of a join may be treated how."""

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


class JoinSide(StrEnum):
    """One of the two inputs."""

    LEFT = "left"
    RIGHT = "right"


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


def broadcastable_sides(join: JoinType) -> JoinSides:
    """Sides that every subtask may read whole: the mirror image of the splittable ones."""
    splittable = splittable_sides(join)
    return JoinSides(left=splittable.right, right=splittable.left)
