"""Topic parallelism."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from airflow_abs.core.blocks import DistributionPattern
from airflow_abs.core.forward_groups import JobParallelism
from airflow_abs.core.subpartition_ranges import count_subpartitions

from airflow_abs.core.decide.parallelism import (
    BalancedRule,
    InputVolume,
    PowerOfTwoRule,
    normalise_bounds,
    resolve_max_parallelism,
    round_to_power_of_two,
)
from airflow_abs.core.decide.sources import default_source_parallelism, source_upper_bound
from flink_shapes.notation import Given, is_first_generation, number_or_none, pick, vertex_bounds

# Bytes that the mocked producers of AdaptiveBatchSchedulerTest report for each of their subpartitions.
BYTES_PER_SUBPARTITION = 100


def parallelism(version: str | None, given: Given) -> dict[str, Any]:
    if "chain" in given:
        return _chain(given)
    if "source_parallelisms" in given:
        return _several_sources(given)
    if "source_parallelism" in given:
        return _one_source(given)
    if set(given) == {"parallelism"}:
        return {"normalised": round_to_power_of_two(given["parallelism"])}
    if any(name.endswith(".max-parallelism") for name in given):
        configured = next(value for name, value in given.items() if name.endswith(".max-parallelism"))
        default = None if is_first_generation(version) else number_or_none(given.get("parallelism.default"))
        return {"max_parallelism": resolve_max_parallelism(configured, default)}
    return _volume(version, given)


def _volume(version: str | None, given: Given) -> dict[str, Any]:
    preset = number_or_none(pick(given, "vertex_initial_parallelism", "vertex_parallelism"))
    if preset is not None:
        return {"parallelism": preset}
    if given.get("inputs") == []:
        return {"parallelism": parallelism_of_pure_source(version, given)}
    bounds = vertex_bounds(given)
    if is_first_generation(version) and "data_volume_per_task" not in given:
        normal = normalise_bounds(bounds)
        return {"min_parallelism": normal.lower, "max_parallelism": normal.upper}
    target = given["data_volume_per_task"]
    rule = PowerOfTwoRule(target) if is_first_generation(version) else BalancedRule(target)
    decision = rule.decide(_input_volume(given), bounds)
    return {"parallelism": decision.parallelism, "before_normalising": decision.initial}


def parallelism_of_pure_source(version: str | None, given: Given) -> int:
    configured = given.get("default_source_parallelism")
    if is_first_generation(version):
        return default_source_parallelism(configured)
    most = vertex_bounds(given).upper
    return source_upper_bound(configured, most, pick(given, "vertex_max_parallelism", default=most))


def _input_volume(given: Given) -> InputVolume:
    partitioned = pick(given, "non_broadcast_bytes", default=0)
    broadcast = pick(given, "broadcast_bytes", default=0)
    for entry in given.get("inputs", ()):
        if entry["broadcast"]:
            broadcast += entry["bytes"]
        else:
            partitioned += entry["bytes"]
    return InputVolume(partitioned, broadcast)


def _one_source(given: Given) -> dict[str, Any]:
    bounds = vertex_bounds(given)
    consumer_max = pick(given, "vertex_max_parallelism", "max_parallelism")
    written = count_subpartitions(
        DistributionPattern(given["pattern"]), given["source_parallelism"], None, consumer_max
    )
    volume = sum(written) * given["bytes_per_subpartition"] * given.get("edges_to_same_result", 1)
    decision = BalancedRule(given["data_volume_per_task"]).decide(InputVolume(volume), bounds)
    return {"parallelism": decision.parallelism, "total_bytes": volume}


def _chain(given: Given) -> dict[str, Any]:
    preset: dict[str, int | None] = {}
    decided: dict[str, int] = {}
    for text in given["chain"]:
        name, known, answer = re.fullmatch(r"(\w+)\(p=(-?\d+)(?:\D+(\d+))?\)", text).groups()
        preset[name] = number_or_none(int(known))
        decided[name] = int(answer or known)
    names = list(preset)
    forward = [tuple(edge.split("->")) for edge in given["forward_edges"]]
    job = JobParallelism(preset, list(pairwise(names)), forward, decided.__getitem__)
    answer: dict[str, Any] = {}
    for name in names[:-1]:
        job.finish(name)
        answer[f"after_{name}_finished"] = {other: job[other] or -1 for other in names[1:]}
    size = given.get("bytes_per_subpartition", BYTES_PER_SUBPARTITION)
    producers = job[names[-2]]
    written = count_subpartitions(DistributionPattern.POINTWISE, producers, None, given["max_parallelism"])
    return answer | {f"{names[-1]}_total_input_bytes": sum(written) * size, "bytes_per_subpartition": size}


def _several_sources(given: Given) -> dict[str, Any]:
    sources = {f"source{index}": count for index, count in enumerate(given["source_parallelisms"])}
    preset = {**sources, "sink": number_or_none(given["sink_parallelism"])}
    job = JobParallelism(preset, [(source, "sink") for source in sources], [], lambda _: given["decider_says"])
    after = []
    for source in sources:
        job.finish(source)
        after.append(job["sink"] or -1)
    pattern = DistributionPattern.POINTWISE if "pointwise" in given["edges"] else DistributionPattern.ALL_TO_ALL
    written = [
        size
        for count in sources.values()
        for size in count_subpartitions(pattern, count, preset["sink"], given["max_parallelism"])
    ]
    return {
        "sink_after_first_source_finished": after[0],
        "sink_after_both_finished": after[-1],
        "sink_total_input_bytes": sum(written) * given["bytes_per_subpartition"],
    }
