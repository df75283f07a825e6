"""Slices of inputs whose keys must meet, with skewed subpartitions split along their partitions.

If subpartition j of the left side is split in two, each half must meet the whole subpartition j of the right side: the
positions of j are the Cartesian product of both sides' slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol, TypeVar

from airflow_abs.core.blocks import Block
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.ranges import IndexRange, check_same_length
from airflow_abs.core.skewed_join import SkewOptions, compute_target_size
from airflow_abs.core.slices import Slice

T = TypeVar("T")


class CorrelatedInput(Protocol):
    """What is needed of an input here."""

    @property
    def bytes_by_partition(self) -> Sequence[Sequence[int]]:
        """Bytes by partition and subpartition."""

    @property
    def intra_correlated(self) -> bool:
        """Rows of one key must stay in one subtask."""

    @property
    def type_number(self) -> int:
        """Inputs of one number are read alike."""


@dataclass(frozen=True, slots=True)
class AggregatedInput:
    """All inputs of one type as one.

    `bytes_by_partition` is empty if the type cannot be split: rows of one key must stay together, or its inputs have
    different numbers of partitions.
    """

    partitions: int
    bytes_by_subpartition: tuple[int, ...]
    skew_threshold: int
    target_bytes: int
    bytes_by_partition: Sequence[Sequence[int]]

    def slices_of(self, subpartition: int) -> list[Slice]:
        """One slice, or several if the subpartition is skewed and may be split."""
        own = IndexRange(subpartition, subpartition + 1)
        size = self.bytes_by_subpartition[subpartition]
        if not self.bytes_by_partition or size <= self.skew_threshold:
            return [Slice(Block(IndexRange(0, self.partitions), own), size)]
        sizes = [row[subpartition] for row in self.bytes_by_partition]
        return [Slice(Block(span, own), sum(sizes[span.start : span.stop])) for span in self._cut(sizes)]

    def _cut(self, sizes: Sequence[int]) -> list[IndexRange]:
        """Cut partitions greedily into ranges that stay below (not at) the target."""
        ranges, start, open_bytes = [], 0, 0
        for partition, size in enumerate(sizes):
            if partition > start and open_bytes + size >= self.target_bytes:
                ranges.append(IndexRange(start, partition))
                start, open_bytes = partition, 0
            open_bytes += size
        return [*ranges, IndexRange(start, len(sizes))]


def aggregate_inputs(inputs: Sequence[CorrelatedInput], volume: int, skew: SkewOptions) -> AggregatedInput:
    """Add up the inputs of one type.

    Raises:
        InvalidValueError: they differ in their subpartitions, or in whether rows of one key must stay together.
    """
    if len({entry.intra_correlated for entry in inputs}) > 1:
        raise InvalidValueError(f"inputs of type {inputs[0].type_number}: expected all or none to be intra-correlated")
    check_same_length(
        f"subpartitions of inputs of type {inputs[0].type_number}",
        {f"input {index}": len(entry.bytes_by_partition[0]) for index, entry in enumerate(inputs)},
    )
    sizes = tuple(map(sum, zip(*(row for entry in inputs for row in entry.bytes_by_partition), strict=True)))
    threshold = skew.threshold_for(sizes)
    partitions = [len(entry.bytes_by_partition) for entry in inputs]
    splittable = not inputs[0].intra_correlated and len(set(partitions)) == 1
    return AggregatedInput(
        partitions=max(partitions),
        bytes_by_subpartition=sizes,
        skew_threshold=threshold,
        target_bytes=compute_target_size(sizes, threshold, volume),
        bytes_by_partition=_add_partitions(inputs) if splittable else (),
    )


def slice_correlated_inputs(
    inputs: Sequence[CorrelatedInput], volume: int, skew: SkewOptions
) -> dict[int, list[Slice]]:
    """Columns of slices by type number, ascending; all equally long."""
    by_type: dict[int, list[CorrelatedInput]] = {}
    for entry in sorted(inputs, key=lambda entry: entry.type_number):
        by_type.setdefault(entry.type_number, []).append(entry)
    types = {number: aggregate_inputs(group, volume, skew) for number, group in by_type.items()}
    subpartitions = check_same_length(
        "subpartitions of inputs that are cut together",
        {f"type {number}": len(aggregated.bytes_by_subpartition) for number, aggregated in types.items()},
    )
    positions = [
        position
        for subpartition in range(subpartitions)
        for position in combine([aggregated.slices_of(subpartition) for aggregated in types.values()])
    ]
    return {number: [position[column] for position in positions] for column, number in enumerate(types)}


def combine(lists: Sequence[Sequence[T]]) -> list[tuple[T, ...]]:
    """Cartesian product, the last list fastest; of no lists it is one empty combination."""
    return list(product(*lists))


def _add_partitions(inputs: Sequence[CorrelatedInput]) -> Sequence[Sequence[int]]:
    if len(inputs) == 1:
        return inputs[0].bytes_by_partition
    return tuple(
        tuple(map(sum, zip(*rows, strict=True)))
        for rows in zip(*(entry.bytes_by_partition for entry in inputs), strict=True)
    )
