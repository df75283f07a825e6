"""`Rate`: rows of Spark's own making, as the source of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rate:
    """Unbounded rows for trying out a stream: `timestamp`, and a `value` that counts up from 0.

    Args:
        rows_per_second: over all partitions.

    Raises:
        ValueError: less than one.
    """

    rows_per_second: int = 1

    def __post_init__(self) -> None:
        if (
            isinstance(self.rows_per_second, bool)
            or not isinstance(self.rows_per_second, int)
            or self.rows_per_second < 1
        ):
            raise ValueError(f"Rate: rows_per_second is {self.rows_per_second!r}; expected a number of at least 1")

    @property
    def bound(self) -> str:
        """It never ends."""
        return ""

    def to_json(self) -> dict[str, Any]:
        return {"kind": "rate", "rows_per_second": self.rows_per_second}
