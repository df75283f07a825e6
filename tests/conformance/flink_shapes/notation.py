"""Notation of the cases: inclusive ranges, -1 or null for "not set", several names for one thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_abs.core.blocks import Block, DistributionPattern
from airflow_abs.core.input_division import MeasuredInput

from airflow_abs.core.decide.parallelism import Bounds, bounds_of_vertex
from airflow_abs.core.decide.ranges import IndexRange

Given = Mapping[str, Any]


def is_first_generation(version: str | None) -> bool:
    """Whether a case asks for the rules of Flink 1.15."""
    return version is not None and version.startswith("1.15")


def pick(given: Given, *names: str, default: Any = None) -> Any:
    """The first of these names that is given."""
    return next((given[name] for name in names if name in given), default)


def number_or_none(value: int | None) -> int | None:
    """-1 means "not set"."""
    return None if value == -1 else value


def inclusive(span: IndexRange) -> list[int]:
    return [span.start, span.stop - 1]


def half_open(pair: Sequence[int]) -> IndexRange:
    return IndexRange(pair[0], pair[1] + 1)


def show_block(block: Block) -> list[list[int]]:
    return [inclusive(block.partitions), inclusive(block.subpartitions)]


def show_consumed(consumed: Iterable[Iterable[Block]]) -> list[list[list[list[int]]]]:
    """Blocks by subtask."""
    return [[show_block(block) for block in blocks] for blocks in consumed]


def bytes_by_subtask(consumed: Iterable[Iterable[Block]], bytes_by_partition: Sequence[Sequence[int]]) -> list[int]:
    return [sum(block.bytes_in(bytes_by_partition) for block in blocks) for blocks in consumed]


def vertex_bounds(given: Given) -> Bounds:
    job = Bounds(
        pick(given, "min_parallelism", "global_min_parallelism", "configured_min_parallelism", default=1),
        pick(given, "max_parallelism", "global_max_parallelism", "configured_max_parallelism", default=128),
    )
    return bounds_of_vertex(
        job,
        vertex_min=number_or_none(pick(given, "vertex_min_parallelism", "inferred")),
        vertex_max=number_or_none(given.get("vertex_max_parallelism")),
    )


def measured_input(entry: Given, pattern: str | None = None) -> MeasuredInput:
    """An input; unless the case says otherwise, keys are correlated on all-to-all edges and not on pointwise ones."""
    kind = DistributionPattern(entry.get("pattern", pattern or "all_to_all"))
    correlated = kind is DistributionPattern.ALL_TO_ALL
    return MeasuredInput(
        kind,
        entry["bytes_by_partition"],
        broadcast=entry.get("broadcast", False),
        single=entry.get("single_subpartition_contains_all_data", False),
        intra_correlated=pick(entry, "intra_input_key_correlated", default=correlated),
        inter_correlated=pick(entry, "inter_inputs_key_correlated", "inter_input_key_correlated", default=correlated),
        type_number=entry.get("type_number", 0),
    )
