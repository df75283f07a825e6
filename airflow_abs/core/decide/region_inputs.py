"""What is known when a region is decided: measured inputs, splits of sources, options, and the bounds of its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from math import ceil
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from airflow_abs.core.checks import check_int, check_rectangle, check_sizes
from airflow_abs.core.decide.file_ranges import count_filled
from airflow_abs.core.decide.parallelism import (
    MAX_MAP_LENGTH,
    MAX_PARALLELISM,
    Bounds,
    power_of_two_from,
    power_of_two_up_to,
)
from airflow_abs.core.decide.ranges import check_same_length
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.wording import format_bytes, format_count

Strategy = Literal["balanced", "power_of_two"]
SizeFrom = Literal["source", "history", "default"]
"""Where the size of a source comes from: itself, the job's earlier days, or a default."""

MOST_BYTES = 2**30
"""Of a subtask that is made larger to save waves: losing it costs one slot less than a minute (docs/evidence)."""
_SET_ASIDE: dict[Strategy, float] = {"balanced": 0, "power_of_two": 0.5}
"""Flink 1.15 sets up to half of the target aside for broadcast inputs; since 1.17 they do not count."""


@dataclass(frozen=True, slots=True)
class BlockingInput:
    """One finished upstream result.

    `bytes_by_partition[producer subtask][subpartition]` are bytes; a broadcast result has one subpartition. Those of a
    rescale input are `[producer subtask][file]`, and every subtask may have written another number of files.
    `inferred` is how its rows are distributed, if `plan` found that out: ``hash(customer_id), inferred``.
    """

    name: str
    partitioning: Partitioning
    bytes_by_partition: Sequence[Sequence[int]]
    inferred: str | None = None

    def __post_init__(self) -> None:
        if not self.bytes_by_partition or not (self.is_rescale or len(self.bytes_by_partition[0])):
            raise InvalidValueError(
                f"input {self.name!r}: expected at least one partition and one subpartition, found none"
            )
        if self.is_rescale:
            check_sizes(f"input {self.name!r}", self.file_bytes)
        else:
            check_rectangle(f"input {self.name!r}", self.bytes_by_partition)
        match self.partitioning:
            case Partitioning.FORWARD:
                raise InvalidValueError(
                    f"input {self.name!r}: forward edges stay inside a region, expected a blocking one"
                )
            case Partitioning.INFERRED:
                raise InvalidValueError(f"input {self.name!r}: plan has not named its edge, expected what it inferred")
            case Partitioning.BROADCAST if self.subpartitions != 1:
                raise InvalidValueError(
                    f"input {self.name!r}: expected 1 subpartition of a broadcast result, found {self.subpartitions}"
                )

    @property
    def is_broadcast(self) -> bool:
        """Read whole by every subtask."""
        return self.partitioning is Partitioning.BROADCAST

    @property
    def is_rescale(self) -> bool:
        """Read by whole files."""
        return self.partitioning is Partitioning.RESCALE

    @property
    def file_bytes(self) -> list[int]:
        """Bytes of every file of a rescale input: the producer's subtask 0 first, each in the order of its files."""
        return list(chain.from_iterable(self.bytes_by_partition))

    @property
    def subpartitions(self) -> int:
        """Subpartitions of each partition."""
        return 1 if self.is_rescale else len(self.bytes_by_partition[0])

    def bytes_by_subpartition(self) -> list[int]:
        """Bytes per subpartition, summed over the producer's subtasks."""
        if self.is_rescale:
            return [sum(self.file_bytes)]
        return list(map(sum, zip(*self.bytes_by_partition, strict=True)))


@dataclass(frozen=True, slots=True)
class SourceInput:
    """One external source: bytes per split (a file, as a rule).

    `partitions_read` of a pruned source is how many of its partitions are read, and how many there are. `note` is for
    the reason: what else was left out, and by what, or why the source did not answer. `size_from` says where the bytes
    come from: with `default` they are unknown, and only say that splits are alike. `parallelism` is the number of
    subtasks that the source has inferred, None where its bytes decide.
    """

    name: str
    split_bytes: Sequence[int]
    partitions_read: tuple[int, int] | None = None
    note: str | None = None
    size_from: SizeFrom = "source"
    parallelism: int | None = None

    def __post_init__(self) -> None:
        check_sizes(f"source {self.name!r}", self.split_bytes)
        if self.parallelism is not None:
            check_int(f"source {self.name!r}: parallelism", self.parallelism, at_least=1)

    @property
    def bytes(self) -> int:
        """Of all splits, 0 if unknown."""
        return 0 if self.size_from == "default" else sum(self.split_bytes)


@dataclass(frozen=True, slots=True)
class InputSummary:
    """One input in numbers. `kind` is its partitioning or `source`; `parts` are producer subtasks or splits.

    `files` are those of all producer subtasks of a rescale input, None for other kinds; `inferred` as in its input;
    `size_from` as in its source, None where that said it itself.
    """

    name: str
    kind: str
    bytes: int
    parts: int
    subpartitions: int | None = None
    files: int | None = None
    inferred: str | None = None
    size_from: str | None = None

    @classmethod
    def of_input(cls, entry: BlockingInput) -> InputSummary:
        """Of a finished upstream result."""
        rows = entry.bytes_by_partition
        kind, size = entry.partitioning.value, sum(map(sum, rows))
        if entry.is_rescale:
            return cls(entry.name, kind, size, len(rows), files=len(entry.file_bytes), inferred=entry.inferred)
        return cls(entry.name, kind, size, len(rows), entry.subpartitions, inferred=entry.inferred)

    @classmethod
    def of_source(cls, source: SourceInput) -> InputSummary:
        """Of files from outside."""
        size_from = None if source.size_from == "source" else source.size_from
        return cls(source.name, "source", source.bytes, len(source.split_bytes), size_from=size_from)

    def to_json(self) -> dict[str, Any]:
        """Plain values; what was not known from the beginning only where it is: an older decision stays the same."""
        later = ("files", "inferred", "size_from")
        return {name: value for name, value in asdict(self).items() if name not in later or value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> InputSummary:
        """Inverse of `to_json`."""
        return cls(**data)

    def __str__(self) -> str:
        size = format_bytes(self.bytes)
        producers, how = f"from {format_count(self.parts, 'subtask')}", self.inferred or self.kind
        match self.kind:
            case "source":
                guesses = {"default": "unknown size", "history": f"{size} (as on earlier days)"}
                told = guesses.get(self.size_from or "", size)
                return f"source {self.name}: {told} in {format_count(self.parts, 'split')}"
            case "broadcast":
                return f"input {self.name} ({how}): {size}, read whole by every subtask"
            case "rescale":
                return f"input {self.name} ({how}): {size} {producers} in {format_count(self.files or 0, 'file')}"
        place = format_count(self.subpartitions or 0, "subpartition")
        return f"input {self.name} ({how}): {size} {producers} in {place}"


@dataclass(frozen=True, slots=True)
class RegionOptions:
    """Options of one region.

    `parallelism` is the user's, and only `max_map_length` bounds it: how many subtasks can be started at all, None if
    that is no limit here. `single_subtask_reason` says why the region cannot be spread (an all-to-all edge inside it).
    `default_source_parallelism` falls back to `max_parallelism`. `slots` is how many subtasks can run at once, None if
    that is not known. `most_waves` of subtasks over the slots are enough, however many the target asks for; None keeps
    the target. `splittable` are the inputs whose hot subpartitions may be distributed to several subtasks.
    `max_broadcast_ratio` is the share of the target that broadcast inputs may take from a subtask's own input; None is
    what the strategy's Flink sets aside.
    """

    target_bytes: int
    strategy: Strategy = "balanced"
    min_parallelism: int = 1
    max_parallelism: int = 128
    default_source_parallelism: int | None = None
    parallelism: int | None = None
    single_subtask_reason: str | None = None
    slots: int | None = None
    splittable: tuple[str, ...] = ()
    most_waves: int | None = None
    max_broadcast_ratio: float | None = None
    max_map_length: int | None = None

    def __post_init__(self) -> None:
        check_int("target_bytes", self.target_bytes, at_least=1)
        if self.strategy not in ("balanced", "power_of_two"):
            raise InvalidValueError(f"strategy: expected 'balanced' or 'power_of_two', found {self.strategy!r}")
        Bounds(self.min_parallelism, self.max_parallelism)
        for name, value in (
            ("default_source_parallelism", self.default_source_parallelism),
            ("parallelism", self.parallelism),
            ("slots", self.slots),
            ("most_waves", self.most_waves),
            ("max_map_length", self.max_map_length),
        ):
            if value is not None:
                check_int(name, value, at_least=1)

    @property
    def bounds(self) -> Bounds:
        """Bounds of the number of subtasks."""
        return Bounds(self.min_parallelism, self.max_parallelism)

    @property
    def most_subtasks(self) -> int:
        """No region gets more."""
        return min(self.max_parallelism, self.max_map_length or self.max_parallelism)

    @property
    def source_bound(self) -> int:
        """Most subtasks that a source should ask for."""
        return min(self.default_source_parallelism or self.max_parallelism, self.max_parallelism)

    def to_json(self) -> dict[str, Any]:
        """Plain values; what came later only where it is, as in `InputSummary.to_json`."""
        later = ("most_waves", "max_broadcast_ratio", "max_map_length")
        return {name: value for name, value in asdict(self).items() if name not in later or value is not None}


@dataclass(frozen=True, slots=True)
class RegionInputs:
    """All inputs of one region, checked against each other.

    Raises:
        InvalidValueError: two inputs of one name, or partitioned inputs with different numbers of subpartitions (they
            are read in the same ranges).
    """

    region: str
    blocking: tuple[BlockingInput, ...]
    sources: tuple[SourceInput, ...]

    def __post_init__(self) -> None:
        names = [*(entry.name for entry in self.blocking), *(source.name for source in self.sources)]
        if len(set(names)) < len(names):
            raise InvalidValueError(f"region {self.region!r}: expected distinct input names, found {', '.join(names)}")
        check_same_length(
            f"region {self.region!r}: subpartitions of inputs that are read in the same ranges",
            {entry.name: entry.subpartitions for entry in self.partitioned},
        )

    @property
    def partitioned(self) -> tuple[BlockingInput, ...]:
        """Inputs that each subtask reads by its own range of subpartitions."""
        return tuple(entry for entry in self.blocking if not entry.is_broadcast and not entry.is_rescale)

    @property
    def files(self) -> dict[str, list[int]]:
        """Bytes of the files of every rescale input, by its name."""
        return {entry.name: entry.file_bytes for entry in self.blocking if entry.is_rescale}

    @property
    def is_divided(self) -> bool:
        """Whether each subtask reads its own part of some input other than sources."""
        return any(not entry.is_broadcast for entry in self.blocking)

    @property
    def inferred(self) -> int | None:
        """The largest number of subtasks that a source has inferred itself; None if none has."""
        return max((each.parallelism for each in self.sources if each.parallelism is not None), default=None)

    @property
    def broadcast_bytes(self) -> int:
        """Bytes that every subtask reads on top of its own."""
        return sum(sum(row[0] for row in entry.bytes_by_partition) for entry in self.blocking if entry.is_broadcast)

    def own_target(self, options: RegionOptions) -> int:
        """Bytes that a subtask should read of its own: the target without what is set aside for broadcast inputs."""
        ratio = options.max_broadcast_ratio
        most = ceil(options.target_bytes * (_SET_ASIDE[options.strategy] if ratio is None else ratio))
        return max(1, options.target_bytes - min(self.broadcast_bytes, most))

    def bytes_by_subpartition(self) -> list[int]:
        """Bytes per subpartition over all partitioned inputs; [] if there are none."""
        return list(map(sum, zip(*(entry.bytes_by_subpartition() for entry in self.partitioned), strict=True)))


class NamedBound(NamedTuple):
    """A number of subtasks that a region must not exceed, or with `lower` not fall below. `name` is for its `Clamp`."""

    name: str
    subtasks: int
    lower: bool = False


def list_bounds(
    inputs: RegionInputs, options: RegionOptions, subpartitions: int, hot_parts: int = 0
) -> list[NamedBound]:
    """All that bounds the number which the bytes ask for, in the order in which it applies: the last one wins.

    `subpartitions` are those that are cut into ranges; beside them, `hot_parts` subtasks read the hot ones. The default
    of sources binds what is a source alone; beside other inputs, sources only ask for a minimum. A source that has
    inferred a number may exceed the default.
    """
    is_source = bool(inputs.sources) and not inputs.is_divided
    of_sources = options.default_source_parallelism if is_source and inputs.inferred is None else None
    upper = [
        (MAX_PARALLELISM, options.max_parallelism),
        *([("default_source_parallelism", of_sources)] if of_sources is not None else []),
        *((name, most + hot_parts) for name, most in _most_useful(inputs, subpartitions)),
        *([(MAX_MAP_LENGTH, options.max_map_length)] if options.max_map_length is not None else []),
    ]
    lower = options.min_parallelism
    if options.strategy == "power_of_two" and of_sources is None and (inputs.inferred is None or not is_source):
        lower, upper = power_of_two_from(lower), [(name, power_of_two_up_to(most)) for name, most in upper]
    return [NamedBound("min_parallelism", lower, lower=True), *(NamedBound(name, most) for name, most in upper)]


def _most_useful(inputs: RegionInputs, subpartitions: int) -> list[tuple[str, int]]:
    """Beyond this number some subtasks would have nothing of their own to read."""
    if subpartitions:
        return [("number of subpartitions", subpartitions)]
    found = [("number of splits", len(source.split_bytes)) for source in inputs.sources]
    found += [("number of files", count_filled(of)) for of in inputs.files.values()]
    if not found:
        return []
    name, most = max(found, key=itemgetter(1))
    return [(name, max(1, most))]
