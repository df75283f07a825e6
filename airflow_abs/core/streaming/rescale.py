"""Whether running work should restart because its parallelism could change, and what changes with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from airflow_abs.core.checks import check_int, check_number
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.streaming.phases import RescaleOptions


class RescaleController(Protocol):
    """Compares the running parallelism with the possible one."""

    def should_rescale(self, current: Mapping[str, int], possible: Mapping[str, int]) -> bool:
        """Whether the change, given as parallelism by vertex, is worth a restart."""


@dataclass(frozen=True, slots=True)
class EnforceMinimalIncrease:
    """Restart if a vertex must shrink, or can grow by at least `min_increase`; small steps of several do not add up."""

    min_increase: int = 1

    def __post_init__(self) -> None:
        check_int("min_increase", self.min_increase, at_least=1)

    def should_rescale(self, current: Mapping[str, int], possible: Mapping[str, int]) -> bool:
        """Whether the change is worth a restart."""
        return any(change < 0 or change >= self.min_increase for change in _changes(current, possible))


@dataclass(frozen=True, slots=True)
class EnforceParallelismChange:
    """Restart on any change."""

    def should_rescale(self, current: Mapping[str, int], possible: Mapping[str, int]) -> bool:
        """Whether anything changes."""
        return any(_changes(current, possible))


def _changes(current: Mapping[str, int], possible: Mapping[str, int]) -> list[int]:
    missing = sorted(current.keys() - possible.keys())
    if missing:
        raise InvalidValueError(
            f"possible parallelism: expected one of every vertex, found none of {', '.join(missing)}"
        )
    return [possible[vertex] - parallelism for vertex, parallelism in current.items()]


@dataclass(frozen=True, slots=True)
class Rescale:
    """Which numbers of a stream follow the slots of its cluster, and when it restarts for that.

    Args:
        partitions_per_slot: `spark.sql.shuffle.partitions` for each slot. The checkpoint of a stateful query fixes them
            at its first start, unless `repartition_state` is set.
        files_per_slot: Spark's `maxFilesPerTrigger` of the source for each slot; None keeps the source's own.
        records_per_slot: the same for Kafka, whose option is `maxOffsetsPerTrigger`. Its `minPartitions` are the
            shuffle's partitions, so that no slot is idle because a topic has fewer.
        min_increase: restart only for at least this many more slots, or when all wanted slots are there.
        cooldown: seconds after each start without a rescale.
        stabilization: seconds that a changed number of slots, below the wanted one, must last.
        max_delay: seconds to wait for the end of a batch; after that the batch is interrupted and repeated.
        repartition_state: master URL, such as ``local[2]``, of a small Spark application that repartitions the state
            between stop and start. The process that supervises the stream runs it. "": the state keeps its partitions.

    Raises:
        InvalidValueError: a number is below its minimum, or `repartition_state` is not a string.
    """

    partitions_per_slot: int = 1
    files_per_slot: int | None = None
    records_per_slot: int | None = None
    min_increase: int = 1
    cooldown: float = 30.0
    stabilization: float = 60.0
    max_delay: float = 300.0
    repartition_state: str = ""

    def __post_init__(self) -> None:
        check_int("partitions_per_slot", self.partitions_per_slot, at_least=1)
        for name in ("files_per_slot", "records_per_slot"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), at_least=1)
        check_int("min_increase", self.min_increase, at_least=1)
        check_number("max_delay", self.max_delay, at_least=0)
        if not isinstance(self.repartition_state, str):
            raise InvalidValueError(
                f"repartition_state: expected the master URL of a Spark application, such as 'local[2]', found "
                f"{self.repartition_state!r}"
            )
        _ = self.phases  # which checks the others

    @property
    def phases(self) -> RescaleOptions:
        """Its durations."""
        return RescaleOptions(self.cooldown, self.stabilization, self.max_delay)

    def partitions(self, slots: int) -> int:
        """Shuffle partitions for `slots`."""
        return self.partitions_per_slot * slots

    def files(self, slots: int) -> int | None:
        """Files per batch for `slots`; None if they do not follow the slots."""
        return None if self.files_per_slot is None else self.files_per_slot * slots

    def records(self, slots: int) -> int | None:
        """Records per batch for `slots`; None if they do not follow the slots."""
        return None if self.records_per_slot is None else self.records_per_slot * slots
