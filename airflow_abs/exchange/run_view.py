"""A run as the exchange tells it: what was planned, decided and committed, without Airflow and without Spark.

One neutral value for everything that shows a run: `airflow-abs explain` and `runs`, the page in Airflow, the demo's
tables. Reading changes nothing, and what is not there yet is None: a run can be looked at while it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

from airflow_abs.core.hot_subpartitions import HotPart
from airflow_abs.core.ranges import IndexRange
from airflow_abs.core.region_decision import RegionDecision, SubtaskAssignment
from airflow_abs.exchange.decisions import StoredDecision
from airflow_abs.exchange.errors import ExchangeError, IncompatibleFileError, MissingFileError
from airflow_abs.exchange.locations import locate
from airflow_abs.exchange.manifest import Manifest, bytes_by_subpartition, read_manifest
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.plan import JobPlan, PlannedRegion
from airflow_abs.exchange.store import read_json

ManifestReader = Callable[[JobFolder, str, int], Manifest | None]
"""Region and index to the manifest, None if the subtask has not committed."""

_THREADS = 8
_READ_AT_ONCE = 32
"""Manifests that a thread reads in a row: a local one takes less time than to hand it to a thread."""
# What comes of reading fields that another version wrote, or did not write.
_FOREIGN = (KeyError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class EdgeView:
    """One input of a region. `kind` is its partitioning, or ``source`` (then `path` is what it reads).

    `producer` and `vertex` are the region and the vertex that it comes from, `keys` the columns of a hash edge; `bytes`
    None until the region is decided.
    """

    name: str
    kind: str
    producer: str | None
    vertex: str | None
    path: str | None
    bytes: int | None
    keys: tuple[str, ...] = ()

    @property
    def how(self) -> str:
        """``broadcast``, ``hash(customer_id)``."""
        return f"{self.kind}({', '.join(self.keys)})" if self.keys else self.kind


@dataclass(frozen=True, slots=True)
class SubtaskView:
    """One subtask: what it was given, and what its last attempt left (None until it has committed).

    `bytes` are those of its own subpartitions and splits, broadcast inputs not counted. `rows` are the rows of the
    region's last vertex, `bytes_out` the sizes of all files. `is_stale`: what it left is of an earlier decision.
    """

    index: int
    subpartitions: IndexRange | None
    splits: int
    bytes: int
    attempt: int | None = None
    rows: int | None = None
    bytes_out: int | None = None
    seconds: float | None = None
    waited: float | None = None
    is_stale: bool = False
    hot_part: HotPart | None = None

    @property
    def is_committed(self) -> bool:
        return self.attempt is not None and not self.is_stale

    @property
    def reads(self) -> str:
        """``[0, 43)`` or ``3 files``; ``[5, 6) of [0, 3)`` is a hot subpartition of three producers."""
        if self.hot_part is not None:
            return f"{self.subpartitions} of {self.hot_part.producers}"
        if self.subpartitions is not None:
            return str(self.subpartitions)
        return f"{self.splits} file{'' if self.splits == 1 else 's'}" if self.splits else "everything"


@dataclass(frozen=True)
class RegionView:
    """One region in the order of the plan; `stored` is None until it is decided.

    `bytes_by_subpartition` is the histogram that the ranges cut; before the decision what is written so far; () if it
    reads no range or nothing is known.
    `problems` are messages about files that cannot be read.
    """

    planned: PlannedRegion
    stored: StoredDecision | None
    subtasks: tuple[SubtaskView, ...]
    manifests: Mapping[int, Manifest]
    bytes_by_subpartition: tuple[int, ...]
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.planned.name

    @property
    def title(self) -> str:
        """All its vertices: they run together."""
        return " + ".join(self.planned.vertices)

    @property
    def decision(self) -> RegionDecision | None:
        return self.stored.decision if self.stored else None

    @property
    def committed(self) -> int:
        """Subtasks that have written everything."""
        return sum(subtask.is_committed for subtask in self.subtasks)

    @property
    def bytes_in(self) -> int | None:
        """All inputs, each once."""
        return sum(entry.bytes for entry in self.decision.inputs) if self.decision else None

    @property
    def rows(self) -> int | None:
        """Rows of the last vertex; None unless all subtasks have committed."""
        return self._total(lambda subtask: subtask.rows)

    @property
    def bytes_out(self) -> int | None:
        return self._total(lambda subtask: subtask.bytes_out)

    @property
    def seconds(self) -> float | None:
        """Of the longest subtask so far."""
        return max((subtask.seconds for subtask in self.subtasks if subtask.seconds is not None), default=None)

    @property
    def attempts(self) -> int:
        """The highest number of an attempt that committed; 0 if none has."""
        return max((subtask.attempt or 0 for subtask in self.subtasks), default=0)

    @cached_property
    def edges(self) -> tuple[EdgeView, ...]:
        """Blocking inputs and sources, in the order of the plan."""
        known = {entry.name: entry.bytes for entry in self.decision.inputs} if self.decision else {}
        inputs = [
            EdgeView(
                entry.name, entry.partitioning.value, entry.region, vertex, None, known.get(entry.name), entry.keys
            )
            for entry in self.planned.inputs
            for vertex in [entry.result.rpartition(".")[0]]
        ]
        sources = [
            EdgeView(source.name, "source", None, None, source.files.path, known.get(source.name))
            for source in self.planned.sources
        ]
        return (*inputs, *sources)

    def _total(self, number: Callable[[SubtaskView], int | None]) -> int | None:
        if self.decision is None or self.committed < self.decision.parallelism:
            return None
        return sum(number(subtask) or 0 for subtask in self.subtasks)


@dataclass(frozen=True, slots=True)
class RunView:
    """One job of one DAG run."""

    folder: JobFolder
    plan: JobPlan
    regions: tuple[RegionView, ...]

    def region(self, name: str) -> RegionView:
        return next(region for region in self.regions if region.name == name)

    @property
    def decided(self) -> int:
        return sum(region.decision is not None for region in self.regions)


def read_run(folder: JobFolder, *, reader: ManifestReader | None = None, workers: int = _THREADS) -> RunView:
    """Read a job's plan, its decisions and its manifests.

    Args:
        folder: of the job; only plan.json has to be there.
        reader: where manifests come from; by default the exchange.
        workers: manifests that are read side by side.

    Raises:
        MissingFileError: the job has not been planned, or its data is gone.
        DamagedFileError, IncompatibleFileError: plan.json cannot be read; what is wrong with other files is told in the
            regions' `problems`.
    """
    plan = _read_plan(folder)
    find = reader or read_committed
    regions: dict[str, RegionView] = {}
    with ThreadPoolExecutor(workers, thread_name_prefix="read-run") as pool:
        for planned in plan.regions:
            regions[planned.name] = _read_region(folder, plan, planned, regions, find, pool)
    return RunView(folder, plan, tuple(regions.values()))


def read_decisions(folder: JobFolder) -> RunView:
    """As `read_run`, but plan and decisions only: a few small files, however many subtasks there are."""
    return read_run(folder, reader=lambda folder, region, index: None, workers=1)


def read_committed(folder: JobFolder, region: str, index: int) -> Manifest | None:
    """The manifest of a subtask, None if it has not committed."""
    try:
        return read_manifest(folder, region, index)
    except MissingFileError:
        return None


def _read_region(
    folder: JobFolder,
    plan: JobPlan,
    planned: PlannedRegion,
    before: Mapping[str, RegionView],
    find: ManifestReader,
    pool: ThreadPoolExecutor,
) -> RegionView:
    problems: list[str] = []
    stored = _read_decision(folder, plan, planned.name, problems)
    if stored is None:
        return RegionView(planned, None, (), {}, _written_so_far(planned, before), tuple(problems))

    def read(indices: Iterable[int]) -> list[Manifest | str | None]:
        return [_read_manifest(find, folder, planned.name, index) for index in indices]

    count = stored.decision.parallelism
    parts = [range(start, min(start + _READ_AT_ONCE, count)) for start in range(0, count, _READ_AT_ONCE)]
    found = dict(enumerate(entry for part in pool.map(read, parts) for entry in part))
    problems += [each for each in found.values() if isinstance(each, str)]
    manifests = {index: each for index, each in found.items() if isinstance(each, Manifest)}
    digest = stored.digest
    subtasks = tuple(
        _subtask(planned, digest, assignment, manifests.get(assignment.index))
        for assignment in stored.decision.subtasks
    )
    return RegionView(planned, stored, subtasks, manifests, _decided_from(planned, stored), tuple(problems))


def _read_manifest(find: ManifestReader, folder: JobFolder, region: str, index: int) -> Manifest | str | None:
    """What is wrong with it, if it cannot be read."""
    try:
        return find(folder, region, index)
    except ExchangeError as error:
        return str(error)


def _read_plan(folder: JobFolder) -> JobPlan:
    payload = read_json(folder.plan_path)
    try:
        return JobPlan.from_json(payload)
    except _FOREIGN as error:
        where = str(locate(folder.plan_path))
        raise IncompatibleFileError(_foreign(where, error), path=where) from error


def _foreign(where: str, error: Exception) -> str:
    return (
        f"{where}: written by another version of airflow_abs ({type(error).__name__}: {error}); read it with that one"
    )


def _read_decision(folder: JobFolder, plan: JobPlan, region: str, problems: list[str]) -> StoredDecision | None:
    """None also for a decision that an earlier plan of the same run left."""
    try:
        stored = StoredDecision.from_json(read_json(folder.decision_path(region)))
    except MissingFileError:
        return None
    except ExchangeError as error:
        problems.append(str(error))
        return None
    except _FOREIGN as error:
        problems.append(_foreign(str(locate(folder.decision_path(region))), error))
        return None
    return stored if stored.plan == plan.id else None


def _subtask(
    planned: PlannedRegion, digest: str, assignment: SubtaskAssignment, manifest: Manifest | None
) -> SubtaskView:
    splits = sum(map(len, assignment.splits.values()))
    given = (assignment.index, assignment.subpartitions, splits, assignment.bytes)
    if manifest is None:
        return SubtaskView(*given, hot_part=assignment.hot_part)
    # Results of one vertex hold the same rows in other cuts.
    last = {name: each for name, each in manifest.results.items() if name.rpartition(".")[0] == planned.name}
    rows = max((each.rows for each in (last or manifest.results).values()), default=0)
    return SubtaskView(
        *given,
        attempt=manifest.attempt,
        rows=rows,
        bytes_out=sum(each.bytes for each in manifest.results.values()),
        seconds=round(manifest.seconds, 3),
        waited=None if manifest.waited is None else round(manifest.waited, 3),
        is_stale=manifest.decision != digest,
        hot_part=assignment.hot_part,
    )


def _decided_from(planned: PlannedRegion, stored: StoredDecision) -> tuple[int, ...]:
    return _summed(stored.measured[entry.name] for entry in planned.inputs if not entry.is_broadcast)


def _written_so_far(planned: PlannedRegion, before: Mapping[str, RegionView]) -> tuple[int, ...]:
    return _summed(
        bytes_by_subpartition(manifest.results[entry.result])
        for entry in planned.inputs
        if not entry.is_broadcast
        for manifest in before[entry.region].manifests.values()
        if entry.result in manifest.results
    )


def _summed(rows: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*rows, strict=True)))
