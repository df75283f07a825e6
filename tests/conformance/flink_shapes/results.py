"""Topic result_bytes."""

from __future__ import annotations

import re
from typing import Any

from airflow_abs.core.blocks import Block, DistributionPattern
from airflow_abs.core.results import ResultBytes

from flink_shapes.notation import Given, half_open


def result_bytes(version: str | None, given: Given) -> dict[str, Any]:
    if "failure" in given:
        return _partition_lost(given)
    recorded = given.get("recorded", dict(enumerate(given.get("bytes_by_partition", ()))))
    result = ResultBytes(
        DistributionPattern(given.get("pattern", "all_to_all")),
        given.get("num_partitions", len(recorded)),
        single=given.get("single_subpartition_contains_all_data", given.get("broadcast", False)),
    )
    for partition, sizes in recorded.items():
        result.record(int(partition), sizes)
    if "partition_range" in given:
        block = Block(half_open(given["partition_range"]), half_open(given["subpartition_range"]))
        return {"bytes": result.bytes_in(block)}
    answer: dict[str, Any] = {"total_bytes": result.total_bytes(), "recorded_partitions": len(recorded)}
    if result.pattern is DistributionPattern.ALL_TO_ALL:
        answer["aggregated_subpartition_bytes"] = answer["bytes_by_subpartition"] = list(result.bytes_by_subpartition())
    return answer


def _partition_lost(given: Given) -> dict[str, Any]:
    """Sources named source1, source2, ...; the failure names the partition of one of them."""
    pattern = DistributionPattern(given["edges"])
    sources = {
        name.removesuffix("_parallelism"): ResultBytes(pattern, count)
        for name, count in given.items()
        if name.endswith("_parallelism")
    }
    for name, result in sources.items():
        for partition in range(given[f"{name}_parallelism"]):
            result.record(partition, [0])
    answer = {f"{name}_before": len(result.recorded_partitions) for name, result in sources.items()}
    partition, lost = re.search(r"partition (\d+) of (\w+)", given["failure"]).groups()
    sources[lost].reset(int(partition))
    after = {
        f"recorded_partitions_of_{name}_after_restart": len(result.recorded_partitions)
        for name, result in sources.items()
    }
    return answer | after
