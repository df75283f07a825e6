"""Which line of the author's code made which relation: the client numbers relations, and here the lines are kept."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

from airflow_abs.spark.connect.shared_change import shared
from airflow_abs.spark.relations import Relation
from airflow_abs.spark.template import relations_in

_PYSPARK = "pyspark"
_OURS = str(Path(__file__).parents[2])
_MOST_LINES = 3


_SITES: ContextVar[dict[int, str] | None] = ContextVar("call_sites", default=None)
"""Of the transform that this thread compiles."""


@contextmanager
def recorded_call_sites() -> Iterator[dict[int, str]]:
    """Lines (``revenue.py:12``) by plan id of all relations that this thread makes inside the block."""
    sites: dict[int, str] = {}
    with _watched_plan_ids():
        token = _SITES.set(sites)
        try:
            yield sites
        finally:
            _SITES.reset(token)


@shared
@contextmanager
def _watched_plan_ids() -> Iterator[None]:
    from pyspark.sql.connect.plan import LogicalPlan

    original = LogicalPlan._fresh_plan_id

    def numbered() -> int:
        number: int = original()
        sites = _SITES.get()
        site = _author_line(sys._getframe(1)) if sites is not None else None
        if sites is not None and site is not None:
            sites[number] = site
        return number

    LogicalPlan._fresh_plan_id = staticmethod(numbered)
    try:
        yield
    finally:
        LogicalPlan._fresh_plan_id = staticmethod(original)


def find_lines(relation: Relation, kinds: Collection[str], sites: Mapping[int, str]) -> str:
    """Where relations of these kinds were made: `` at revenue.py:12``, or nothing if that is unknown."""
    found = [
        sites[message.common.plan_id]
        for message in relations_in(relation)
        if message.WhichOneof("rel_type") in kinds and message.common.plan_id in sites
    ]
    lines = sorted(set(found), key=_in_order)
    if not lines:
        return ""
    return f" at {' or '.join(lines[:_MOST_LINES])}" + (", ..." if len(lines) > _MOST_LINES else "")


def _author_line(frame: FrameType | None) -> str | None:
    """The innermost line outside of pyspark; None if our own code comes first."""
    while frame is not None:
        module: Any = frame.f_globals.get("__name__", "")
        file = frame.f_code.co_filename
        if module.split(".")[0] != _PYSPARK and not file.startswith("<"):
            return None if file.startswith(_OURS) else f"{Path(file).name}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _in_order(line: str) -> tuple[str, int]:
    file, _, number = line.rpartition(":")
    return file, int(number)
