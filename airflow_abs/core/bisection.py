"""Bisection over integers for a predicate that is assumed, not checked, to be monotone."""

from __future__ import annotations

from collections.abc import Callable

NO_LEGAL_VALUE = -1


def find_smallest_legal(low: int, high: int, is_legal: Callable[[int], bool]) -> int:
    """Smallest legal value of `low..high` (inclusive), or `NO_LEGAL_VALUE` if not even `high` is legal."""
    if not is_legal(high):
        return NO_LEGAL_VALUE
    while low <= high:
        middle = (low + high) // 2
        if is_legal(middle):
            high = middle - 1
        else:
            low = middle + 1
    return high + 1
