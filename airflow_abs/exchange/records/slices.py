"""`slice.json`: what one subtask reads, and all else that it has to know of its region's decision.

`decide` writes one for each subtask, so that none has to read what the others do: `decision.json` names every file of
every source, and the bytes of every producer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_abs.core.decide.file_ranges import locate_files
from airflow_abs.core.decide.hot_subpartitions import HotPart, HotSubpartition
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.exchange.errors import MissingFileError, StaleManifestError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.decisions import StoredDecision, read_decision_and_digest
from airflow_abs.exchange.records.manifest import ResultFile
from airflow_abs.exchange.records.plan import PlannedRegion
from airflow_abs.exchange.records.reading import Count, Subtasks, as_record, refuse
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import read_json, write_json

_WRITE_THREADS = 16


@dataclass(frozen=True, slots=True)
class RescaledFiles:
    """A range of a rescale input's files, which are numbered through producer by producer, and who wrote them.

    `producers` are the subtasks that wrote them; `first` is the number of the first file of the first of these. `bytes`
    are, for each of them, those of all its files; `checksums` are of what each had written when it was decided: a file
    that is named by its number alone must hold the rows that it was decided for.
    """

    span: IndexRange
    producers: IndexRange
    first: Count
    bytes: tuple[tuple[Count, ...], ...]
    checksums: tuple[str | None, ...]

    @staticmethod
    def within(
        span: IndexRange, by_producer: Sequence[Sequence[int]], checksums: Sequence[str | None]
    ) -> RescaledFiles:
        """Of all producers' files those of a range."""
        counts = [len(row) for row in by_producer]
        found = locate_files(counts, span)
        start, stop = min(found), max(found) + 1
        rows = tuple(tuple(row) for row in by_producer[start:stop])
        return RescaledFiles(span, IndexRange(start, stop), sum(counts[:start]), rows, tuple(checksums[start:stop]))

    def located(self, span: IndexRange) -> dict[int, IndexRange]:
        """Where files of a range within the span are: producer subtask to the range of its own files."""
        own = IndexRange(span.start - self.first, span.stop - self.first)
        counts = [len(row) for row in self.bytes]
        return {self.producers.start + number: files for number, files in locate_files(counts, own).items()}

    def bytes_in(self, span: IndexRange) -> list[int]:
        """Bytes of each file of a range within the span."""
        sizes = [size for row in self.bytes for size in row]
        return sizes[span.start - self.first : span.stop - self.first]

    def cut(self, producer: int, files: IndexRange, written: Sequence[ResultFile]) -> Sequence[ResultFile]:
        """A range of a producer's files. One that ran again may have written more files, or fewer: the subtask with the
        last one that was decided about reads the rest, so that each file has one reader."""
        last, _ = self.decided(producer)
        return written[files.start : None if files.stop == last else files.stop]

    def decided(self, producer: int) -> tuple[int, str | None]:
        """How many files a producer had written by then, and their checksum."""
        number = producer - self.producers.start
        return len(self.bytes[number]), self.checksums[number]


@dataclass(frozen=True, slots=True)
class Slice:
    """What one subtask reads.

    `decision` is the digest of its decision, `parallelism` the number of subtasks there; `bytes` are its own,
    `largest_bytes` those of the largest subtask. `subpartitions` is the range for all inputs that are read by range,
    None if there are none, without the hot ones in `left_out`, which other subtasks read; with a `hot_part` it reads a
    part of one. If the part is a share of one producer's output, it is from attempt `cut_attempt`. `files` are by
    source, `rescaled` by rescale input, without inputs that it does not read. `producers` are the numbers of subtasks
    of the upstream regions, `producer_decisions` the digests of the decisions that mapped those. The subtask that reads
    the region's `hottest` subpartition looks for its key.
    """

    decision: str
    index: Count
    parallelism: Subtasks
    bytes: Count
    largest_bytes: Count
    subpartitions: IndexRange | None
    left_out: tuple[Count, ...] = ()
    hot_part: HotPart | None = None
    cut_attempt: Count | None = None
    files: Mapping[str, tuple[SourceFile, ...]] = field(default_factory=dict)
    rescaled: Mapping[str, RescaledFiles] = field(default_factory=dict)
    producers: Mapping[str, Subtasks] = field(default_factory=dict)
    producer_decisions: Mapping[str, str] = field(default_factory=dict)
    hottest: HotSubpartition | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(payload: Mapping[str, Any], *, where: str) -> Slice:
        """Build and check a slice; a DamagedFileError names the first field that is wrong."""
        found = as_record(payload, Slice, where=where)
        if found.index >= found.parallelism:
            refuse(where, f"it is of subtask {found.index}, expected one of [0, {found.parallelism})")
        part = found.hot_part
        if part is not None and (part.share is None) is (part.producers is None):
            refuse(where, f"its part of a hot subpartition is of producers {part.producers} and {part.share}")
        if part is not None and part.share is not None and found.cut_attempt is None:
            refuse(where, f"it does not say from which attempt it reads {part.share}")
        for name, files in found.rescaled.items():
            last = files.first + sum(map(len, files.bytes))
            if not files.first <= files.span.start < files.span.stop <= last:
                refuse(where, f"files {files.span} of {name!r} are outside [{files.first}, {last})")
            if not len(files.producers) == len(files.bytes) == len(files.checksums):
                refuse(where, f"files of {name!r} are of {len(files.bytes)} producers, expected {files.producers}")
        return found

    def check_fits(self, planned: PlannedRegion, where: str) -> None:
        """That it was made of what the plan has for the region.

        Raises:
            DamagedFileError: it was not.
        """
        missing = [each.region for each in planned.inputs if each.region not in self.producers]
        missing += [each.region for each in planned.inputs if each.region not in self.producer_decisions]
        missing += [each.name for each in planned.sources if each.name not in self.files]
        if missing:
            refuse(where, f"it lacks {missing[0]!r}, which the plan has")
        span, most = self.subpartitions, planned.subpartitions
        if any(each.is_ranged for each in planned.inputs) != (span is not None):
            refuse(where, f"its subpartitions are {span}, which does not fit the inputs that the plan has")
        if span is not None and span.stop > most:
            refuse(where, f"its subpartitions are {span}, expected some of [0, {most})")


def cut_slices(stored: StoredDecision) -> list[Slice]:
    """What each subtask reads, in order."""
    digest, looks = stored.digest, _choose_looker(stored)
    return [_cut(stored, digest, index, looks) for index in range(stored.decision.parallelism)]


def write_slices(folder: JobFolder, region: str, slices: Sequence[Slice]) -> None:
    """Write them all, before the decision that they are parts of."""
    with ThreadPoolExecutor(min(_WRITE_THREADS, len(slices)), thread_name_prefix="write-slice") as pool:
        list(pool.map(lambda each: write_json(folder.slice_path(region, each.index), each.to_json()), slices))


def read_slice(folder: JobFolder, planned: PlannedRegion, index: int, *, decision: str) -> Slice:
    """What a subtask that the decision with this digest mapped reads. A released run, and one that an older version
    began, has it in `decision.json` alone.

    Raises:
        StaleManifestError: it is of another decision, because `decide` ran again in the meantime.
        MissingFileError, DamagedFileError: see `read_json`.
    """
    path = folder.slice_path(planned.name, index)
    try:
        found = Slice.from_json(read_json(path), where=str(locate(path)))
    except MissingFileError:
        path = folder.decision_path(planned.name)
        stored, of = read_decision_and_digest(folder, planned.name)
        stored.check_fits(planned, str(locate(path)))
        found = _cut(stored, of, min(index, stored.decision.parallelism - 1), _choose_looker(stored))
    where = str(locate(path))
    if found.decision != decision:
        raise StaleManifestError(
            f"{planned.name}: this subtask was mapped by decision {decision}, but {where} holds decision "
            f"{found.decision}; decide ran again: clear all subtasks of {planned.name} to map them again",
            path=where,
        )
    if found.index != index:
        refuse(where, f"it is of subtask {found.index}, expected {index}")
    found.check_fits(planned, where)
    return found


def _cut(stored: StoredDecision, digest: str, index: int, looks: Mapping[int, HotSubpartition]) -> Slice:
    own, hot = stored.decision.subtasks[index], stored.decision.hot_subpartitions
    return Slice(
        decision=digest,
        index=index,
        parallelism=stored.decision.parallelism,
        bytes=own.bytes,
        largest_bytes=stored.decision.largest_bytes,
        subpartitions=own.subpartitions,
        left_out=() if own.hot_part else tuple(sorted(hot.intersection(own.subpartitions or ()))),
        hot_part=own.hot_part,
        cut_attempt=_cut_attempt(stored, own.hot_part),
        files={source: tuple(stored.files_of(index, source)) for source in stored.files},
        rescaled={
            name: RescaledFiles.within(span, stored.measured_by_producer[name], stored.placements[name])
            for name, span in own.files.items()
        },
        producers=stored.producers,
        producer_decisions=stored.producer_decisions,
        hottest=looks.get(index),
    )


def _cut_attempt(stored: StoredDecision, part: HotPart | None) -> int | None:
    return stored.cut_attempts[part.input][part.share.producer] if part is not None and part.share is not None else None


def _choose_looker(stored: StoredDecision) -> dict[int, HotSubpartition]:
    """The hottest subpartition by the first subtask that reads it, or a part of it; {} if none is hot."""
    hottest = stored.hottest
    if hottest is None:
        return {}
    number, shared = hottest.subpartition, hottest.subpartition in stored.decision.hot_subpartitions
    reads = (
        each.index
        for each in stored.decision.subtasks
        if number in (each.subpartitions or ()) and (each.hot_part is not None) is shared
    )
    return {next(reads): hottest}
