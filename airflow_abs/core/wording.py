"""Sizes and counts as people read them."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_bytes(size: float) -> str:
    """`3.4 GiB`, `512 B`: one decimal, binary units."""
    unit = 0
    while round(size, 1) >= 1024 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def format_count(count: int, noun: str) -> str:
    """`1 subtask`, `4 subtasks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_indexes(indexes: Sequence[int]) -> str:
    """`0-4, 7`, of indexes in ascending order."""
    spans: list[list[int]] = []
    for index in indexes:
        if spans and spans[-1][1] == index - 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def format_duration(seconds: float) -> str:
    """`0.3 s`, `17.2 s`, `2 min 5 s`, `1 h 3 min`."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes} min {left} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
