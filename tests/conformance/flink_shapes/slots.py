"""Topic slots: how many slots a stream wants, and whether a change of its parallelism is worth a rescale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_abs.core.streaming.rescale import EnforceMinimalIncrease, EnforceParallelismChange
from airflow_abs.core.streaming.slots_wanted import SlotsWanted
from flink_shapes.notation import Given, number_or_none


def slots(version: str | None, given: Given) -> dict[str, Any]:
    if "controller" in given:
        return {"rescale": _controller(given).should_rescale(_by_vertex(given["current"]), _by_vertex(given["new"]))}
    wanted = SlotsWanted.of(number_or_none(given.get("max_parallelism")), given["parallelism"]).desired
    return {"max_parallelism": wanted, "adjusted_parallelism": wanted}


def _controller(given: Given) -> EnforceMinimalIncrease | EnforceParallelismChange:
    if given["controller"] == "enforce-minimal-increase":
        return EnforceMinimalIncrease(given.get("min_parallelism_increase", 1))
    return EnforceParallelismChange()


def _by_vertex(parallelism: Any) -> Mapping[str, int]:
    return parallelism if isinstance(parallelism, Mapping) else {"vertex": parallelism}
