"""Topics parallelism, source_inference, ranges_all_to_all, ranges_by_bytes, skewed_join: what decides a region."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from airflow_abs.core.decide.file_ranges import locate_files
from airflow_abs.core.decide.hot_subpartitions import compute_hot_threshold, compute_median, compute_part_bytes
from airflow_abs.core.decide.parallelism import (
    round_to_power_of_two,
)
from airflow_abs.core.decide.ranges import split_by_count
from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionInputs, RegionOptions, SourceInput
from airflow_abs.core.decide.sources import inferred_number
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.join_types import JoinType, splittable_sides
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.records.plan import bind_options
from flink_shapes.notation import Given, inclusive, number_or_none, pick

PRODUCERS = 8  # of a join's sides where a case does not say how many subtasks wrote them


def parallelism(version: str | None, given: Given) -> dict[str, Any]:
    match given:
        case {"parallelism.default": _}:
            return {"max_parallelism": _settings(given).max_parallelism}
        case {"parallelism": number}:
            return {"normalised": round_to_power_of_two(number)}
        case {"configured_min_parallelism": _}:
            return _power_of_two(given)
        case {"pattern": "pointwise"}:
            row = [given["bytes_per_subpartition"]] * given["derived_subpartitions_per_partition"]
            inputs = [BlockingInput("input", Partitioning.RESCALE, [row] * given["source_parallelism"])]
        case {"edges_to_same_result": edges}:
            row = [given["bytes_per_subpartition"]] * given["derived_subpartitions"]
            inputs = [_hash(str(edge), [row]) for edge in range(edges)]
        case _:
            inputs = [_spread(str(index), entry) for index, entry in enumerate(given["inputs"])]
    return {"parallelism": decide_region("vertex", inputs, [], _options(given, inputs)).parallelism}


def _power_of_two(given: Given) -> dict[str, Any]:
    hashed = _hash("hashed", [[0]])  # only how many subpartitions it has is not known yet
    options = _options(given, [hashed], strategy="power_of_two")
    spread = {"broadcast": False, "partitions": 1, "subpartitions": options.max_parallelism}
    inputs = [
        _spread("hashed", spread | {"bytes": given["non_broadcast_bytes"]}),
        _spread("broadcast", {"broadcast": True, "bytes": given["broadcast_bytes"]}),
    ]
    decision = decide_region("vertex", inputs, [], options)
    initial = re.search(r" is (\d+)", decision.reason)
    before = int(initial[1]) if initial else 0  # "no input bytes"
    return {"parallelism": decision.parallelism, "before_normalising": before}


_SETTINGS = {
    "target_bytes": ("data_volume_per_task",),
    "min_parallelism": ("min_parallelism", "configured_min_parallelism", "global_min_parallelism"),
    "max_parallelism": (
        "max_parallelism",
        "configured_max_parallelism",
        "global_max_parallelism",
        "max-parallelism",
        "execution.batch.adaptive.auto-parallelism.max-parallelism",
    ),
    "parallelism": ("parallelism.default",),
    "default_source_parallelism": ("default_source_parallelism", "default-source-parallelism"),
}


def _settings(given: Given, **others: Any) -> JobSettings:
    """What somebody who writes a job would set."""
    found = {name: number_or_none(pick(given, *names)) for name, names in _SETTINGS.items()}
    return JobSettings(**found, **others)


def _options(
    given: Given, inputs: Sequence[BlockingInput], *, has_source: bool = False, **others: Any
) -> RegionOptions:
    """The settings of a job as a plan binds them to one vertex of its graph."""
    settings = _settings(given, **others)
    producers = [JobVertex(f"producer of {entry.name}", has_source=True) for entry in inputs]
    edges = [JobEdge(f"producer of {each.name}", "vertex", each.name, each.partitioning, ("key",)) for each in inputs]
    fixed = number_or_none(pick(given, "vertex_initial_parallelism", "vertex_parallelism", default=-1))
    vertex = JobVertex("vertex", fixed, given.get("vertex_max_parallelism"), has_source=has_source)
    even = settings.strategy == "power_of_two"
    graph = build_job_graph([*producers, vertex], edges, settings.max_parallelism, equal_ranges=even)
    return bind_options(settings, settings.slots, graph.region_of("vertex"))


SPLITS = 1000  # more than any case asks for


def source_inference(version: str | None, given: Given) -> dict[str, Any]:
    """A source of unknown size that may infer a number."""
    told = inferred_number(pick(given, "merged_inferred", "inferred", default=-1))
    source = SourceInput("source", [1] * SPLITS, size_from="default", parallelism=told)
    inputs = (
        [_hash("other", given["all_to_all_bytes_by_partition"])] if "all_to_all_bytes_by_partition" in given else []
    )
    generation = {"strategy": "power_of_two"} if version == "1.15-1.18" else {}
    options = _options(given, inputs, has_source=True, **generation)
    decision = decide_region("vertex", inputs, [source], options)
    return {
        "parallelism": decision.parallelism,
        "source_parallelism": decision.parallelism,
        "source_parallelism_before_vertex_cap": decision.parallelism,
        "source_parallelism_upper_bound": options.source_bound,
        "max_parallelism": options.max_parallelism,
        "subpartition_ranges": _ranges(decision),
    }


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
    sources = [SourceInput("source", [0] * SPLITS, parallelism=inferred)] if inferred else []
    decision = decide_region("vertex", inputs, sources, _options(given, inputs, has_source=bool(sources)))
    consumed = []
    for entry in inputs:
        partitions = [0, len(entry.bytes_by_partition) - 1]
        if entry.is_rescale:
            counts = list(map(len, entry.bytes_by_partition))
            found = [locate_files(counts, subtask.files[entry.name]) for subtask in decision.subtasks]
            consumed.append([[[[at, at], inclusive(span)] for at, span in each.items()] for each in found])
            continue
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


def _ranges(decision: RegionDecision) -> list[list[int]]:
    return [inclusive(subtask.subpartitions) for subtask in decision.subtasks if subtask.subpartitions]


def _hash(name: str, rows: Sequence[Sequence[int]]) -> BlockingInput:
    return BlockingInput(name, Partitioning.HASH, rows)


def _measured(name: str, entry: Given) -> BlockingInput:
    kind = Partitioning.RESCALE if entry.get("pattern") == "pointwise" else Partitioning.HASH
    return BlockingInput(name, Partitioning.BROADCAST if entry["broadcast"] else kind, entry["bytes_by_partition"])


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
