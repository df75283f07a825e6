"""The decision for one region, which is one mapped Airflow task: how many subtasks, and what each of them reads.

Bytes in, ranges and reasons out. The decision is a value: it can be printed, stored as JSON and read back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from airflow_abs.core.decide.file_ranges import deal_out_files, from_cuts, to_cuts
from airflow_abs.core.decide.hot_subpartitions import HotPart, ProducerShare, split_hot_subpartitions
from airflow_abs.core.decide.parallelism import Clamp
from airflow_abs.core.decide.ranges import IndexRange, cut_by_bytes, split_by_count
from airflow_abs.core.decide.reason import complete_reason, say_inferred, say_notes
from airflow_abs.core.decide.region_inputs import BlockingInput, InputSummary, RegionInputs, RegionOptions, SourceInput
from airflow_abs.core.decide.region_parallelism import decide_region_parallelism
from airflow_abs.core.decide.sources import assign_splits
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.wording import format_bytes, format_count

_FORMAT_VERSION = 1
_DESCRIBED_SUBTASKS = 12


@dataclass(frozen=True, slots=True)
class SubtaskAssignment:
    """What one subtask reads, without the broadcast inputs.

    `subpartitions` is the same for all partitioned inputs, None if there are none. `splits` are indices by source name.
    `files` are ranges by rescale input, whose files are numbered producer by producer, without inputs that it does not
    read. `bytes` is the sum of all these. A `hot_part` says which part of one input it reads alone.
    """

    index: int
    subpartitions: IndexRange | None
    splits: Mapping[str, tuple[int, ...]]
    bytes: int
    hot_part: HotPart | None = None
    files: Mapping[str, IndexRange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegionDecision:
    """Number of subtasks of one region, why, and what each subtask reads.

    `rule` is a short id, `reason` is for people.
    """

    rule: str
    reason: str
    region: str
    parallelism: int
    clamps: tuple[Clamp, ...]
    options: RegionOptions
    inputs: tuple[InputSummary, ...]
    subtasks: tuple[SubtaskAssignment, ...]

    @property
    def hot_subpartitions(self) -> frozenset[int]:
        """Those that are distributed to several subtasks: they are left out of the ranges of all others."""
        return frozenset(subtask.hot_part.subpartition for subtask in self.subtasks if subtask.hot_part)

    @property
    def total_bytes(self) -> int:
        """Bytes that all subtasks together read, broadcast inputs not counted."""
        return sum(subtask.bytes for subtask in self.subtasks)

    @property
    def broadcast_bytes(self) -> int:
        """Bytes that every subtask reads on top of its own."""
        return sum(entry.bytes for entry in self.inputs if entry.kind == "broadcast")

    @property
    def largest_bytes(self) -> int:
        """Of the subtask that reads most."""
        return max(subtask.bytes for subtask in self.subtasks)

    @property
    def max_over_mean(self) -> float:
        """Bytes of the largest subtask over the mean; 1.0 is perfectly even (also when there is nothing to read)."""
        total = self.total_bytes
        return self.largest_bytes * self.parallelism / total if total else 1.0

    def describe(self) -> str:
        """For people: the number and its reason first, then what it rests on, then who reads what."""
        options, bounds = self.options, self.options.bounds
        lines = [
            f"{self.region}: {self.reason}",
            f"  rule {self.rule}, target {format_bytes(options.target_bytes)}, {bounds}",
            *(f"  bound {clamp}" for clamp in self.clamps),
            *(f"  {entry}" for entry in self.inputs),
            f"  largest subtask {self.max_over_mean:.2f} times the mean",
            *(f"  {_describe_subtask(subtask)}" for subtask in self.subtasks[:_DESCRIBED_SUBTASKS]),
        ]
        if self.parallelism > _DESCRIBED_SUBTASKS:
            lines.append(f"  ... and {format_count(self.parallelism - _DESCRIBED_SUBTASKS, 'more subtask')}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values. Ranges are stored as their cut points, so 1,024 subtasks take some 20 KB."""
        rescaled = [entry.name for entry in self.inputs if entry.kind == "rescale"]
        files = {name: to_cuts([subtask.files.get(name) for subtask in self.subtasks]) for name in rescaled}
        spans = [each.subpartitions for each in self.subtasks if each.subpartitions and not each.hot_part]
        return {
            "version": _FORMAT_VERSION,
            "region": self.region,
            "parallelism": self.parallelism,
            "rule": self.rule,
            "reason": self.reason,
            "clamps": [clamp.to_json() for clamp in self.clamps],
            "options": self.options.to_json(),
            "inputs": [entry.to_json() for entry in self.inputs],
            "cuts": [0, *(span.stop for span in spans)] if spans else None,
            "bytes": [subtask.bytes for subtask in self.subtasks],
            "splits": {
                entry.name: [list(subtask.splits[entry.name]) for subtask in self.subtasks]
                for entry in self.inputs
                if entry.kind == "source"
            },
            "hot_parts": [_part_to_json(subtask.hot_part) for subtask in self.subtasks if subtask.hot_part],
            **({"files": files} if files else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RegionDecision:
        """Inverse of `to_json`.

        Raises:
            InvalidValueError: another format version, or something is missing.
        """
        if data.get("version") != _FORMAT_VERSION:
            raise InvalidValueError(
                f"decision: expected format version {_FORMAT_VERSION}, found {data.get('version')!r}"
            )
        try:
            return cls._from_current_json(data)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise InvalidValueError(
                f"decision of region {data.get('region')!r}: incomplete or damaged ({error!r})"
            ) from error

    @classmethod
    def _from_current_json(cls, data: Mapping[str, Any]) -> RegionDecision:
        return cls(
            region=data["region"],
            parallelism=data["parallelism"],
            rule=data["rule"],
            reason=data["reason"],
            clamps=tuple(Clamp.from_json(clamp) for clamp in data["clamps"]),
            options=RegionOptions(**{**data["options"], "splittable": tuple(data["options"].get("splittable", ()))}),
            inputs=tuple(InputSummary.from_json(entry) for entry in data["inputs"]),
            subtasks=_subtasks_from_json(data),
        )


def _subtasks_from_json(data: Mapping[str, Any]) -> tuple[SubtaskAssignment, ...]:
    """Those that read ranges come first, those that share hot subpartitions last."""
    parts = [_part_from_json(part) for part in data.get("hot_parts", ())]
    spans = [IndexRange(start, stop) for start, stop in pairwise(data["cuts"] or ())]
    reads = [*((span, None) for span in spans), *((_only(part), part) for part in parts)]
    files = {name: from_cuts(cuts) for name, cuts in data.get("files", {}).items()}
    return tuple(
        SubtaskAssignment(
            index=index,
            subpartitions=reads[index][0] if reads else None,
            splits={name: tuple(by_subtask[index]) for name, by_subtask in data["splits"].items()},
            bytes=size,
            hot_part=reads[index][1] if reads else None,
            files={name: span for name, spans in files.items() if (span := spans[index])},
        )
        for index, size in enumerate(data["bytes"])
    )


def _part_to_json(part: HotPart) -> dict[str, Any]:
    """A part that is no share is stored as before there were any. A share has no producers: a reader without
    shares must not take it for all that its producer wrote."""
    stored = asdict(part)
    return stored if part.share is not None else {key: value for key, value in stored.items() if key != "share"}


def _part_from_json(data: Mapping[str, Any]) -> HotPart:
    share = data.get("share")
    if share is not None:
        return HotPart(**{**data, "producers": None, "share": ProducerShare(**share)})
    return HotPart(**{**data, "producers": IndexRange(**data["producers"])})


def _only(part: HotPart) -> IndexRange:
    return IndexRange(part.subpartition, part.subpartition + 1)


def decide_region(
    region: str, inputs: Sequence[BlockingInput], sources: Sequence[SourceInput], options: RegionOptions
) -> RegionDecision:
    """Decide parallelism and ranges of one region.

    There is always at least one subtask. With the `balanced` strategy no subtask reads more than the target from
    partitioned and rescale inputs, unless a single subpartition or file is too large, or a bound forces it (then the
    reason says which). The number is the fewest consecutive ranges of whole subpartitions, and of whole files, that
    keep the target, so it may exceed total/target; the ranges are then cut to about equal bytes, which goes beyond
    Flink.

    Raises:
        InvalidValueError: duplicate names, partitioned inputs with different numbers of subpartitions, or a parallelism
            set by the user above that number.
    """
    known = RegionInputs(region, tuple(inputs), tuple(sources))
    totals = known.bytes_by_subpartition()
    parts = split_hot_subpartitions(known, totals, options)
    hot = {part.subpartition for part in parts}
    sizes = [0 if index in hot else size for index, size in enumerate(totals)]
    verdict = decide_region_parallelism(known, sizes, options, len(parts), sum(totals) - sum(sizes))
    spans = _cut(sizes, verdict.rule, verdict.parallelism - len(parts))
    reads: list[_OwnRange] = [(span, sum(sizes[span.start : span.stop]), None) for span in spans]
    reads += [(_only(part), part.bytes, part) for part in parts]
    files = known.files
    subtasks = _assign(known, files, reads or [(None, 0, None)] * verdict.parallelism)
    reason = complete_reason(
        replace(verdict, reason=say_notes(verdict.reason, {source.name: source.note for source in known.sources})),
        sizes,
        files,
        {source.name: source.split_bytes for source in known.sources},
        parts,
        largest=max(subtask.bytes for subtask in subtasks),
        target_bytes=known.own_target(options),
    )
    return RegionDecision(
        region=region,
        parallelism=verdict.parallelism,
        rule=verdict.rule,
        reason=say_inferred(reason, {entry.name: entry.inferred for entry in known.blocking}),
        clamps=verdict.clamps,
        options=options,
        inputs=(*map(InputSummary.of_input, known.blocking), *map(InputSummary.of_source, known.sources)),
        subtasks=subtasks,
    )


_OwnRange = tuple[IndexRange | None, int, HotPart | None]
"""Of one subtask: its subpartitions, their bytes, and its part if they are a hot one."""


def _assign(
    known: RegionInputs, files: Mapping[str, Sequence[int]], reads: Sequence[_OwnRange]
) -> tuple[SubtaskAssignment, ...]:
    """Files go to what was cut already, and splits, which are in no order, to the subtask that then reads least."""
    splits = {source.name: source.split_bytes for source in known.sources}
    dealt = deal_out_files(files, [size for _, size, _ in reads])
    own_bytes = [
        size + sum(sum(files[name][span.start : span.stop]) for name, span in own_files.items())
        for (_, size, _), own_files in zip(reads, dealt, strict=True)
    ]
    return tuple(
        SubtaskAssignment(
            index=index,
            subpartitions=reads[index][0],
            splits=own_splits,
            bytes=own_bytes[index]
            + sum(splits[name][split] for name, picked in own_splits.items() for split in picked),
            hot_part=reads[index][2],
            files=dealt[index],
        )
        for index, own_splits in enumerate(assign_splits(splits, own_bytes))
    )


def _cut(sizes: Sequence[int], rule: str, count: int) -> list[IndexRange]:
    if not sizes or not count:
        return []
    return split_by_count(len(sizes), count) if rule == "power_of_two" else cut_by_bytes(sizes, count)


def _describe_subtask(subtask: SubtaskAssignment) -> str:
    parts = [] if subtask.subpartitions is None else [f"subpartitions {subtask.subpartitions}"]
    if subtask.hot_part:
        parts.append(f"of {subtask.hot_part.input} {_describe_part(subtask.hot_part)}")
    parts += [f"files {span} of {name}" for name, span in subtask.files.items()]
    parts += [f"{format_count(len(picked), 'split')} of {name}" for name, picked in subtask.splits.items()]
    return f"subtask {subtask.index}: {format_bytes(subtask.bytes)}" + (f" ({', '.join(parts)})" if parts else "")


def _describe_part(part: HotPart) -> str:
    return f"{part.share}" if part.share is not None else f"what producers {part.producers} wrote"
