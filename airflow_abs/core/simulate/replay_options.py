"""Other options to decide a recorded region by."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from airflow_abs.core.decide.region_inputs import RegionOptions


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What to decide by instead; None keeps what was recorded.

    A `target_bytes` that is given does not grow to save waves of subtasks, as a default may have. A
    `max_parallelism` above the number of subpartitions that were written has no effect on ranges.
    """

    target_bytes: int | None = None
    min_parallelism: int | None = None
    max_parallelism: int | None = None
    strategy: str | None = None
    slots: int | None = None

    def applied_to(self, recorded: RegionOptions) -> RegionOptions:
        """The recorded options with these in their place; the minimum is kept within the maximum.

        Raises:
            InvalidValueError: the options contradict each other.
        """
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if self.target_bytes is not None:
            chosen["most_waves"] = None
        options = replace(recorded, **{**chosen, "min_parallelism": 1})
        least = self.min_parallelism or recorded.min_parallelism
        return replace(options, min_parallelism=min(least, options.max_parallelism))
