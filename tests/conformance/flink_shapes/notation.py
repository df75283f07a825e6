"""Notation of the cases: inclusive ranges, -1 or null for "not set", several names for one thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.slots.resource_wait import Resources

Given = Mapping[str, Any]

_RESOURCES = {"desired": Resources.DESIRED, "sufficient": Resources.SUFFICIENT}


def pick(given: Given, *names: str, default: Any = None) -> Any:
    """The first of these names that is given."""
    return next((given[name] for name in names if name in given), default)


def number_or_none(value: int | None) -> int | None:
    """-1 means "not set"."""
    return None if value == -1 else value


def inclusive(span: IndexRange) -> list[int]:
    return [span.start, span.stop - 1]


def resources_of(step: Given) -> Resources:
    """Whatever else it is called is less than sufficient."""
    return _RESOURCES.get(step["resources"], Resources.INSUFFICIENT)
