"""Topic slots: parallelism from free slots, and whether a change of it is worth a rescale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_abs.core.streaming.rescale import EnforceMinimalIncrease, EnforceParallelismChange
from airflow_abs.core.streaming.slot_parallelism import (
    ReactiveParallelism,
    VertexDemand,
    count_required_slots,
    decide_slot_parallelism,
    default_max_parallelism,
)
from flink_shapes.notation import Given, number_or_none


def slots(version: str | None, given: Given) -> dict[str, Any]:
    if "controller" in given:
        return {"rescale": _controller(given).should_rescale(_by_vertex(given["current"]), _by_vertex(given["new"]))}
    if "slot_sharing_groups" in given:
        groups = {
            name: [VertexDemand(v["vertex"], v.get("min_parallelism", 1), v["parallelism"]) for v in vertices]
            for name, vertices in given["slot_sharing_groups"].items()
        }
        answer: dict[str, Any] = {"required_slots": count_required_slots(groups)}
        if "free_slots" in given:
            answer["parallelism"] = decide_slot_parallelism(groups, given["free_slots"]).parallelism
        return answer
    most = number_or_none(given.get("max_parallelism"))
    reactive = ReactiveParallelism.of(given["parallelism"], most)
    answer = {
        "max_parallelism": reactive.max_parallelism,
        "adjusted_parallelism": reactive.parallelism,
        "default_max_parallelism": default_max_parallelism(given["parallelism"]),
    }
    if "rescale_max_to" in given:
        answer["can_rescale_max"] = reactive.can_raise_max_to(given["rescale_max_to"])
    return answer


def _controller(given: Given) -> EnforceMinimalIncrease | EnforceParallelismChange:
    if given["controller"] == "enforce-minimal-increase":
        return EnforceMinimalIncrease(given.get("min_parallelism_increase", 1))
    return EnforceParallelismChange()


def _by_vertex(parallelism: Any) -> Mapping[str, int]:
    return parallelism if isinstance(parallelism, Mapping) else {"vertex": parallelism}
