"""Bounds of a number of subtasks, and powers of two near it. The rules are in `region_parallelism`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_abs.core.checks import check_int
from airflow_abs.core.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class Clamp:
    """One bound that changed a decided number: what was decided, the bound, what is used instead."""

    name: str
    decided: int
    bound: int
    used: int

    def __str__(self) -> str:
        return f"{self.name} {self.bound}: decided {self.decided}, used {self.used}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"name": self.name, "decided": self.decided, "bound": self.bound, "used": self.used}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Clamp:
        """Inverse of `to_json`."""
        return cls(data["name"], data["decided"], data["bound"], data["used"])


def apply_bound(name: str, decided: int, bound: int, clamps: list[Clamp], *, lower: bool) -> int:
    """Return `decided` moved to the bound if it is beyond it, and note the clamp."""
    used = max(decided, bound) if lower else min(decided, bound)
    if used != decided:
        clamps.append(Clamp(name, decided, bound, used))
    return used


MAX_PARALLELISM = "max_parallelism"
"""Name of the upper bound in reasons."""
MAX_MAP_LENGTH = "max_map_length"
"""Name of the bound of what starts subtasks, which gives way to no other."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Fewest and most subtasks allowed, both inclusive."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        check_int("min_parallelism", self.lower, at_least=1)
        check_int("max_parallelism", self.upper, at_least=1)
        if self.lower > self.upper:
            raise InvalidValueError(
                f"min_parallelism {self.lower} exceeds max_parallelism {self.upper}; expected at most {self.upper}"
            )

    def __str__(self) -> str:
        return f"parallelism {self.lower} to {self.upper}"


def normalise_bounds(bounds: Bounds) -> Bounds:
    """Round the lower bound up and the upper one down to powers of two.

    Raises:
        InvalidValueError: no power of two lies between the bounds.
    """
    lower, upper = power_of_two_from(bounds.lower), power_of_two_up_to(bounds.upper)
    if lower > upper:
        raise InvalidValueError(
            f"min_parallelism {bounds.lower} and max_parallelism {bounds.upper}: expected a power of two between them"
        )
    return Bounds(lower, upper)


def divide_up(dividend: int, divisor: int) -> int:
    """Quotient rounded up, exact at any size."""
    return -(-dividend // divisor)


def power_of_two_up_to(number: int) -> int:
    """Largest power of two that is not above `number`; 0 for 0."""
    check_int("number", number, at_least=0)
    return 1 << (number.bit_length() - 1) if number else 0


def power_of_two_from(number: int) -> int:
    """Smallest power of two that is not below `number`; 0 for 0."""
    check_int("number", number, at_least=0)
    return 1 << (number - 1).bit_length() if number else 0


def round_to_power_of_two(number: int) -> int:
    """Closest power of two; the midpoint goes up, 0 stays 0."""
    down, up = power_of_two_up_to(number), power_of_two_from(number)
    return down if number < (up + down) // 2 else up
