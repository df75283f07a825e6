"""Bytes of one finished, or half finished, blocking result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_abs.core.blocks import Block, DistributionPattern
from airflow_abs.core.checks import check_int, check_sizes
from airflow_abs.core.errors import InvalidStateError, InvalidValueError


class ResultBytes:
    """Records bytes per subpartition as partitions finish, and answers once enough of them are known.

    Totals need every partition. A block needs its own partitions only if the edge is pointwise; all of them if it is
    all-to-all, whose consumers read from all.

    Args:
        pattern: of the edge that consumes the result.
        partitions: how many there will be.
        single: whether subpartition 0 alone holds all the data (broadcast); then only that one counts.
    """

    def __init__(self, pattern: DistributionPattern, partitions: int, *, single: bool = False) -> None:
        self.pattern = pattern
        self._partitions = check_int("partitions", partitions, at_least=1)
        self._single = single
        self._recorded: dict[int, tuple[int, ...]] = {}

    @property
    def recorded_partitions(self) -> tuple[int, ...]:
        """Indices of the partitions whose bytes are known."""
        return tuple(sorted(self._recorded))

    @property
    def is_complete(self) -> bool:
        """Whether every partition is known."""
        return len(self._recorded) == self._partitions

    def record(self, partition: int, bytes_by_subpartition: Sequence[int]) -> None:
        """Note a finished partition; a repeated one (a new attempt) replaces the old.

        Raises:
            InvalidValueError: an unknown partition, a negative size, or, if the edge is all-to-all, another number of
                subpartitions than the others have.
        """
        check_int("partition", partition, at_least=0, at_most=self._partitions - 1)
        check_sizes(f"partition {partition}", bytes_by_subpartition)
        others = {len(sizes) for index, sizes in self._recorded.items() if index != partition}
        if self.pattern is DistributionPattern.ALL_TO_ALL and others - {len(bytes_by_subpartition)}:
            raise InvalidValueError(
                f"partition {partition}: expected {others.pop()} subpartitions as the others have, "
                f"found {len(bytes_by_subpartition)}"
            )
        self._recorded[partition] = tuple(bytes_by_subpartition)

    def reset(self, partition: int) -> None:
        """Forget a partition that was lost; nothing happens if it was not known."""
        self._recorded.pop(partition, None)

    def total_bytes(self) -> int:
        """Bytes of all partitions.

        Raises:
            InvalidStateError: some partition is not recorded yet.
        """
        self._require(range(self._partitions))
        return sum(sizes[0] if self._single else sum(sizes) for sizes in self._recorded.values())

    def bytes_by_subpartition(self) -> tuple[int, ...]:
        """Bytes of each subpartition over all partitions (all-to-all only: pointwise ones differ in number)."""
        self._require(range(self._partitions))
        return tuple(map(sum, zip(*self._recorded.values(), strict=True)))

    def bytes_in(self, block: Block) -> int:
        """Bytes of some partitions and subpartitions."""
        self._require(block.partitions if self.pattern is DistributionPattern.POINTWISE else range(self._partitions))
        return sum(
            sum(self._recorded[p][block.subpartitions.start : block.subpartitions.stop]) for p in block.partitions
        )

    def _require(self, partitions: Iterable[int]) -> None:
        missing = [partition for partition in partitions if partition not in self._recorded]
        if missing:
            raise InvalidStateError(
                f"bytes of {len(missing)} of {self._partitions} partitions are not recorded yet, first of {missing[0]}"
            )
