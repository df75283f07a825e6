"""The manifest of a subtask: written last, the only thing that readers trust.

A file that no manifest names does not exist for a reader, whatever its folder holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from airflow_abs.core.expect.verdicts import Tally
from airflow_abs.core.wording import format_bytes, format_count, format_indexes
from airflow_abs.exchange.errors import DamagedFileError, MissingFileError, StaleManifestError
from airflow_abs.exchange.paths import JobFolder, relative_parts
from airflow_abs.exchange.records.reading import Count, Positive, Seconds, as_record, refuse
from airflow_abs.exchange.storage.client_errors import raise_unlisted, storage_errors
from airflow_abs.exchange.storage.listings import key_of, list_below
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import read_json, write_json

MANIFEST_VERSION = 1
_READ_THREADS = 16


class SubpartitionRange(Protocol):
    """Half-open [start, stop); `airflow_abs.core.decide.ranges.IndexRange` is one."""

    @property
    def start(self) -> int: ...

    @property
    def stop(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ResultFile:
    """One committed data file; `path` is relative to the job folder.

    `subpartition_bytes` are the sizes of subpartitions `first`, `first + 1`, ...; every subpartition that has a row
    in the file has a size above 0. Their sum may be below `bytes` (footers and indexes belong to no subpartition).
    `tail_crc` is the checksum of the last `tail_bytes`, where Parquet keeps what its own checksums do not cover. `etag`
    is what an object store said of its content then; None on other storage.
    """

    path: str
    bytes: Count
    rows: Count
    first: Count
    subpartition_bytes: tuple[Count, ...]
    tail_bytes: Count = 0
    tail_crc: str | None = None
    etag: str | None = None

    def bytes_in(self, subpartitions: SubpartitionRange) -> int:
        """Bytes of this file's rows in [start, stop)."""
        start = max(subpartitions.start - self.first, 0)
        stop = max(subpartitions.stop - self.first, 0)
        return sum(self.subpartition_bytes[start:stop])


@dataclass(frozen=True, slots=True)
class ResultManifest:
    """One result of one subtask: `schema` is Spark's schema JSON, `subpartitions` is P.

    `checksum` depends on the rows alone, not on their order or files; None where rows cannot be hashed. A subtask that
    is recomputed must come to the same. If rescale edges read the result `by_file`, the checksum also depends on which
    of the files a row is in. `expectations` has what was counted, by name, if these are the rows that were checked.
    `combined` is of how many rows these are the partial results. `sampled` are the rows and the groups of a sample, if
    these rows might have been written as partial results.
    """

    format: str
    schema: str
    subpartitions: Positive
    files: tuple[ResultFile, ...]
    checksum: str | None = None
    by_file: bool = False
    expectations: Mapping[str, Tally] = field(default_factory=dict)
    combined: Count | None = None
    sampled: tuple[Count, Count] | None = None

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def all(self) -> range:
        """Every subpartition."""
        return range(self.subpartitions)

    @property
    def bytes(self) -> int:
        """Sum of the file sizes."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class InnerResult:
    """What a subtask wrote of one vertex for its own later steps."""

    rows: Count
    bytes: Count


@dataclass(frozen=True, slots=True)
class PassedRows:
    """Rows of a vertex that went to its reader inside one Spark operation, as Spark counted them behind the reader's
    filters. `how` they went: shuffled, broadcast or passed on. `bytes` are those that Spark shuffled, rounded, and no
    Parquet bytes; None if it shuffled none. `partial_results` are what the reader made of them before it shuffled; None
    if it does not group them."""

    rows: Count
    bytes: Count | None
    how: str
    partial_results: Count | None = None

    def __str__(self) -> str:
        size = "" if self.bytes is None else f", about {format_bytes(self.bytes)} in Spark's own format"
        if self.partial_results is not None:
            size += f", grouped into {format_count(self.partial_results, 'partial result')}"
        return f"{format_count(self.rows, 'row')} {self.how}{size}"


@dataclass(frozen=True, slots=True)
class AttemptsRead:
    """Subtasks [start, stop) of a producer, and the attempt of theirs that was read."""

    start: Count
    stop: Count
    attempt: Count


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one attempt of one subtask committed. `decision` is the digest of the decision it ran under.

    `read` says, by producer region, which attempts its rows were made of; manifests of older versions say nothing.
    `same_since` is the attempt since which its results have had these rows, by their checksums; None if that is itself.

    `waited` are the seconds from the end of the last subtask before it (or from its own decision, if it reads files)
    until it began; None if unknown, as after a recomputation. `inner` is what it wrote for itself, by vertex
    without a committed result. A first try keeps such rows inside Spark: `passed` are those that Spark counted, by
    vertex, and `uncounted` says why there are none; `spent` are the seconds that its stages worked for each vertex.
    `renewals` is how often other rows have taken the place of its rows.
    """

    region: str
    index: Count
    attempt: Count
    decision: str
    seconds: Seconds
    results: Mapping[str, ResultManifest]
    waited: Seconds | None = None
    read: Mapping[str, tuple[AttemptsRead, ...]] = field(default_factory=dict)
    same_since: Count | None = None
    inner: Mapping[str, InnerResult] = field(default_factory=dict)
    renewals: Count = 0
    passed: Mapping[str, PassedRows] = field(default_factory=dict)
    uncounted: str = ""
    spent: Mapping[str, Seconds] = field(default_factory=dict)

    @property
    def rows_of(self) -> int:
        """The attempt that wrote these rows first."""
        return self.attempt if self.same_since is None else self.same_since

    def continues(self, before: Manifest | None, *, made_alike: bool = True) -> Manifest:
        """This manifest, knowing since when its rows are the same, if it replaces one of the same rows.

        Args:
            before: what it replaces.
            made_alike: False if equal checksums, which leave some columns out, do not prove equal rows.
        """
        if before is None or before.attempt == self.attempt:
            return self
        rows, rows_before = (
            {name: (of.rows, of.checksum, of.by_file) for name, of in each.results.items()} for each in (self, before)
        )
        is_hashed = all(of.checksum is not None for of in self.results.values())
        if made_alike and before.decision == self.decision and rows == rows_before and is_hashed:
            return replace(self, same_since=before.rows_of, renewals=before.renewals)
        return replace(self, renewals=before.renewals + 1)

    @property
    def rows(self) -> int:
        """Of all its vertices; the results of one vertex hold the same rows in other cuts."""
        rows: dict[str, int] = {}
        for name, result in self.results.items():
            vertex = name.rpartition(".")[0]
            rows[vertex] = max(rows.get(vertex, 0), result.rows)
        return sum(rows.values())

    @property
    def by_vertex(self) -> dict[str, InnerResult]:
        """What is known of the output of each vertex, from the first of its results."""
        found = dict(self.inner)
        for name, result in self.results.items():
            found.setdefault(name.rpartition(".")[0], InnerResult(result.rows, result.bytes))
        return found

    def result(self, name: str) -> ResultManifest:
        """What was committed of one result.

        Raises:
            DamagedFileError: nothing was, though the plan has it.
        """
        if name not in self.results:
            raise DamagedFileError(
                f"{self.region}[{self.index}]: its manifest has no result {name!r}, only "
                f"{', '.join(self.results) or 'none'}; clear {self.region}[{self.index}]"
            )
        return self.results[name]

    def to_json(self) -> dict[str, Any]:
        """Compact: without what few manifests have."""
        rare = {name for name in ("passed", "uncounted", "spent") if not getattr(self, name)}
        return {name: value for name, value in asdict(self).items() if name not in rare}

    @staticmethod
    def from_json(payload: Mapping[str, Any], *, where: str = "manifest") -> Manifest:
        """Build and check a manifest; a DamagedFileError names the first field that is wrong."""
        manifest = as_record(payload, Manifest, where=where)
        for name, result in manifest.results.items():
            for file in result.files:
                _check_file(file, name, result.subpartitions, where)
        return manifest


def attempts_read(manifests: Iterable[Manifest]) -> tuple[AttemptsRead, ...]:
    """Which attempts these are, of one region, in order of their subtasks."""
    found: list[AttemptsRead] = []
    for each in manifests:
        last = found[-1] if found else None
        if last is not None and (last.stop, last.attempt) == (each.index, each.attempt):
            found[-1] = replace(last, stop=each.index + 1)
        else:
            found.append(AttemptsRead(each.index, each.index + 1, each.attempt))
    return tuple(found)


def write_manifest(job: JobFolder, manifest: Manifest) -> None:
    """Commit an attempt: its manifest replaces that of an earlier attempt atomically."""
    write_json(job.manifest_path(manifest.region, manifest.index), manifest.to_json(), version=MANIFEST_VERSION)


def read_manifest(job: JobFolder, region: str, index: int, *, decision: str | None = None) -> Manifest:
    """Read and check the manifest of one subtask.

    Raises:
        MissingFileError: the subtask never committed, or its data was released.
        DamagedFileError, IncompatibleFileError: see `read_json`.
        StaleManifestError: it is of another region, index or (if given) decision.
    """
    location = locate(job.manifest_path(region, index))
    where = str(location)
    try:
        payload = read_json(location, version=MANIFEST_VERSION)
    except MissingFileError as error:
        raise MissingFileError(
            f"{region}[{index}]: no manifest at {where}; the subtask has not committed, or its run was released: "
            f"clear {region}[{index}]",
            path=where,
        ) from error
    manifest = Manifest.from_json(payload, where=where)
    found = (manifest.region, manifest.index, manifest.decision)
    expected = (region, index, manifest.decision if decision is None else decision)
    if found != expected:
        raise StaleManifestError(
            f"{where}: is of {found[0]}[{found[1]}] under decision {found[2]!r}, expected {region}[{index}] under "
            f"decision {expected[2]!r}; clear {region}.run, map index {index}",
            path=where,
        )
    return manifest


def read_manifests(job: JobFolder, region: str, count: int, *, decision: str | None = None) -> list[Manifest]:
    """The manifests of subtasks 0..count-1, in order, read side by side.

    Subtasks at or above `count` (left by an earlier, wider decision) are not looked at.

    Raises:
        StoredFileError: as `read_manifest`; a StaleManifestError names all subtasks to clear.
    """
    if count < 1:
        raise ValueError(f"region {region!r}: expected a count of at least 1, found {count}")
    near = job.located()

    def read(index: int) -> Manifest | StaleManifestError:
        try:
            return read_manifest(near, region, index, decision=decision)
        except StaleManifestError as error:
            return error

    with ThreadPoolExecutor(min(_READ_THREADS, count), thread_name_prefix="read-manifest") as pool:
        found = list(pool.map(read, range(count)))
    manifests = [each for each in found if isinstance(each, Manifest)]
    if len(manifests) < count:
        first, *others = [index for index, each in enumerate(found) if isinstance(each, StaleManifestError)]
        more = f", {format_indexes(others)}" if others else ""
        raise StaleManifestError(f"{found[first]}{more}", path=str(locate(job.manifest_path(region, first))))
    return manifests


def list_tags(job: JobFolder, region: str, count: int) -> dict[int, str]:
    """What an object store says of the content of the manifests of subtasks 0..count-1; one listing. Those that are
    not there, or of a storage that says nothing, are left out.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    place = locate(job.region_path(region))
    try:
        tags = {path: each.etag for path, each in list_below(place).items() if each.etag}
    except storage_errors() as error:
        raise_unlisted(place, error)
    keys = {index: key_of(locate(job.manifest_path(region, index))) for index in range(count)}
    return {index: tags[key] for index, key in keys.items() if key in tags}


def bytes_by_subpartition(results: ResultManifest | Iterable[ResultManifest]) -> list[int]:
    """Bytes of each of the P subpartitions, over all files of one result or of one result's subtasks.

    Raises:
        ValueError: no result is given, or they differ in P.
    """
    group = _as_group(results)
    if len(counts := {result.subpartitions for result in group}) != 1:
        raise ValueError(f"expected results of one number of subpartitions, found {sorted(counts) or 'no result'}")
    totals = [0] * group[0].subpartitions
    for result in group:
        for file in result.files:
            for subpartition, size in enumerate(file.subpartition_bytes, start=file.first):
                totals[subpartition] += size
    return totals


def bytes_by_file(result: ResultManifest) -> list[int]:
    """Bytes of the rows of each file, in manifest order; 0 for a file without rows."""
    return [sum(file.subpartition_bytes) for file in result.files]


def files_for_range(
    results: ResultManifest | Iterable[ResultManifest], subpartitions: SubpartitionRange
) -> list[ResultFile]:
    """The files that hold at least one row in [start, stop), in manifest order."""
    return [file for result in _as_group(results) for file in result.files if file.bytes_in(subpartitions) > 0]


def _as_group(results: ResultManifest | Iterable[ResultManifest]) -> Sequence[ResultManifest]:
    return [results] if isinstance(results, ResultManifest) else list(results)


def _check_file(file: ResultFile, result: str, subpartitions: int, where: str) -> None:
    try:
        relative_parts(file.path)
    except DamagedFileError as error:
        refuse(where, str(error))
    if (stop := file.first + len(file.subpartition_bytes)) > subpartitions:
        sizes = f"[{file.first}, {stop}), expected some of [0, {subpartitions})"
        refuse(where, f"{file.path} of result {result} has sizes of subpartitions {sizes}")
