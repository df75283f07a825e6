"""Reads a run from the exchange: plan, decisions and manifests become a `RunView`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from airflow_abs.core.decide.region_decision import SubtaskAssignment
from airflow_abs.core.expect.verdicts import Verdict
from airflow_abs.exchange.errors import ExchangeError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.published_rows import rows_before
from airflow_abs.exchange.records.decisions import StoredDecision, read_decision
from airflow_abs.exchange.records.manifest import Manifest, bytes_by_subpartition, read_manifest
from airflow_abs.exchange.records.plan import JobPlan, PlannedRegion, read_plan
from airflow_abs.exchange.results.audit import find_verdicts
from airflow_abs.exchange.results.hot_key import read_hot_key
from airflow_abs.exchange.runs.run_view import RegionView, RunView, SubtaskView
from airflow_abs.exchange.storage.locations import locate

ManifestReader = Callable[[JobFolder, str, int], Manifest | None]
"""Region and index to the manifest, None if the subtask has not committed."""

_THREADS = 8
_READ_AT_ONCE = 32
"""Manifests that a thread reads in a row: a local one takes less time than to hand it to a thread."""


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
    near = folder.located()
    plan = read_plan(near)
    find = reader or read_committed
    regions: dict[str, RegionView] = {}
    with ThreadPoolExecutor(workers, thread_name_prefix="read-run") as pool:
        for planned in plan.regions:
            regions[planned.name] = _read_region(near, plan, planned, regions, find, pool)
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
    stored = _read_decision(folder, plan, planned, problems)
    view = RegionView(
        planned,
        stored,
        (),
        {},
        (),
        (),
        planned_edges=plan.edges_to(planned),
        predicted=plan.prediction_of(planned.name),
        declared=plan.declared_regions(planned.name),
        rows_read=_rows_read(planned, before),
        orders={
            entry.result: order
            for entry in planned.inputs
            if (order := plan.region(entry.region).step(entry.result).row_order) is not None
        },
    )
    if stored is None:
        return replace(view, bytes_by_subpartition=_written_so_far(planned, before), problems=tuple(problems))

    def read(indices: Iterable[int]) -> list[Manifest | str | None]:
        return [_read_manifest(find, folder, planned.name, index) for index in indices]

    count, digest = stored.decision.parallelism, stored.digest
    parts = [range(start, min(start + _READ_AT_ONCE, count)) for start in range(0, count, _READ_AT_ONCE)]
    found = dict(enumerate(entry for part in pool.map(read, parts) for entry in part))
    problems += [each for each in found.values() if isinstance(each, str)]
    manifests = {index: each for index, each in found.items() if isinstance(each, Manifest)}
    subtasks = tuple(
        _subtask(planned, stored.measured_at, digest, assignment, manifests.get(assignment.index))
        for assignment in stored.decision.subtasks
    )
    current = [each for each in manifests.values() if each.decision == digest]
    return replace(
        view,
        subtasks=subtasks,
        manifests=manifests,
        bytes_by_subpartition=_decided_from(planned, stored),
        strange=plan.strange_sources(stored.decision),
        hot_key=read_hot_key(folder, planned.name, digest) if stored.hottest else None,
        verdicts=_read_verdicts(folder, planned, current, problems, is_done=len(current) == count),
        problems=tuple(problems),
    )


def _rows_read(planned: PlannedRegion, before: Mapping[str, RegionView]) -> dict[str, int]:
    """Of each result that it reads, if every subtask of the producer has committed."""
    found = {}
    for entry in planned.inputs:
        producer = before[entry.region]
        if producer.decision is not None and producer.committed == producer.decision.parallelism:
            results = [manifest.results.get(entry.result) for manifest in producer.manifests.values()]
            found[entry.result] = sum(result.rows for result in results if result is not None)
    return found


def _read_verdicts(
    folder: JobFolder, planned: PlannedRegion, manifests: Sequence[Manifest], problems: list[str], *, is_done: bool
) -> tuple[Verdict, ...]:
    if not manifests:
        return ()
    try:
        return tuple(find_verdicts(planned, manifests, partial(rows_before, folder) if is_done else None))
    except ExchangeError as error:
        problems.append(str(error))
        return ()


def _read_manifest(find: ManifestReader, folder: JobFolder, region: str, index: int) -> Manifest | str | None:
    """What is wrong with it, if it cannot be read."""
    try:
        return find(folder, region, index)
    except ExchangeError as error:
        return str(error)


def _read_decision(
    folder: JobFolder, plan: JobPlan, planned: PlannedRegion, problems: list[str]
) -> StoredDecision | None:
    """None also for a decision that an earlier plan of the same run left."""
    try:
        stored = read_decision(folder, planned.name)
        if stored.plan != plan.id:
            return None
        stored.check_fits(planned, str(locate(folder.decision_path(planned.name))))
    except MissingFileError:
        return None
    except ExchangeError as error:
        problems.append(str(error))
        return None
    return stored


def _subtask(
    planned: PlannedRegion,
    ready: float | None,
    digest: str,
    assignment: SubtaskAssignment,
    manifest: Manifest | None,
) -> SubtaskView:
    """`ready` is when it could have run, in epoch seconds; `digest` is that of the whole decision."""
    splits, files = (sum(map(len, read.values())) for read in (assignment.splits, assignment.files))
    given = (assignment.index, assignment.subpartitions, splits, assignment.bytes)
    if manifest is None:
        return SubtaskView(*given, hot_part=assignment.hot_part, files=files)
    waited = manifest.waited
    # Results of one vertex hold the same rows in other cuts.
    last = {name: each for name, each in manifest.results.items() if name.rpartition(".")[0] == planned.name}
    rows = max((each.rows for each in (last or manifest.results).values()), default=0)
    return SubtaskView(
        *given,
        attempt=manifest.attempt,
        rows=rows,
        bytes_out=sum(each.bytes for each in manifest.results.values()),
        seconds=round(manifest.seconds, 3),
        waited=None if waited is None else round(waited, 3),
        began=None if ready is None or waited is None else round(ready + waited, 3),
        is_stale=manifest.decision != digest,
        hot_part=assignment.hot_part,
        files=files,
        combined={
            name.rpartition(".")[0]: (each.combined, each.rows)
            for name, each in manifest.results.items()
            if each.combined is not None
        },
        sampled={
            name.rpartition(".")[0]: each.sampled for name, each in manifest.results.items() if each.sampled is not None
        },
    )


def _decided_from(planned: PlannedRegion, stored: StoredDecision) -> tuple[int, ...]:
    return _summed(stored.measured[entry.name] for entry in planned.inputs if entry.is_ranged)


def _written_so_far(planned: PlannedRegion, before: Mapping[str, RegionView]) -> tuple[int, ...]:
    """Manifests that an earlier plan left may have other results, or those in other subpartitions."""
    return _summed(
        bytes_by_subpartition(result)
        for entry in planned.inputs
        if entry.is_ranged
        for producer in [before[entry.region]]
        for manifest in producer.manifests.values()
        if (result := manifest.results.get(entry.result)) is not None
        and result.subpartitions == producer.planned.step(entry.result).subpartitions
    )


def _summed(rows: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*rows, strict=True)))
