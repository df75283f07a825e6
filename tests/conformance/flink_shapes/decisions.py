"""Topics parallelism, source_inference, ranges_all_to_all, ranges_by_bytes, skewed_join: what decides a region."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from airflow_abs.core.decide.hot_subpartitions import compute_hot_threshold, compute_median, compute_part_bytes
from airflow_abs.core.decide.parallelism import (
    round_to_power_of_two,
)
from airflow_abs.core.decide.ranges import split_by_count
from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionInputs, RegionOptions, SourceInput
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.join_types import JoinType, splittable_sides
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.records.plan import bind_options
from flink_shapes.notation import Given, inclusive, pick

PRODUCERS = 8  # of a join's sides where a case does not say how many subtasks wrote them


def parallelism(version: str | None, given: Given) -> dict[str, Any]:
    if set(given) == {"parallelism"}:
        return {"normalised": round_to_power_of_two(given["parallelism"])}
    if "configured_min_parallelism" in given:
        return _power_of_two(given)
    if "edges_to_same_result" in given:
        row = [given["bytes_per_subpartition"]] * given["derived_subpartitions"]
        edges = [_hash(str(edge), [row]) for edge in range(given["edges_to_same_result"])]
        return {"parallelism": _decide(given, edges).parallelism}
    inputs = [_spread(str(index), entry) for index, entry in enumerate(given["inputs"])]
    return {"parallelism": _decide(given, inputs).parallelism}


def _power_of_two(given: Given) -> dict[str, Any]:
    settings = JobSettings(
        strategy="power_of_two",
        target_bytes=given["data_volume_per_task"],
        min_parallelism=given["configured_min_parallelism"],
        max_parallelism=given["configured_max_parallelism"],
    )
    options = bind(settings, JobVertex("vertex"))
    hashed = {"broadcast": False, "bytes": given["non_broadcast_bytes"], "partitions": 1}
    inputs = [
        _spread("hashed", hashed | {"subpartitions": options.max_parallelism}),
        _spread("broadcast", {"broadcast": True, "bytes": given["broadcast_bytes"]}),
    ]
    decision = decide_region("vertex", inputs, [], options)
    initial = re.search(r" is (\d+)", decision.reason)
    before = int(initial[1]) if initial else 0  # "no input bytes"
    return {"parallelism": decision.parallelism, "before_normalising": before}


def bind(settings: JobSettings, vertex: JobVertex) -> RegionOptions:
    """The options of a job as they bind one vertex that reads another by key, as a plan binds them."""
    producer = JobVertex("producer", has_source=True)
    edge = JobEdge("producer", vertex.name, "hashed", Partitioning.HASH, ("key",))
    region = build_job_graph([producer, vertex], [edge], settings.max_parallelism, equal_ranges=True).region_of(
        vertex.name
    )
    return bind_options(settings, settings.slots, region)


def source_inference(version: str | None, given: Given) -> dict[str, Any]:
    """A source that infers n is one with n splits, each as large as the target."""
    target = given.get("data_volume_per_task", 1000)
    source = SourceInput("source", [target] * pick(given, "merged_inferred", "inferred"))
    inputs = (
        [_hash("other", given["all_to_all_bytes_by_partition"])] if "all_to_all_bytes_by_partition" in given else []
    )
    options = RegionOptions(
        target, min_parallelism=given.get("global_min_parallelism", 1), max_parallelism=given["vertex_max_parallelism"]
    )
    decision = decide_region("vertex", inputs, [source], options)
    return {"parallelism": decision.parallelism, "subpartition_ranges": _ranges(decision)}


def ranges_all_to_all(version: str | None, given: Given) -> dict[str, Any]:
    subpartitions = given["num_subpartitions"]
    if given["broadcast"]:
        BlockingInput("input", Partitioning.BROADCAST, [[1] * subpartitions])  # refused if there are several
    spans = [
        inclusive(span) for span in split_by_count(subpartitions, pick(given, "num_consumers", "target_parallelism"))
    ]
    if "consumer_index" in given:
        return {"subpartition_range": spans[given["consumer_index"]]}
    partitions = [0, given.get("source_parallelism", 1) - 1]
    return {"subpartition_ranges": spans, "consumed": [[partitions, span] for span in spans]}


def ranges_by_bytes(version: str | None, given: Given) -> dict[str, Any]:
    inputs = [_measured(str(index), entry) for index, entry in enumerate(given["inputs"])]
    # What a vertex infers for its sources is its own minimum.
    inferred = given.get("vertex_min_parallelism")
    sources = [SourceInput("source", [given["data_volume_per_task"]] * inferred)] if inferred else []
    decision = _decide(given, inputs, sources)
    consumed = []
    for entry in inputs:
        partitions = [0, len(entry.bytes_by_partition) - 1]
        spans = [[0, 0]] * decision.parallelism if entry.is_broadcast else _ranges(decision)
        consumed.append([[[partitions, span]] for span in spans])
    return {"parallelism": decision.parallelism, "consumed": consumed}


def skewed_join(version: str | None, given: Given) -> dict[str, Any]:
    match given:
        case {"left_subpartition_bytes": _}:
            return _join(given)
        case {"values": sizes}:
            return {"median": compute_median(sizes)}
        case {"subpartition_bytes": sizes, "skewed_threshold": threshold, "data_volume_per_task": target}:
            return {"target_size": compute_part_bytes(sizes, threshold, target)}
        case {"inputs": entries}:
            return _target_size(given, entries)
    sides = splittable_sides(JoinType(given["join_type"].upper()))
    return {"left_may_be_split": sides.left, "right_may_be_split": sides.right}


def _join(given: Given) -> dict[str, Any]:
    sizes = {"left": given["left_subpartition_bytes"], "right": given["right_subpartition_bytes"]}
    least = given["skewed_threshold"]
    sides = splittable_sides(JoinType(given["join_type"].upper()))
    splittable = (*(["left"] if sides.left else []), *(["right"] if sides.right else []))
    inputs = [_hash(name, _over_producers(of)) for name, of in sizes.items()]
    decision = decide_region("join", inputs, [], RegionOptions(least, splittable=splittable))
    split = {subtask.hot_part.input for subtask in decision.subtasks if subtask.hot_part}
    thresholds = {f"{name}_threshold": compute_hot_threshold(compute_median(of), least) for name, of in sizes.items()}
    return {**thresholds, "optimise_left": "left" in split, "optimise_right": "right" in split}


def _target_size(given: Given, entries: Sequence[Given]) -> dict[str, Any]:
    several = [
        _hash(f"{index} {k}", e["bytes_by_partition"]) for index, e in enumerate(entries) for k in range(e["count"])
    ]
    sizes = RegionInputs("join", tuple(several), ()).bytes_by_subpartition()
    threshold = compute_hot_threshold(compute_median(sizes), given["skewed_threshold"])
    return {"target_size": compute_part_bytes(sizes, threshold, given["data_volume_per_task"])}


def _decide(given: Given, inputs: Sequence[BlockingInput], sources: Sequence[SourceInput] = ()) -> RegionDecision:
    options = RegionOptions(
        given["data_volume_per_task"],
        min_parallelism=given["min_parallelism"],
        max_parallelism=given["max_parallelism"],
    )
    return decide_region("vertex", inputs, sources, options)


def _ranges(decision: RegionDecision) -> list[list[int]]:
    return [inclusive(subtask.subpartitions) for subtask in decision.subtasks if subtask.subpartitions]


def _hash(name: str, rows: Sequence[Sequence[int]]) -> BlockingInput:
    return BlockingInput(name, Partitioning.HASH, rows)


def _measured(name: str, entry: Given) -> BlockingInput:
    kind = Partitioning.BROADCAST if entry["broadcast"] else Partitioning.HASH
    return BlockingInput(name, kind, entry["bytes_by_partition"])


def _spread(name: str, entry: Given) -> BlockingInput:
    """So many bytes, as evenly over partitions and subpartitions as whole bytes allow."""
    if entry["broadcast"]:
        return BlockingInput(name, Partitioning.BROADCAST, [[entry["bytes"]]])
    cells = entry["partitions"] * entry["subpartitions"]
    each, rest = divmod(entry["bytes"], cells)
    sizes = [each + (cell < rest) for cell in range(cells)]
    width = entry["subpartitions"]
    return _hash(name, [sizes[start : start + width] for start in range(0, cells, width)])


def _over_producers(sizes: Sequence[int]) -> list[list[int]]:
    return [[size // PRODUCERS + (k < size % PRODUCERS) for size in sizes] for k in range(PRODUCERS)]
