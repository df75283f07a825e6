"""Dividing measured inputs among the subtasks of a vertex: the newest rule of Flink (2.x), input by input.

* All-to-all inputs whose keys must meet (a join's two sides) are cut together, and decide the final parallelism.
* Other all-to-all inputs and pointwise inputs are cut one by one for exactly that parallelism.
* Broadcast inputs are read whole by every subtask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from airflow_abs.core.blocks import Block, DistributionPattern, merge_blocks
from airflow_abs.core.checks import check_int, check_sizes
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.explain import Decision, format_count
from airflow_abs.core.layouts import Cells, Layout, WholePartitions, WholeSubpartitions
from airflow_abs.core.parallelism import BalancedRule, Bounds, InputVolume, ParallelismDecision
from airflow_abs.core.ranges import IndexRange, check_same_length
from airflow_abs.core.skewed_join import SkewOptions
from airflow_abs.core.skewed_slices import slice_correlated_inputs
from airflow_abs.core.slices import Slice, cut_sizes, cut_slices, share_of_volume
from airflow_abs.core.subpartition_ranges import all_to_all_blocks, broadcast_blocks, pointwise_blocks

Consumed = tuple[tuple[Block, ...], ...]  # blocks by subtask


@dataclass(frozen=True)
class MeasuredInput:
    """One input whose producer has finished.

    Args:
        pattern: of its edge.
        bytes_by_partition: bytes by partition and subpartition.
        broadcast: whether every subtask reads everything.
        single: broadcast only: subpartition 0 alone holds all the data.
        intra_correlated: rows of one key must stay in one subtask.
        inter_correlated: its keys must meet those of other inputs.
        type_number: inputs of one number are read alike (the left side of a join, say).
    """

    pattern: DistributionPattern
    bytes_by_partition: Sequence[Sequence[int]]
    broadcast: bool = False
    single: bool = False
    intra_correlated: bool = True
    inter_correlated: bool = True
    type_number: int = 0

    def __post_init__(self) -> None:
        check_int("partitions", len(self.bytes_by_partition), at_least=1)
        for partition, sizes in enumerate(self.bytes_by_partition):
            check_sizes(f"partition {partition}", sizes)
        if self.pattern is DistributionPattern.ALL_TO_ALL:
            lengths = {f"partition {partition}": len(sizes) for partition, sizes in enumerate(self.bytes_by_partition)}
            check_same_length("subpartitions of an all-to-all input", lengths)

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return len(self.bytes_by_partition)

    @property
    def subpartitions(self) -> list[int]:
        """Number of subpartitions by partition."""
        return [len(sizes) for sizes in self.bytes_by_partition]

    @cached_property
    def bytes(self) -> int:
        """Bytes that all its subtasks' shares add up to; a broadcast input counts once."""
        if self.broadcast and self.single:
            return sum(sizes[0] for sizes in self.bytes_by_partition)
        return sum(map(sum, self.bytes_by_partition))


@dataclass(frozen=True, slots=True)
class InputDivision(Decision):
    """Parallelism of a vertex, and for every input, in the given order, the blocks that each subtask reads.

    `initial` is the number that the volume alone asks for; cutting by bytes may end with another within the bounds.
    """

    bounds: Bounds
    volume: int
    initial: ParallelismDecision
    parallelism: int
    consumed: tuple[Consumed, ...]


def divide_inputs(
    inputs: Sequence[MeasuredInput],
    bounds: Bounds,
    volume: int,
    *,
    preset: int | None = None,
    skew: SkewOptions | None = None,
) -> InputDivision:
    """Decide the parallelism of a vertex with inputs, and divide them.

    Args:
        inputs: at least one.
        bounds: of this vertex.
        volume: bytes per subtask to aim at.
        preset: parallelism that is given; it replaces the bounds.
        skew: what counts as a skewed subpartition.
    """
    check_int("inputs", len(inputs), at_least=1)
    partitioned_bytes = sum(entry.bytes for entry in inputs if not entry.broadcast)
    initial = BalancedRule(volume).decide(InputVolume(partitioned_bytes), bounds)
    parallelism = preset or initial.parallelism
    by_index = dict(enumerate(inputs))
    pointwise = {k: entry for k, entry in by_index.items() if entry.pattern is DistributionPattern.POINTWISE}
    all_to_all = {k: entry for k, entry in by_index.items() if entry.pattern is DistributionPattern.ALL_TO_ALL}
    if preset or pointwise:  # each pointwise input is cut on its own: all must be given the same number
        bounds = Bounds(parallelism, parallelism)
    share = _share(all_to_all, by_index, volume)
    consumed = divide_all_to_all(all_to_all, parallelism, bounds, share, skew or SkewOptions())
    consumed |= divide_pointwise(pointwise, parallelism, _share(pointwise, by_index, volume))
    reached = check_same_length("subtasks by input", {f"input {k}": len(blocks) for k, blocks in consumed.items()})
    reason = f"parallelism {preset} is preset" if preset else f"{initial.reason} -> {format_count(reached, 'subtask')}"
    blocks = tuple(consumed[k] for k in by_index)
    return InputDivision("divide_inputs", reason, bounds, volume, initial, reached, blocks)


def divide_all_to_all(
    inputs: Mapping[int, MeasuredInput], parallelism: int, bounds: Bounds, volume: int, skew: SkewOptions
) -> dict[int, Consumed]:
    """Divide all-to-all inputs, given and answered by some number of theirs.

    Inputs correlated with each other may end anywhere within the bounds; what they reach then holds for the rest.
    """
    correlated = {k: entry for k, entry in inputs.items() if entry.inter_correlated}
    separate = {k: entry for k, entry in inputs.items() if not entry.inter_correlated}
    consumed: dict[int, Consumed] = {}
    if correlated:
        share = _share(correlated, inputs, volume)
        parallelism, consumed = _divide_correlated(correlated, parallelism, bounds, share, skew)
    share = _share(separate, inputs, volume)
    for k, entry in separate.items():
        if entry.broadcast:
            consumed[k] = _broadcast(entry, parallelism)
        else:
            rows = entry.bytes_by_partition
            layout = WholeSubpartitions(rows) if entry.intra_correlated else Cells(rows, entry.pattern)
            consumed[k] = _divide_one(entry, layout, parallelism, _share({k: entry}, separate, share))
    return consumed


def divide_pointwise(inputs: Mapping[int, MeasuredInput], parallelism: int, volume: int) -> dict[int, Consumed]:
    """Divide pointwise inputs one by one, given and answered by some number of theirs.

    Raises:
        InvalidValueError: an input is correlated with others, or rows of one partition must stay together and there are
            fewer partitions than subtasks.
    """
    consumed = {}
    for k, entry in inputs.items():
        if entry.inter_correlated:
            raise InvalidValueError(f"pointwise input {k} is correlated with others; expected no such correlation")
        if entry.intra_correlated:
            check_int(f"partitions of correlated pointwise input {k}", entry.partitions, at_least=parallelism)
        rows = entry.bytes_by_partition
        layout = WholePartitions(rows) if entry.intra_correlated else Cells(rows, entry.pattern)
        consumed[k] = _divide_one(entry, layout, parallelism, _share({k: entry}, inputs, volume))
    return consumed


def _divide_correlated(
    inputs: Mapping[int, MeasuredInput], parallelism: int, bounds: Bounds, volume: int, skew: SkewOptions
) -> tuple[int, dict[int, Consumed]]:
    """The parallelism reached and the blocks; by count if no legal cut by bytes exists."""
    partitioned = [entry for entry in inputs.values() if not entry.broadcast]
    columns = slice_correlated_inputs(partitioned, volume, skew)
    ranges = cut_slices(list(columns.values()), bounds, volume) if columns else None
    if ranges is not None:
        parallelism = len(ranges)
    consumed: dict[int, Consumed] = {}
    for k, entry in inputs.items():
        if entry.broadcast:
            consumed[k] = _broadcast(entry, parallelism)
        elif ranges is None:
            blocks = all_to_all_blocks(entry.partitions, entry.subpartitions[0], parallelism)
            consumed[k] = tuple((block,) for block in blocks)
        else:
            consumed[k] = _collect(entry, columns[entry.type_number], ranges)
    return parallelism, consumed


def _divide_one(entry: MeasuredInput, layout: Layout, parallelism: int, volume: int) -> Consumed:
    ranges = cut_sizes(layout.sizes, Bounds(parallelism, parallelism), volume)
    if ranges is None:
        return tuple((block,) for block in pointwise_blocks(entry.subpartitions, parallelism))
    return tuple(merge_blocks(layout.blocks_of(span), entry.pattern) for span in ranges)


def _collect(entry: MeasuredInput, slices: Sequence[Slice], ranges: Sequence[IndexRange]) -> Consumed:
    """Blocks of one input by subtask; partitions that it does not have (other inputs of its type do) are left out."""
    return tuple(
        merge_blocks(
            (
                Block(
                    IndexRange(block.partitions.start, min(block.partitions.stop, entry.partitions)),
                    block.subpartitions,
                )
                for block in (slices[position].block for position in span)
                if block.partitions.start < entry.partitions
            ),
            entry.pattern,
        )
        for span in ranges
    )


def _broadcast(entry: MeasuredInput, parallelism: int) -> Consumed:
    subpartitions = 1 if entry.single else entry.subpartitions[0]
    blocks = broadcast_blocks(entry.partitions, subpartitions, parallelism, all_subpartitions=True)
    return tuple((block,) for block in blocks)


def _share(group: Mapping[int, MeasuredInput], inputs: Mapping[int, MeasuredInput], volume: int) -> int:
    part = sum(entry.bytes for entry in group.values())
    return share_of_volume(part, sum(entry.bytes for entry in inputs.values()), volume)
