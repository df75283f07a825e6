"""Topics skewed_join and broadcast_join."""

from __future__ import annotations

from typing import Any

from airflow_abs.core.broadcast_join import decide_broadcast_join
from airflow_abs.core.input_division import divide_all_to_all
from airflow_abs.core.skewed_slices import aggregate_inputs, combine

from airflow_abs.core.decide.parallelism import Bounds
from airflow_abs.core.decide.skew import (
    SkewedJoinStrategy,
    SkewOptions,
    compute_median,
    compute_skew_threshold,
    compute_target_size,
    decide_skewed_join,
)
from airflow_abs.core.graph.join_types import JoinType, broadcastable_sides, splittable_sides
from flink_shapes.notation import Given, bytes_by_subtask, measured_input, pick, show_consumed


def broadcast_join(version: str | None, given: Given) -> dict[str, Any]:
    join = JoinType(given["join_type"].upper())
    if "broadcast_threshold" not in given:
        sides = broadcastable_sides(join)
        return {"left": sides.left, "right": sides.right}
    decision = decide_broadcast_join(join, given["left_bytes"], given["right_bytes"], given["broadcast_threshold"])
    return {"broadcast": decision.broadcast, "build_side": decision.build_side, "decision": decision.reason}


def skewed_join(version: str | None, given: Given) -> dict[str, Any]:
    if "left_subpartition_bytes" in given:
        return _decide(given)
    if "min_parallelism" in given or "parallelism" in given:
        return _divide(given)
    return _aggregate(given) if "inputs" in given else _single_rule(given)


def _single_rule(given: Given) -> dict[str, Any]:
    match given:
        case {"lists": lists}:
            return {"product": [list(combination) for combination in combine(lists)]}
        case {"values": sizes}:
            return {"median": compute_median(sizes)}
        case {"median": median}:
            skew = SkewOptions(given["skewed_factor"], pick(given, "default_threshold", "skewed_threshold"))
            return {"threshold": compute_skew_threshold(median, skew)}
        case {"subpartition_bytes": sizes, "skewed_threshold": threshold, "data_volume_per_task": volume}:
            return {"target_size": compute_target_size(sizes, threshold, volume)}
    sides = splittable_sides(JoinType(given["join_type"].upper()))
    return {"left_may_be_split": sides.left, "right_may_be_split": sides.right}


def _decide(given: Given) -> dict[str, Any]:
    decision = decide_skewed_join(
        JoinType(given["join_type"].upper()),
        given["left_subpartition_bytes"],
        given["right_subpartition_bytes"],
        _skew(given),
        strategy=SkewedJoinStrategy(given.get("strategy", "auto")),
        needs_extra_shuffle=pick(given, "needs_extra_shuffle", "extra_shuffle", default=False),
        is_broadcast=pick(given, "is_broadcast", "broadcast_join", default=False),
    )
    return {
        "left_threshold": decision.left_threshold,
        "right_threshold": decision.right_threshold,
        "optimise_left": decision.release.left,
        "optimise_right": decision.release.right,
    }


def _divide(given: Given) -> dict[str, Any]:
    entries = [entry for entry in given["inputs"] for _ in range(entry.get("count", 1))]
    inputs = {index: measured_input(entry) for index, entry in enumerate(entries)}
    wanted = pick(given, "parallelism", "min_parallelism")
    bounds = Bounds(given.get("min_parallelism", wanted), given.get("max_parallelism", wanted))
    divided = divide_all_to_all(inputs, wanted, bounds, given["data_volume_per_task"], _skew(given))
    consumed: dict[str, Any] = {}
    sizes: dict[str, list[int]] = {}
    for index, entry in enumerate(entries):
        role = entry.get("role", str(index))
        own = bytes_by_subtask(divided[index], entry["bytes_by_partition"])
        consumed.setdefault(role, show_consumed(divided[index]))
        sizes[role] = [a + b for a, b in zip(sizes.get(role, [0] * len(own)), own, strict=True)]
    return {"parallelism": len(divided[0]), "consumed": consumed, "consumed_bytes_per_task": sizes}


def _aggregate(given: Given) -> dict[str, Any]:
    inputs = [measured_input(entry) for entry in given["inputs"] for _ in range(entry.get("count", 1))]
    whole = aggregate_inputs(inputs, given["data_volume_per_task"], _skew(given))
    sizes = whole.bytes_by_subpartition
    return {
        "target_size": whole.target_bytes,
        "threshold": whole.skew_threshold,
        "subpartition_bytes": list(sizes),
        "aggregated_subpartition_bytes": list(sizes),
        "splittable": bool(whole.bytes_by_partition),
        "max_partitions": whole.partitions,
        "skewed_subpartitions": [index for index, size in enumerate(sizes) if size > whole.skew_threshold],
    }


def _skew(given: Given) -> SkewOptions:
    return SkewOptions(given["skewed_factor"], given["skewed_threshold"])
