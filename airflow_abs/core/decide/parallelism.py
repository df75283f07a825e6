"""How many subtasks a vertex gets, from the bytes that it will read.

Two rules behind one protocol: `BalancedRule` (Flink 1.17 and later; the default) and `PowerOfTwoRule` (Flink 1.15).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from airflow_abs.core.checks import check_int
from airflow_abs.core.decide.decision import Clamp, Decision, apply_bound
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.wording import format_bytes

DEFAULT_MAX_PARALLELISM = 128
UPPER_LIMIT_OF_MAX_PARALLELISM = 32768
MAX_PARALLELISM = "max_parallelism"
"""Name of the upper bound in reasons."""


@dataclass(frozen=True, slots=True)
class InputVolume:
    """Bytes that a vertex will read: in total over its partitioned inputs, and again by every subtask (broadcast)."""

    partitioned: int
    broadcast: int = 0

    def __post_init__(self) -> None:
        check_int("partitioned bytes", self.partitioned, at_least=0)
        check_int("broadcast bytes", self.broadcast, at_least=0)


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


@dataclass(frozen=True, slots=True)
class ParallelismDecision(Decision):
    """A number of subtasks and how it came about; `initial` is the number before any rounding and bound."""

    volume: InputVolume
    bounds: Bounds
    initial: int
    parallelism: int
    clamps: tuple[Clamp, ...]


class ParallelismRule(Protocol):
    """From volume and bounds to a number of subtasks."""

    def decide(self, volume: InputVolume, bounds: Bounds) -> ParallelismDecision:
        """Decide; the answer lies within the bounds as the rule understands them."""


@dataclass(frozen=True, slots=True)
class BalancedRule:
    """Any number: partitioned bytes over the target, rounded up. Broadcast bytes do not count."""

    target_bytes: int

    def __post_init__(self) -> None:
        check_int("target_bytes", self.target_bytes, at_least=1)

    def decide(self, volume: InputVolume, bounds: Bounds) -> ParallelismDecision:
        """Decide within exactly these bounds; nothing to read gives the lower one."""
        initial = divide_up(volume.partitioned, self.target_bytes)
        parallelism, clamps = _clamp(initial, bounds)
        reason = f"{format_bytes(volume.partitioned)} at a target of {format_bytes(self.target_bytes)}"
        return ParallelismDecision("balanced", reason, volume, bounds, initial, parallelism, clamps)


@dataclass(frozen=True, slots=True)
class PowerOfTwoRule:
    """The closest power of two: partitioned bytes over what broadcast inputs leave of the target.

    Broadcast bytes take at most half of the target. The midpoint between two powers goes up, so that the average
    subtask reads 0.75 to 1.5 times the target.
    """

    target_bytes: int

    def __post_init__(self) -> None:
        check_int("target_bytes", self.target_bytes, at_least=1)

    def decide(self, volume: InputVolume, bounds: Bounds) -> ParallelismDecision:
        """Decide within the bounds after `normalise_bounds`."""
        broadcast = min(volume.broadcast, divide_up(self.target_bytes, 2))
        left = max(1, self.target_bytes - broadcast)
        initial = divide_up(volume.partitioned, left)
        parallelism, clamps = _clamp(round_to_power_of_two(initial), normalise_bounds(bounds))
        reason = f"{format_bytes(volume.partitioned)} at a target of {format_bytes(left)} is {initial}"
        if broadcast:
            reason += f" ({format_bytes(broadcast)} of the target set aside for broadcast inputs)"
        return ParallelismDecision("power_of_two", reason, volume, bounds, initial, parallelism, clamps)


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


def bounds_of_vertex(job: Bounds, *, vertex_min: int | None = None, vertex_max: int | None = None) -> Bounds:
    """Bounds of one vertex without a preset parallelism: its own maximum lowers both bounds of the job."""
    lower, upper = max(job.lower, vertex_min or 1), job.upper
    if vertex_max is not None:
        check_int("max_parallelism of the vertex", vertex_max, at_least=1)
        lower, upper = min(lower, vertex_max), min(upper, vertex_max)
    return Bounds(lower, upper)


def resolve_max_parallelism(configured: int | None, default_parallelism: int | None) -> int:
    """Most subtasks of any vertex: as configured, else the job's default parallelism, else 128."""
    for name, value in (("max_parallelism", configured), ("default parallelism", default_parallelism)):
        if value is not None:
            return check_int(name, value, at_least=1)
    return DEFAULT_MAX_PARALLELISM


def default_max_parallelism(parallelism: int) -> int:
    """Maximum for a vertex that only has a parallelism: 1.5 times it as a power of two, within 128..32768."""
    check_int("parallelism", parallelism, at_least=1, at_most=UPPER_LIMIT_OF_MAX_PARALLELISM)
    wanted = power_of_two_from(parallelism + parallelism // 2)
    return min(max(wanted, DEFAULT_MAX_PARALLELISM), UPPER_LIMIT_OF_MAX_PARALLELISM)


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


def _clamp(decided: int, bounds: Bounds) -> tuple[int, tuple[Clamp, ...]]:
    clamps: list[Clamp] = []
    used = apply_bound("min_parallelism", decided, bounds.lower, clamps, lower=True)
    used = apply_bound(MAX_PARALLELISM, used, bounds.upper, clamps, lower=False)
    return used, tuple(clamps)
