"""Hot subpartitions: one that is far above the others is distributed to several subtasks, where that was proved right.

Each of them reads a part of the one input that may be spread, and all of the others, so every pair of rows still meets
once. A part is what some producers wrote, or a share of what one of them did.

    bytes of the side that may be spread        subtasks 0 1 2   read ranges of the others
      subpartition   0   1   2   3                       3 4 5   read subpartition 1: one row each of this side,
      producer 0    20 200  20  20                               and all that the other side has in it
      producer 1    20 200  20  20
      producer 2    20 200  20  20   (1 is hot)

What counts as hot, and how large a part should be, are Flink's rules (FLIP-475); that a hot subpartition shares no
subtask with others is ours: then what a subtask reads of an input is one rectangle. So is that one producer's rows are
cut, too: Flink's part is at least what one producer wrote.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_abs.core.checks import check_int, check_sizes
from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.ranges import IndexRange, count_ranges_within, cut_by_bytes
from airflow_abs.core.decide.region_inputs import MOST_BYTES, RegionInputs, RegionOptions
from airflow_abs.core.errors import InvalidValueError

HOT_FACTOR = 4.0  # times the median: what is above it is hot
ROW_CLASSES = 2**16
"""The number of classes of a file's rows, by their numbers; a share has some of them."""
_STEP = 40503  # ROW_CLASSES by the golden ratio: any run of rows falls into the classes evenly (Knuth, 6.4)
_SHARE_OF_BOUND = 2  # of the most subtasks that there may be, hot subpartitions take at most one in two


@dataclass(frozen=True, slots=True)
class ProducerShare:
    """Of what one producer subtask wrote the share `number` of `count` of about equal bytes.

    Files are cut in their order, by bytes; of a file that two shares meet in, each has some classes of its rows. So a
    share names rows by their file and their place in it: it is one of the very files that were decided about.
    """

    producer: int
    number: int
    count: int

    def __post_init__(self) -> None:
        check_int("ProducerShare.count", self.count, at_least=1)
        check_int("ProducerShare.number", self.number, at_least=0, at_most=self.count - 1)

    def within(self, file_bytes: Sequence[int]) -> dict[int, IndexRange]:
        """The classes of rows, by index of the file, that are in this share; files without any are not in it."""
        total = sum(file_bytes)
        start, stop = (total * number // self.count for number in (self.number, self.number + 1))
        found, before = {}, 0
        for index, size in enumerate(file_bytes):
            if size:
                first, last = (min(max(at - before, 0), size) * ROW_CLASSES // size for at in (start, stop))
                if first < last:
                    found[index] = IndexRange(first, last)
            before += size
        return found

    def __str__(self) -> str:
        return f"share {self.number} of {self.count} of producer {self.producer}"


def row_class(row_index: str) -> str:
    """SQL for the class of a row, of SQL for its number in its file."""
    return f"pmod({row_index} * {_STEP}, {ROW_CLASSES})"


@dataclass(frozen=True, slots=True)
class HotPart:
    """What one subtask reads of a hot subpartition: that of `producers` of `input`, or the `share` of one of them, and
    all of the other inputs; one of the two is None.

    `bytes` are those of all inputs.
    """

    subpartition: int
    input: str
    producers: IndexRange | None
    bytes: int
    share: ProducerShare | None = None

    @property
    def read_producers(self) -> range:
        """The producer subtasks whose rows of the input it reads."""
        if self.share is not None:
            return range(self.share.producer, self.share.producer + 1)
        return range(self.producers.start, self.producers.stop) if self.producers else range(0)

    def __str__(self) -> str:
        return str(self.share) if self.share is not None else str(self.producers)


@dataclass(frozen=True, slots=True)
class HotSubpartition:
    """One that is hot in an input, and its bytes; `median` is that of the input's subpartitions which hold any."""

    input: str
    subpartition: int
    bytes: int
    median: int


def find_hottest(bytes_by_input: Mapping[str, Sequence[int]], target_bytes: int) -> HotSubpartition | None:
    """The largest hot subpartition of all inputs, whether or not it may be distributed; None if none is hot.

    Empty subpartitions do not count here: a few keys that leave most subpartitions empty are not hot for that.
    """
    found = []
    for name, sizes in bytes_by_input.items():
        held = [size for size in sizes if size]
        if not held:
            continue
        median, largest = compute_median(held), max(held)
        if largest > compute_hot_threshold(median, at_least=target_bytes):
            found.append(HotSubpartition(name, list(sizes).index(largest), largest, median))
    return max(found, key=lambda each: each.bytes, default=None)


def compute_median(sizes: Sequence[int]) -> int:
    """Median rounded down, at least 1."""
    check_sizes("sizes", sizes)
    if not sizes:
        raise InvalidValueError("median: expected at least one size, found none")
    ordered = sorted(sizes)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
    return max(median, 1)


def compute_hot_threshold(median: int, at_least: int) -> int:
    """Bytes above which a subpartition is hot: four times the median of all, and `at_least` in any case."""
    return int(max(median * HOT_FACTOR, at_least))


def compute_part_bytes(bytes_by_subpartition: Sequence[int], hot_threshold: int, target_bytes: int) -> int:
    """Bytes that a part of a hot subpartition should have: the average of the others, at least the target."""
    others = [size for size in bytes_by_subpartition if size <= hot_threshold]
    return max(target_bytes, sum(others) // len(others)) if others else target_bytes


def split_hot_subpartitions(inputs: RegionInputs, totals: Sequence[int], options: RegionOptions) -> list[HotPart]:
    """The parts of all hot subpartitions, in order; [] if none may be split, or none is worth it.

    `totals` are bytes by subpartition over all partitioned inputs.
    """
    is_given = options.parallelism is not None or options.single_subtask_reason is not None
    if not options.splittable or options.strategy != "balanced" or is_given:
        return []
    target_bytes = grow_target(inputs.own_target(options), sum(totals), options)
    found: dict[int, _Hot] = {}
    for side in inputs.partitioned:
        if side.name not in options.splittable:
            continue
        sizes = side.bytes_by_subpartition()
        threshold = compute_hot_threshold(compute_median(sizes), at_least=target_bytes)
        part_bytes = compute_part_bytes(sizes, threshold, target_bytes)
        for subpartition, size in enumerate(sizes):
            if size > threshold:
                by_producer = [row[subpartition] for row in side.bytes_by_partition]
                hot = _Hot(side.name, subpartition, by_producer, totals[subpartition] - size, part_bytes)
                if hot.count() > (found[subpartition].count() if subpartition in found else 1):
                    found[subpartition] = hot
    return _within(list(found.values()), options.most_subtasks // _SHARE_OF_BOUND)


def grow_target(target_bytes: int, total_bytes: int, options: RegionOptions) -> int:
    """Bytes of a part where the target may grow to save waves: as many as a subtask has if all fill those waves."""
    if options.most_waves is None or options.slots is None:
        return target_bytes
    return max(target_bytes, min(divide_up(total_bytes, options.most_waves * options.slots), MOST_BYTES))


@dataclass(frozen=True, slots=True)
class _Hot:
    """A hot subpartition of one input; `other_bytes` are those of the other inputs in it."""

    input: str
    subpartition: int
    by_producer: Sequence[int]
    other_bytes: int
    part_bytes: int

    @property
    def bytes(self) -> int:
        """Of all inputs."""
        return sum(self.by_producer) + self.other_bytes

    def own_bytes(self, at_least: int = 0) -> int:
        """Bytes that a part has of the input. The others count in every part, whose own rows may still be half of it;
        there are two parts at least."""
        wanted = max(self.part_bytes - self.other_bytes, self.part_bytes // 2, at_least, 1)
        return max(1, min(wanted, sum(self.by_producer) - 1))

    def count(self, at_least: int = 0) -> int:
        """Number of parts if each has this many own bytes."""
        own = self.own_bytes(at_least)
        alone = sum(divide_up(size, own) - 1 for size in self.by_producer if size > own)
        return count_ranges_within(self.by_producer, own) + alone

    def parts(self, at_least: int = 0) -> list[HotPart]:
        own = self.own_bytes(at_least)
        found = []
        for span in cut_by_bytes(self.by_producer, count_ranges_within(self.by_producer, own)):
            size = sum(self.by_producer[span.start : span.stop])
            if size <= own:
                found.append(HotPart(self.subpartition, self.input, span, size + self.other_bytes))
            else:  # only what a single producer wrote can exceed it
                producer = max(span, key=self.by_producer.__getitem__)
                found += self._shares(producer, divide_up(size, own))
        return found

    def _shares(self, producer: int, count: int) -> Iterator[HotPart]:
        size = self.by_producer[producer]
        for number in range(count):
            own = size * (number + 1) // count - size * number // count
            share = ProducerShare(producer, number, count)
            yield HotPart(self.subpartition, self.input, None, own + self.other_bytes, share)


def _within(found: Sequence[_Hot], most: int) -> list[HotPart]:
    """As many subtasks as there is room for: the largest subpartitions, in larger parts if they have to be."""
    chosen = sorted(found, key=lambda hot: hot.bytes, reverse=True)[: most // 2]

    def fit(at_least: int) -> bool:
        return sum(hot.count(at_least) for hot in chosen) <= most

    largest = max((hot.bytes for hot in chosen), default=0)
    at_least = bisect_left(range(largest), True, key=fit)
    by_number = sorted(chosen, key=lambda hot: hot.subpartition)
    return [part for hot in by_number for part in hot.parts(at_least)]
