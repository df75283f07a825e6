"""`decision.json`: what `decide` chose for a region, with everything a subtask needs to find its input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from airflow_abs.core.decide.hot_subpartitions import HotSubpartition, find_hottest
from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionInputs, SizeFrom, SourceInput
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import AttemptsRead
from airflow_abs.exchange.records.plan import PlannedInput, PlannedRegion
from airflow_abs.exchange.records.reading import Count, Seconds, Subtasks, as_record, refuse
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import from_columns
from airflow_abs.exchange.sources.splits import ListedSource
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import decode_json, read_bytes


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision with the files of its splits and the number of subtasks of every producer region.

    `plan` is the id of its plan. `producer_decisions` are the digests of the decisions that mapped the producers:
    output of another decision does not fit these ranges. `measured` are the bytes that it was decided from, for a
    replay: per subpartition by input, over all subtasks; where a hot subpartition is distributed,
    `measured_by_producer` has the bytes of each subtask, and for rescale inputs those of each subtask's files.
    `placements` are the checksums of the producer's output, by rescale input: a file that is named only by its number
    must have the rows that it was decided for. `cut_attempts` are the attempts of all producers, by input whose hot
    parts are shares of one producer's output: another attempt may have its rows in other places. `measured_at` is when
    the last subtask before it ended (when it was decided, if it reads files alone or the triggerer decided), in epoch
    seconds; None if unknown. `partitions_read` is how many of how many partitions are read, by pruned source; `notes`
    are further words of the reason, by source. `guessed` says where sizes come from if the source did not tell;
    `inferred` are the numbers of subtasks that sources asked for. `pruning` are the values that rows must have, as
    ranges by source and column: `files` has only files that may contain them; `measured_attempts` are the attempts, by
    producer region, whose values were read.
    """

    plan: str
    decision: RegionDecision
    files: Mapping[str, Sequence[SourceFile]]
    producers: Mapping[str, int]
    producer_decisions: Mapping[str, str] = field(default_factory=dict)
    measured: Mapping[str, Sequence[int]] = field(default_factory=dict)
    measured_by_producer: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    placements: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    cut_attempts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    measured_at: float | None = None
    partitions_read: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    guessed: Mapping[str, SizeFrom] = field(default_factory=dict)
    inferred: Mapping[str, int] = field(default_factory=dict)
    pruning: Mapping[str, Mapping[str, Sequence[tuple[int | str, int | str]]]] = field(default_factory=dict)
    measured_attempts: Mapping[str, Sequence[AttemptsRead]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Identifies the decision: a subtask that was mapped by one decision must not run under another.

        Not part of it is what was measured: two decisions with the same ranges are one.
        """
        chosen = {name: value for name, value in self.to_json().items() if not name.startswith("measured")}
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def hottest(self) -> HotSubpartition | None:
        """Of all inputs that are read by hash."""
        sizes = {each.name: self.measured.get(each.name, ()) for each in self.decision.inputs if each.kind == "hash"}
        return find_hottest(sizes, self.decision.options.target_bytes)

    def files_of(self, index: int, source: str) -> list[SourceFile]:
        """The files that one subtask reads from one source."""
        return [self.files[source][split] for split in self.decision.subtasks[index].splits[source]]

    def to_json(self) -> dict[str, Any]:
        constants = {
            name: [file.constants for file in files]
            for name, files in self.files.items()
            if any(file.constants for file in files)
        }
        versions = {
            name: [file.version for file in files]
            for name, files in self.files.items()
            if any(file.version for file in files)
        }
        rare = (
            ("partitions_read", self.partitions_read),
            ("placements", self.placements),
            ("cut_attempts", self.cut_attempts),
            ("constants", constants),
            ("versions", versions),
        )
        return {
            "plan": self.plan,
            "decision": self.decision.to_json(),
            "files": {name: [[file.path, file.bytes] for file in files] for name, files in self.files.items()},
            "producers": dict(self.producers),
            "producer_decisions": dict(self.producer_decisions),
            "measured": {name: list(sizes) for name, sizes in self.measured.items()},
            "measured_by_producer": {
                name: [list(sizes) for sizes in rows] for name, rows in self.measured_by_producer.items()
            },
            "measured_at": self.measured_at,
            # Not there without such inputs: the digest of an older decision stays what it was.
            **{name: {key: list(of) for key, of in found.items()} for name, found in rare if found},
            **({"notes": dict(self.notes)} if self.notes else {}),
            **({"guessed": dict(self.guessed)} if self.guessed else {}),
            **({"inferred": dict(self.inferred)} if self.inferred else {}),
            **({"pruning": msgspec.to_builtins(self.pruning)} if self.pruning else {}),
            **({"measured_attempts": msgspec.to_builtins(self.measured_attempts)} if self.measured_attempts else {}),
        }

    def as_measured(self, planned: PlannedInput) -> BlockingInput:
        """Where only sums over the producer's subtasks decide, only they are recorded, and stand for the first one."""
        if rows := self.measured_by_producer.get(planned.name):
            return blocking_input(planned, rows)
        sizes = self.measured[planned.name]
        nothing = [0] * len(sizes)
        rows = [sizes, *[nothing] * (self.producers[planned.region] - 1)]
        return blocking_input(planned, rows)

    def as_listed(self) -> list[SourceInput]:
        """The files of its sources."""
        return [
            ListedSource(
                listed,
                self.partitions_read.get(name),
                self.notes.get(name),
                self.guessed.get(name, "source"),
                parallelism=self.inferred.get(name),
            ).as_input(name)
            for name, listed in self.files.items()
        ]

    def check_fits(self, planned: PlannedRegion, where: str) -> None:
        """That it was made of what the plan has for the region, and could be made again.

        Raises:
            DamagedFileError: it was not, or is not whole.
        """
        missing = [each.name for each in planned.inputs if each.name not in self.measured]
        missing += [each.region for each in planned.inputs if each.region not in self.producers]
        missing += [each.name for each in planned.sources if each.name not in self.files]
        if missing:
            refuse(where, f"it lacks {missing[0]!r}, which the plan has")
        try:
            inputs = RegionInputs(planned.name, tuple(map(self.as_measured, planned.inputs)), tuple(self.as_listed()))
        except ValueError as error:
            refuse(where, str(error))
        for entry in inputs.blocking:
            if entry.bytes_by_subpartition() != list(self.measured[entry.name]):
                refuse(where, f"what was measured of {entry.name!r} by producer does not add up to its subpartitions")

    @staticmethod
    def from_json(payload: Mapping[str, Any], *, where: str) -> StoredDecision:
        """Build and check a decision; a DamagedFileError names the first field that is wrong."""
        fields = as_record(payload, _Fields, where=where)
        for what, by_source in (("constants", fields.constants), ("versions", fields.versions)):
            for name, texts in by_source.items():
                if len(texts) != len(fields.files.get(name, ())):
                    refuse(where, f"it has {what} of {len(texts)} files of {name!r}, expected those of its files")
        stored = StoredDecision(
            plan=fields.plan,
            decision=_read_core_decision(fields.decision, where),
            files={
                name: from_columns(listed, fields.constants.get(name, ()), fields.versions.get(name, ()))
                for name, listed in fields.files.items()
            },
            producers=fields.producers,
            producer_decisions=fields.producer_decisions,
            measured=fields.measured,
            measured_by_producer=fields.measured_by_producer,
            placements=fields.placements,
            cut_attempts=fields.cut_attempts,
            measured_at=fields.measured_at,
            partitions_read=fields.partitions_read,
            notes=fields.notes,
            guessed=fields.guessed,
            inferred=fields.inferred,
            pruning=fields.pruning,
            measured_attempts=fields.measured_attempts,
        )
        if fields.producers.keys() != fields.producer_decisions.keys():
            found, expected = sorted(fields.producer_decisions), sorted(fields.producers)
            refuse(where, f"producer_decisions are of {found}, expected {expected}")
        _check_splits(stored, where)
        _check_shares(stored, where)
        return stored


@dataclass(frozen=True, slots=True)
class _Fields:
    """decision.json as it is stored."""

    plan: str
    decision: dict[str, Any]
    files: dict[str, list[tuple[str, Count]]]
    producers: dict[str, Subtasks]
    producer_decisions: dict[str, str]
    measured: dict[str, list[Count]]
    measured_by_producer: dict[str, list[list[Count]]] = field(default_factory=dict)
    placements: dict[str, list[str | None]] = field(default_factory=dict)
    cut_attempts: dict[str, list[Count]] = field(default_factory=dict)
    measured_at: Seconds | None = None
    partitions_read: dict[str, tuple[Count, Count]] = field(default_factory=dict)
    constants: dict[str, list[tuple[str | None, ...]]] = field(default_factory=dict)
    versions: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    guessed: dict[str, SizeFrom] = field(default_factory=dict)
    inferred: dict[str, Subtasks] = field(default_factory=dict)
    pruning: dict[str, dict[str, list[tuple[int | str, int | str]]]] = field(default_factory=dict)
    measured_attempts: dict[str, tuple[AttemptsRead, ...]] = field(default_factory=dict)


def _read_core_decision(value: Mapping[str, Any], where: str) -> RegionDecision:
    """The core reads what it wrote; whether that has the types which it declares is found out here."""
    try:
        decision = RegionDecision.from_json(value)
    except ValueError as error:
        refuse(where, str(error))
    as_record(msgspec.to_builtins(decision), RegionDecision, where=where, part="decision: ")
    if not 0 < len(decision.subtasks) == decision.parallelism:
        refuse(where, f"it has {len(decision.subtasks)} subtasks at a parallelism of {decision.parallelism}")
    return decision


def _check_shares(stored: StoredDecision, where: str) -> None:
    for part in (subtask.hot_part for subtask in stored.decision.subtasks):
        if part is not None and part.share is not None:
            attempts = stored.cut_attempts.get(part.input, ())
            if part.share.producer >= len(attempts):
                refuse(where, f"it does not say of which attempt {part.share} of {part.input!r} is")


def _check_splits(stored: StoredDecision, where: str) -> None:
    for subtask in stored.decision.subtasks:
        if subtask.splits.keys() != stored.files.keys():
            refuse(
                where,
                f"subtask {subtask.index} has splits of {sorted(subtask.splits)}, expected {sorted(stored.files)}",
            )
        for source, splits in subtask.splits.items():
            if splits and not 0 <= min(splits) <= max(splits) < len(stored.files[source]):
                refuse(
                    where, f"subtask {subtask.index} reads splits of {source} outside [0, {len(stored.files[source])})"
                )
    if (found := {entry.name for entry in stored.decision.inputs if entry.kind == "source"}) != stored.files.keys():
        refuse(where, f"it was decided from sources {sorted(found)}, expected {sorted(stored.files)}")


def read_decision(folder: JobFolder, region: str) -> StoredDecision:
    """Read a region's decision back.

    Raises:
        MissingFileError, DamagedFileError: see `read_json`.
    """
    return read_decision_and_digest(folder, region)[0]


def read_decision_and_digest(folder: JobFolder, region: str) -> tuple[StoredDecision, str]:
    """Read a region's decision back, whichever it is. The same content is parsed once: a triggerer has hundreds of its
    subtasks, and each has to look."""
    path = folder.decision_path(region)
    return _parse(read_bytes(path), str(locate(path)))


@lru_cache(maxsize=32)
def _parse(data: bytes, where: str) -> tuple[StoredDecision, str]:
    stored = StoredDecision.from_json(decode_json(data, where=where), where=where)
    return stored, stored.digest


def blocking_input(planned: PlannedInput, rows: Sequence[Sequence[int]]) -> BlockingInput:
    """An input as its region is decided by it."""
    return BlockingInput(planned.name, planned.partitioning, rows, planned.how if planned.inferred else None)
