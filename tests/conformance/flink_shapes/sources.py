"""Topic source_inference."""

from __future__ import annotations

from typing import Any

from airflow_abs.core.input_division import divide_inputs

from airflow_abs.core.decide.parallelism import resolve_max_parallelism
from airflow_abs.core.decide.sources import (
    decide_source_parallelism,
    default_source_parallelism,
    merge_inferred,
    resolve_default_source_parallelism,
    source_upper_bound,
)
from flink_shapes.notation import (
    Given,
    inclusive,
    is_first_generation,
    measured_input,
    number_or_none,
    pick,
    vertex_bounds,
)


def source_inference(version: str | None, given: Given) -> dict[str, Any]:
    if "default-source-parallelism" in given:
        return _fall_back(version, given)
    if "all_to_all_bytes_by_partition" in given:
        return _with_inputs(given)
    vertex_max = pick(given, "vertex_max_parallelism", default=128)
    upper = source_upper_bound(
        given.get("default_source_parallelism"), given.get("global_max_parallelism", 128), vertex_max
    )
    set_by_user = number_or_none(pick(given, "vertex_parallelism", "vertex_initial_parallelism"))
    one = pick(given, "merged_inferred", "inferred", default=-1)
    several = next((answers for answers in given.values() if isinstance(answers, list)), [one])
    merged = merge_inferred(several, vertex_max)
    return {
        "source_parallelism_upper_bound": upper,
        "merged_inferred": -1 if merged is None else merged,
        "parallelism": decide_source_parallelism(set_by_user, merged, upper).parallelism,
    }


def _fall_back(version: str | None, given: Given) -> dict[str, Any]:
    configured = given["default-source-parallelism"]
    if is_first_generation(version):
        return {"source_parallelism": default_source_parallelism(configured)}
    most = resolve_max_parallelism(given.get("max-parallelism"), number_or_none(given.get("parallelism.default")))
    return {
        "source_parallelism_before_vertex_cap": resolve_default_source_parallelism(configured, most),
        "max_parallelism": most,
    }


def _with_inputs(given: Given) -> dict[str, Any]:
    entry = measured_input({"bytes_by_partition": given["all_to_all_bytes_by_partition"]})
    division = divide_inputs(
        [entry],
        vertex_bounds(given),
        given["data_volume_per_task"],
        preset=number_or_none(given.get("vertex_initial_parallelism")),
    )
    return {
        "parallelism": division.parallelism,
        "subpartition_ranges": [inclusive(blocks[0].subpartitions) for blocks in division.consumed[0]],
    }
