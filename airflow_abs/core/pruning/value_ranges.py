"""The values that a column may have, as ranges, and which files can hold one of them.

Values are compared as whole numbers or as texts: days of a date, microseconds of a time, the digits of a decimal, the
characters of a text by their code points, which is the order of their bytes in UTF-8, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact
from itertools import pairwise
from typing import Any

Value = int | str
Span = tuple[Value, ...]
"""Least and greatest value of a column in a file; empty if it is NULL in all rows."""

MOST_RANGES = 1_000
"""They are recorded with the decision."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Python rounds to 28 digits unless told otherwise; a bound and a value that is equal to it must stay equal.
_EXACT = Context(prec=76, traps=[Inexact])


@dataclass(frozen=True, slots=True)
class ValueRanges:
    """Closed ranges, ascending and apart. Every value is in one; what is outside of them is none, and NULL never is.

    `values` is how many different ones there are, None if they were not counted.
    """

    ranges: tuple[tuple[Value, Value], ...]
    values: int | None = None

    @staticmethod
    def covering(values: Iterable[Value], most: int = MOST_RANGES) -> ValueRanges:
        """Each value as a range of its own; neighbours share one if there are more than `most`."""
        ordered: Sequence[Any] = sorted(set(values))
        count = min(most, len(ordered))
        cuts = [number * len(ordered) // count for number in range(count + 1)] if count else [0]
        ranges = tuple((ordered[start], ordered[stop - 1]) for start, stop in pairwise(cuts))
        return ValueRanges(ranges, len(ordered))

    def may_hold(self, spans: Iterable[Span | None]) -> list[bool]:
        """For each file whether it may hold one of the values; None stands for an unknown file."""
        lows: list[Any] = [each[0] for each in self.ranges]
        highs: list[Any] = [each[1] for each in self.ranges]

        def meets(span: Span) -> bool:
            number = bisect_left(highs, span[0]) if span else len(highs)
            return number < len(highs) and bool(lows[number] <= span[-1])

        return [span is None or meets(span) for span in spans]


def comparable(value: Any) -> Value:
    """A date, a time (in UTC, or of the clock), a number or a text as it is compared; see the module.

    Raises:
        TypeError: it is none of these.
    """
    match value:
        case bool() | float():
            pass
        case int() | str():
            return value
        case datetime():
            return (value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH) // _MICROSECOND
        case date():
            return (value - _EPOCH.date()).days
        case Decimal():
            return int(value.scaleb(-int(value.as_tuple().exponent), _EXACT))
    raise TypeError(f"{value!r} is not a date, time, integer, decimal or string")
