"""`decision.json`: what `decide` chose for a region, with everything a subtask needs to find its input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from airflow_abs.core.decide.file_ranges import locate_files
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionInputs, SourceInput
from airflow_abs.exchange.errors import ExchangeError, StaleManifestError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.plan import JobPlan, PlannedInput, PlannedRegion, region_options
from airflow_abs.exchange.records.reading import Count, Positive, Seconds, as_record, refuse
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.splits import list_splits
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import decode_json, read_bytes, write_json

SubtaskReport = Mapping[str, Any]
"""What a subtask pushes as XCom: its index, and for each result the bytes per subpartition (per file for rescale)."""


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision with the files that its splits mean and the number of subtasks of every producer region.

    `plan` is the id of the plan that it was made under; `producer_decisions` are the digests of the decisions that
    mapped the producers: what they write under another one, the ranges of this one do not fit. `measured` is what it
    rests on, for a replay: bytes per subpartition by input, over all subtasks that had written it by then; of inputs
    whose hot subpartitions may be dealt out, `measured_by_producer` has those of each subtask, and of rescale inputs
    the bytes of each subtask's files. `placements` are, by rescale input, the checksums of what its producer's subtasks
    wrote: a file that is named by its number alone must hold the rows that it was decided for. `measured_at` is when
    the last subtask before it ended (when it was decided, if it reads files alone or the triggerer decided), in epoch
    seconds; None if nobody knows.
    """

    plan: str
    decision: RegionDecision
    files: Mapping[str, Sequence[SourceFile]]
    producers: Mapping[str, int]
    producer_decisions: Mapping[str, str] = field(default_factory=dict)
    measured: Mapping[str, Sequence[int]] = field(default_factory=dict)
    measured_by_producer: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    placements: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    measured_at: float | None = None

    @property
    def digest(self) -> str:
        """Identifies the decision: a subtask that was mapped by one decision must not run under another.

        Not part of it is what was measured: two decisions with the same ranges are one.
        """
        chosen = {name: value for name, value in self.to_json().items() if not name.startswith("measured")}
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16]

    def files_of(self, index: int, source: str) -> list[SourceFile]:
        """The files that one subtask reads from one source."""
        return [self.files[source][split] for split in self.decision.subtasks[index].splits[source]]

    def rescaled_files(self, name: str, span: IndexRange) -> dict[int, IndexRange]:
        """Where a range of a rescale input's files is: producer subtask to the range of its own files."""
        return locate_files([len(row) for row in self.measured_by_producer[name]], span)

    def to_json(self) -> dict[str, Any]:
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
            **({"placements": {name: list(of) for name, of in self.placements.items()}} if self.placements else {}),
        }

    def as_measured(self, planned: PlannedInput) -> BlockingInput:
        """Where only sums over the producer's subtasks decide, only they are recorded, and stand for the first one."""
        if rows := self.measured_by_producer.get(planned.name):
            return BlockingInput(planned.name, planned.partitioning, rows)
        sizes = self.measured[planned.name]
        nothing = [0] * len(sizes)
        rows = [sizes, *[nothing] * (self.producers[planned.region] - 1)]
        return BlockingInput(planned.name, planned.partitioning, rows)

    def as_listed(self) -> list[SourceInput]:
        """The files of its sources."""
        return [SourceInput(name, [file.bytes for file in listed]) for name, listed in self.files.items()]

    def check_fits(self, planned: PlannedRegion, where: str) -> None:
        """That it was made of what the plan has for the region, and could be made again.

        Raises:
            DamagedFileError: it was not, or is not whole.
        """
        missing = [each.name for each in planned.inputs if each.name not in self.measured]
        missing += [each.region for each in planned.inputs if each.region not in self.producers]
        missing += [each.name for each in planned.sources if each.name not in self.files]
        if missing:
            refuse(where, f"it says nothing of {missing[0]!r}, which the plan has")
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
        stored = StoredDecision(
            plan=fields.plan,
            decision=_read_core_decision(fields.decision, where),
            files={name: [SourceFile(path, size) for path, size in listed] for name, listed in fields.files.items()},
            producers=fields.producers,
            producer_decisions=fields.producer_decisions,
            measured=fields.measured,
            measured_by_producer=fields.measured_by_producer,
            placements=fields.placements,
            measured_at=fields.measured_at,
        )
        if fields.producers.keys() != fields.producer_decisions.keys():
            found, expected = sorted(fields.producer_decisions), sorted(fields.producers)
            refuse(where, f"producer_decisions are of {found}, expected {expected}")
        _check_splits(stored, where)
        return stored


@dataclass(frozen=True, slots=True)
class _Fields:
    """decision.json as it is stored."""

    plan: str
    decision: dict[str, Any]
    files: dict[str, list[tuple[str, Count]]]
    producers: dict[str, Positive]
    producer_decisions: dict[str, str]
    measured: dict[str, list[Count]]
    measured_by_producer: dict[str, list[list[Count]]] = field(default_factory=dict)
    placements: dict[str, list[str | None]] = field(default_factory=dict)
    measured_at: Seconds | None = None


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


def decide_and_store(
    folder: JobFolder,
    plan: JobPlan,
    region: str,
    reports: Mapping[str, Sequence[SubtaskReport]],
    open_path: Callable[[str], ExchangePath],
    measured_at: float | None = None,
) -> StoredDecision:
    """Decide one region from what its producers reported and from its sources' files, and store the decision.

    Args:
        folder: of the run.
        plan: of the run.
        region: its name.
        reports: producer region to the reports of all its subtasks, in any order.
        open_path: turns a source's path into one that can be listed.
        measured_at: as in `StoredDecision`.

    Raises:
        ExchangeError: a report is missing; a source path matches nothing.
    """
    planned = plan.region(region)
    ordered = {name: _in_order(region, name, found) for name, found in reports.items()}
    files = {source.name: list_splits(source.files, open_path) for source in planned.sources}
    inputs = [
        BlockingInput(entry.name, entry.partitioning, _bytes_by_partition(entry, ordered[entry.region]))
        for entry in planned.inputs
    ]
    decision = decide_region(
        region,
        inputs,
        [SourceInput(name, [file.bytes for file in listed]) for name, listed in files.items()],
        region_options(plan, planned),
    )
    stored = StoredDecision(
        plan=plan.id,
        decision=decision,
        files=files,
        producers={name: len(found) for name, found in ordered.items()},
        producer_decisions={name: _one_decision(region, name, found) for name, found in ordered.items()},
        measured={entry.name: entry.bytes_by_subpartition() for entry in inputs},
        measured_by_producer={
            entry.name: entry.bytes_by_partition
            for entry in inputs
            if entry.name in planned.splittable or entry.is_rescale
        },
        placements={
            entry.name: [report["results"][entry.result]["checksum"] for report in ordered[entry.region]]
            for entry in planned.inputs
            if entry.is_rescale
        },
        measured_at=measured_at,
    )
    write_json(folder.decision_path(region), stored.to_json())
    return stored


def read_decision(folder: JobFolder, region: str, *, digest: str | None = None) -> StoredDecision:
    """Read a region's decision back.

    Raises:
        StaleManifestError: it is not the one with this digest, because `decide` ran again in the meantime.
        MissingFileError, DamagedFileError: see `read_json`.
    """
    stored, found = read_decision_and_digest(folder, region)
    if digest is not None and found != digest:
        path = locate(folder.decision_path(region))
        raise StaleManifestError(
            f"{region}: this subtask was mapped by decision {digest}, but {path} holds decision {found}; "
            f"decide ran again: clear all subtasks of {region}, so that they are mapped anew",
            path=str(path),
        )
    return stored


def read_decision_and_digest(folder: JobFolder, region: str) -> tuple[StoredDecision, str]:
    """Read a region's decision back, whichever it is. The same content is parsed once: a triggerer has hundreds of its
    subtasks, and each has to look."""
    path = folder.decision_path(region)
    return _parse(read_bytes(path), str(locate(path)))


@lru_cache(maxsize=32)
def _parse(data: bytes, where: str) -> tuple[StoredDecision, str]:
    stored = StoredDecision.from_json(decode_json(data, where=where), where=where)
    return stored, stored.digest


def _in_order(region: str, producer: str, reports: Sequence[SubtaskReport]) -> list[SubtaskReport]:
    ordered = sorted(reports, key=lambda report: int(report["index"]))
    found, expected = [report["index"] for report in ordered], int(ordered[0]["subtasks"]) if ordered else 0
    if not ordered or found != list(range(expected)):
        raise ExchangeError(
            f"{region}: expected reports of subtasks 0 to {expected - 1} of {producer}, found {found}; "
            f"clear the subtasks of {producer} that are missing"
        )
    return ordered


def _one_decision(region: str, producer: str, reports: Sequence[SubtaskReport]) -> str:
    found = sorted({str(report["decision"]) for report in reports})
    if len(found) != 1:
        raise ExchangeError(
            f"{region}: the subtasks of {producer} ran under {len(found)} decisions ({', '.join(found)}), expected "
            f"one; clear all subtasks of {producer}"
        )
    return found[0]


def _bytes_by_partition(entry: PlannedInput, reports: Sequence[SubtaskReport]) -> list[list[int]]:
    sizes = "files" if entry.is_rescale else "bytes"
    return [list(report["results"][entry.result][sizes]) for report in reports]
