"""Another day or other settings than a recorded run's, and what its sizes become then.

Every region has one factor, by which all that it reads and writes grows: that of its own files, or of the regions that
it reads from. What is broadcast to a region does not make it grow, unless it reads nothing else.

    orders (files, x 10) ──hash──► joined (x 10) ──hash──► totals (x 10)
    customers (files, fixed) ──broadcast──┘

A factor of 1 changes nothing, and totals never fall as the factor grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from airflow_abs.core.checks import check_int, check_number
from airflow_abs.core.decide.hot_subpartitions import HOT_FACTOR, compute_median
from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions, SourceInput
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.simulate.recorded_job import RecordedJob, RecordedRegion, RecordedResult
from airflow_abs.core.simulate.replay_options import ReplayOptions
from airflow_abs.core.wording import format_bytes


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is other than in the recorded run.

    Args:
        factor: of the bytes of all sources but those of the vertices in `fixed`.
        options: to decide by; `max_parallelism` is also the number of subpartitions.
        file_bytes: files of a source are of at most this size; None: as recorded.
        from_trigger: subtasks run in the triggerer alone.
    """

    factor: float = 1.0
    options: ReplayOptions = field(default_factory=ReplayOptions)
    fixed: frozenset[str] = frozenset()
    file_bytes: int | None = None
    from_trigger: bool = False


def factor_for(job: RecordedJob, source_bytes: int, fixed: frozenset[str] = frozenset()) -> float:
    """The factor with which a run reads this many bytes of files.

    Raises:
        InvalidValueError: what does not grow is more than that already, or nothing grows.
    """
    growing = sum(region.source_bytes for region in job.regions if region.name not in fixed)
    staying = sum(region.source_bytes for region in job.regions if region.name in fixed)
    if not growing or source_bytes < staying:
        raise InvalidValueError(
            f"run {job.name}: cannot read {format_bytes(source_bytes)} of files; {format_bytes(staying)} of them stay "
            f"as they are, {format_bytes(growing)} grow"
        )
    return (source_bytes - staying) / growing


class Growth:
    """What the sizes of a recorded run become in a scenario.

    Raises:
        InvalidValueError: `fixed` of the scenario names no region with a source.
    """

    def __init__(self, job: RecordedJob, scenario: Scenario) -> None:
        self._scenario = scenario
        self._factors = _factors(job, scenario)

    def options(self, region: RecordedRegion) -> RegionOptions:
        """To decide the region by."""
        return self._scenario.options.applied_to(region.options)

    def sources(self, region: RecordedRegion) -> list[SourceInput]:
        """Its files. A number of subtasks that a source has inferred itself is known for these files only."""
        factor, file_bytes = self._factors[region.name], self._scenario.file_bytes
        if factor == 1 and file_bytes is None:
            return list(region.sources)
        return [
            SourceInput(each.name, grow_files(each.split_bytes, factor, file_bytes), size_from=each.size_from)
            for each in region.sources
        ]

    def inputs(self, region: RecordedRegion, parallelism: Mapping[str, int]) -> list[BlockingInput]:
        """What it reads of other regions, whose number of subtasks is known by name."""
        return [self._input(region, entry, parallelism[region.producers[entry.name]]) for entry in region.inputs]

    def results(self, region: RecordedRegion) -> list[RecordedResult]:
        """What it writes."""
        return [self._result(result, self._factors[region.name]) for result in region.results]

    def _input(self, region: RecordedRegion, entry: BlockingInput, producers: int) -> BlockingInput:
        factor = self._factors[region.producers[entry.name]]
        rows: Sequence[Sequence[int]] = [[scale_size(size, factor) for size in row] for row in entry.bytes_by_partition]
        if entry.is_rescale:
            return replace(entry, bytes_by_partition=respread_files(rows, producers))
        wanted = self._scenario.options.max_parallelism
        subpartitions = entry.subpartitions if entry.is_broadcast else wanted or entry.subpartitions
        if (producers, subpartitions) != (len(rows), entry.subpartitions):
            totals = regrid(list(map(sum, zip(*rows, strict=True))), subpartitions)
            if entry.name in region.options.splittable:
                rows = spread_over_producers(totals, producers)
            else:  # only sums decide, as in a replay
                rows = [totals, *[[0] * subpartitions] * (producers - 1)]
        return replace(entry, bytes_by_partition=rows)

    def _result(self, result: RecordedResult, factor: float) -> RecordedResult:
        wanted = self._scenario.options.max_parallelism
        subpartitions = wanted if wanted and result.subpartitions > 1 else result.subpartitions
        return replace(result, bytes=scale_size(result.bytes, factor), subpartitions=subpartitions)


def _factors(job: RecordedJob, scenario: Scenario) -> Mapping[str, float]:
    """By region."""
    named = {region.name for region in job.regions if region.sources}
    if unknown := scenario.fixed - named:
        raise InvalidValueError(
            f"run {job.name}: {', '.join(sorted(unknown))} reads no files; expected some of {', '.join(sorted(named))}"
        )
    factors: dict[str, float] = {}
    for region in job.regions:
        spread = [entry for entry in region.inputs if not entry.is_broadcast]
        found = [factors[region.producers[entry.name]] for entry in spread or region.inputs]
        own = [1.0 if region.name in scenario.fixed else scenario.factor] if region.sources else []
        factors[region.name] = max([*own, *found], key=lambda factor: abs(factor - 1.0), default=1.0)
    return factors


def scale_size(size: int, factor: float) -> int:
    """Bytes times the factor, rounded down."""
    check_number("factor", factor, at_least=0)
    return int(size * factor)


def grow_files(sizes: Sequence[int], factor: float, file_bytes: int | None = None) -> list[int]:
    """Files of a source: above a factor of 1 more files of the same sizes, below it the same number of smaller ones.

    With `file_bytes` they are cut into equal files of at most that size.
    """
    if file_bytes is not None:
        return _equal_files(scale_size(sum(sizes), factor), file_bytes)
    whole, rest = divmod(check_number("factor", factor, at_least=0), 1)
    partial = [scale_size(size, rest) for size in sizes] if rest else []
    return [*list(sizes) * int(whole), *partial]


def respread_files(rows: Sequence[Sequence[int]], producers: int) -> list[list[int]]:
    """Bytes by producer subtask and file, if there were another number of subtasks: each with as many files as one had
    on average (rounded up), all of the same size."""
    if producers == len(rows):
        return [list(row) for row in rows]
    each = max(1, divide_up(sum(map(len, rows)), len(rows)))
    sizes = _cut_equally(sum(map(sum, rows)), producers * each)
    return [sizes[k * each : (k + 1) * each] for k in range(producers)]


def _equal_files(total: int, file_bytes: int) -> list[int]:
    return _cut_equally(total, max(1, divide_up(total, check_int("file_bytes", file_bytes, at_least=1))))


def _cut_equally(total: int, count: int) -> list[int]:
    return [stop - start for start, stop in pairwise(total * k // count for k in range(count + 1))]


def regrid(sizes: Sequence[int], count: int) -> list[int]:
    """Bytes per subpartition, as if there were `count` subpartitions; the sum is the same.

    What a subpartition holds is spread evenly over the finer ones that take its place. A hot one counts as
    one key: what it has above the median stays together.
    """
    check_int("subpartitions", count, at_least=1)
    if count == len(sizes) or not sizes:
        return list(sizes)
    median = compute_median(sizes)
    hot = {k: size - median for k, size in enumerate(sizes) if size > median * HOT_FACTOR}
    spread = _resample([median if k in hot else size for k, size in enumerate(sizes)], count)
    for position, excess in hot.items():
        spread[position * count // len(sizes)] += excess
    return spread


def _resample(sizes: Sequence[int], count: int) -> list[int]:
    """Cut the cumulated sizes at `count` equal steps; exact in integers."""
    sums = [0]
    for size in sizes:
        sums.append(sums[-1] + size)
    cuts = []
    for step in range(count + 1):
        whole, part = divmod(step * len(sizes), count)
        cuts.append(sums[whole] + (sizes[whole] * part // count if part else 0))
    return [stop - start for start, stop in pairwise(cuts)]


def spread_over_producers(totals: Sequence[int], producers: int) -> list[list[int]]:
    """Bytes by producer subtask and subpartition, if each writes an equal share of every subpartition."""
    return [[total * (k + 1) // producers - total * k // producers for total in totals] for k in range(producers)]
