"""Topic pointwise: Flink's byte-balanced division of pointwise inputs, which decides rescale edges.

A subpartition of one partition, which Flink does not cut there, is a file here.
"""

from __future__ import annotations

from typing import Any

from airflow_abs.core.decide.file_ranges import locate_files
from airflow_abs.core.decide.region_decision import SubtaskAssignment, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions
from airflow_abs.core.graph.partitioning import Partitioning


def pointwise(version: str | None, given: dict[str, Any]) -> dict[str, Any]:
    inputs = [
        BlockingInput(str(number), Partitioning.RESCALE, entry["bytes_by_partition"])
        for number, entry in enumerate(given["inputs"])
    ]
    options = RegionOptions(target_bytes=given["data_volume_per_task"], parallelism=given["parallelism"])
    subtasks = decide_region("consumer", inputs, [], options).subtasks
    return {
        "consumed": [[_consumed(entry, subtask) for subtask in subtasks] for entry in inputs],
        "consumed_bytes_per_task": [[_bytes(entry, subtask) for subtask in subtasks] for entry in inputs],
    }


def _consumed(entry: BlockingInput, subtask: SubtaskAssignment) -> list[list[list[int]]]:
    """Pairs of partition range and subpartition range, both inclusive."""
    found = locate_files(list(map(len, entry.bytes_by_partition)), subtask.files[entry.name])
    return [[[partition, partition], [span.start, span.stop - 1]] for partition, span in found.items()]


def _bytes(entry: BlockingInput, subtask: SubtaskAssignment) -> int:
    return sum(entry.file_bytes[file] for file in subtask.files[entry.name])
