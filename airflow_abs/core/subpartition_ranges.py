"""Count-based reading: which partitions and subpartitions a subtask reads when bytes are not looked at.

Also how many subpartitions a producer must write so that every consumer can get a range of its own.

A *dynamic* graph has consumers whose number is decided after the data are written; in a non-dynamic one each consumer
has exactly one subpartition.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_abs.core.blocks import Block, DistributionPattern
from airflow_abs.core.checks import check_int
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.parallelism import divide_up
from airflow_abs.core.ranges import IndexRange


def consumer_range(consumer: int, consumers: int, subpartitions: int, *, dynamic: bool = True) -> IndexRange:
    """Subpartitions of one consumer out of several that share a partition.

    Consumers are numbered modulo their count, so callers may pass a subtask's index as it is.

    Raises:
        InvalidValueError: fewer subpartitions than consumers.
    """
    check_int("consumers", consumers, at_least=1)
    k = check_int("consumer", consumer, at_least=0) % consumers
    if not dynamic:
        return IndexRange(k, k + 1)
    if consumers > subpartitions:
        raise InvalidValueError(
            f"expected at most one consumer per subpartition, found {consumers} for {subpartitions}"
        )
    return IndexRange(k * subpartitions // consumers, (k + 1) * subpartitions // consumers)


def broadcast_range(subpartitions: int, *, all_subpartitions: bool) -> IndexRange:
    """Subpartitions of a broadcast result that every consumer reads.

    Raises:
        InvalidValueError: several subpartitions of which only the first would be read.
    """
    if not all_subpartitions and subpartitions != 1:
        raise InvalidValueError(f"expected a broadcast result to have 1 subpartition, found {subpartitions}")
    return IndexRange(0, subpartitions)


def all_to_all_blocks(partitions: int, subpartitions: int, consumers: int, *, dynamic: bool = True) -> list[Block]:
    """Block of every consumer: all partitions, its own subpartitions."""
    every = IndexRange(0, partitions)
    return [Block(every, consumer_range(k, consumers, subpartitions, dynamic=dynamic)) for k in range(consumers)]


def broadcast_blocks(partitions: int, subpartitions: int, consumers: int, *, all_subpartitions: bool) -> list[Block]:
    """Block of every consumer of a broadcast result: the same one."""
    span = broadcast_range(subpartitions, all_subpartitions=all_subpartitions)
    return [Block(IndexRange(0, partitions), span)] * consumers


def pointwise_partitions(partitions: int, consumers: int) -> list[IndexRange]:
    """Partitions that every consumer of a pointwise edge reads from.

    With at least as many partitions as consumers each reads some whole ones; otherwise neighbours share one.
    """
    check_int("partitions", partitions, at_least=1)
    check_int("consumers", consumers, at_least=1)
    if partitions >= consumers:
        return [IndexRange(k * partitions // consumers, (k + 1) * partitions // consumers) for k in range(consumers)]
    owners = [divide_up(partition * consumers, partitions) for partition in range(partitions + 1)]
    return [IndexRange(p, p + 1) for p in range(partitions) for _ in range(owners[p], owners[p + 1])]


def pointwise_blocks(subpartitions: Sequence[int], consumers: int, *, dynamic: bool = True) -> list[Block]:
    """Block of every consumer of a pointwise edge; `subpartitions` are counts by partition.

    The range inside a shared partition goes by the consumer's own index, not by its place among the sharing ones: a
    group that does not start at a multiple of its size is rotated.
    """
    spans = pointwise_partitions(len(subpartitions), consumers)
    return [
        Block(span, consumer_range(k, spans.count(span), subpartitions[span.start], dynamic=dynamic))
        for k, span in enumerate(spans)
    ]


def count_subpartitions(
    pattern: DistributionPattern,
    producers: int,
    consumers: int | None,
    max_consumers: int,
    *,
    dynamic: bool = True,
    single: bool = False,
) -> list[int]:
    """Subpartitions that each of the producer's partitions is written with.

    Args:
        pattern: of the edge.
        producers: parallelism of the producer.
        consumers: parallelism of the consumer, None while undecided; then `max_consumers` counts.
        max_consumers: max parallelism of the consumer.
        dynamic: whether consumers are decided later.
        single: whether one subpartition is to hold everything (broadcast).
    """
    wanted = check_int("consumers", max_consumers if consumers is None else consumers, at_least=1)
    check_int("producers", producers, at_least=1)
    if not dynamic and pattern is DistributionPattern.POINTWISE:
        spans = pointwise_partitions(producers, wanted)
        return [sum(partition in span for span in spans) for partition in range(producers)]
    if dynamic and single:
        return [1] * producers
    return [wanted if pattern is DistributionPattern.ALL_TO_ALL else divide_up(wanted, producers)] * producers
