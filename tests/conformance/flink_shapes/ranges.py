"""Topics ranges_all_to_all, ranges_by_bytes, subpartition_count."""

from __future__ import annotations

import operator
import re
from typing import Any

from airflow_abs.core.blocks import Block, DistributionPattern
from airflow_abs.core.input_division import divide_inputs
from airflow_abs.core.slices import Slice, cut_slices
from airflow_abs.core.subpartition_ranges import (
    all_to_all_blocks,
    broadcast_blocks,
    broadcast_range,
    consumer_range,
    count_subpartitions,
)

from airflow_abs.core.bisection import find_largest_legal, find_smallest_legal
from airflow_abs.core.decide.parallelism import Bounds, default_max_parallelism, resolve_max_parallelism
from airflow_abs.core.decide.ranges import BytePacker, IndexRange
from airflow_abs.core.decide.skew import SkewOptions
from flink_shapes.notation import (
    Given,
    inclusive,
    measured_input,
    number_or_none,
    show_block,
    show_consumed,
    vertex_bounds,
)
from flink_shapes.parallelism import parallelism_of_pure_source


def ranges_all_to_all(version: str | None, given: Given) -> dict[str, Any]:
    subpartitions = given["num_subpartitions"]
    broadcast = given.get("broadcast", False) and given["dynamic"]
    every = given.get("broadcast_consumes_all_subpartitions", False)
    if "consumer_index" in given:
        if broadcast:
            return {"subpartition_range": inclusive(broadcast_range(subpartitions, all_subpartitions=every))}
        span = consumer_range(given["consumer_index"], given["num_consumers"], subpartitions, dynamic=given["dynamic"])
        return {"subpartition_range": inclusive(span)}
    partitions = given.get("source_parallelism", 1)
    consumers = given.get("target_parallelism", given.get("num_consumers"))
    blocks = (
        broadcast_blocks(partitions, subpartitions, consumers, all_subpartitions=every)
        if broadcast
        else all_to_all_blocks(partitions, subpartitions, consumers, dynamic=given["dynamic"])
    )
    return {
        "consumed": [show_block(block) for block in blocks],
        "subpartition_ranges": [inclusive(block.subpartitions) for block in blocks],
    }


def subpartition_count(version: str | None, given: Given) -> dict[str, Any]:
    consumers = number_or_none(given.get("consumer_parallelism"))
    most = number_or_none(given.get("consumer_max_parallelism"))
    if most is None:
        most = resolve_max_parallelism(None, None) if consumers is None else default_max_parallelism(consumers)
    single = given.get("single_subpartition_contains_all_data", given.get("broadcast", False))
    counts = count_subpartitions(
        DistributionPattern(given["pattern"]),
        given["producer_parallelism"],
        consumers,
        most,
        dynamic=given["dynamic"],
        single=single,
    )
    return {"subpartitions_per_partition": counts}


def ranges_by_bytes(version: str | None, given: Given) -> dict[str, Any]:
    if "search" in given:
        find = find_smallest_legal if "smallest" in given["search"] else find_largest_legal
        return {"value": find(given["low"], given["high"], _predicate(given["legal"]))}
    if "slice_bytes" in given:
        return _slices(given)
    if "inputs" not in given:
        ranges = BytePacker(given["bytes"]).pack(given["limit"], given.get("max_range_size"))
        return {"ranges": [inclusive(span) for span in ranges]}
    if not given["inputs"]:
        return {"parallelism": parallelism_of_pure_source(version, given), "consumed": []}
    division = divide_inputs(
        [measured_input(entry) for entry in given["inputs"]],
        vertex_bounds(given),
        given["data_volume_per_task"],
        preset=number_or_none(given.get("vertex_initial_parallelism")),
        skew=SkewOptions(given.get("skewed_factor", 4.0), given.get("skewed_threshold", 256 * 2**20)),
    )
    return {
        "parallelism": division.parallelism,
        "consumed": [show_consumed(consumed) for consumed in division.consumed],
    }


def _slices(given: Given) -> dict[str, Any]:
    first = Block(IndexRange(0, 1), IndexRange(0, 1))
    slices = [Slice(first, size) for size in given["slice_bytes"]]
    bounds = Bounds(given["min_parallelism"], given["max_parallelism"])
    ranges = cut_slices([slices], bounds, given["data_volume_per_task"])
    return {"slice_ranges": ranges and [inclusive(span) for span in ranges]}


_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq}
_COMPUTE = {"div": operator.floordiv, "mod": operator.mod, "*": operator.mul, "+": operator.add, "-": operator.sub}


def _predicate(text: str) -> Any:
    """A condition on v such as `29 div v <= 3`, read from left to right."""
    left, comparison, right = re.fullmatch(r"(.*?)\s*(<=|>=|==|<|>)\s*(.*)", text).groups()

    def value_of(side: str, v: int) -> int:
        tokens = side.split()
        numbers = [v if token == "v" else int(token) for token in tokens[::2]]
        result = numbers[0]
        for name, number in zip(tokens[1::2], numbers[1:], strict=True):
            result = _COMPUTE[name](result, number)
        return result

    return lambda v: _COMPARE[comparison](value_of(left, v), value_of(right, v))
