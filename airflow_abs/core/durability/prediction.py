"""What a day's regions will take and write, from the bytes of its sources and from the job's earlier runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from airflow_abs.core.checks import MOST, check_int, check_number
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.graph.job_graph import JobGraph, Region

_MIB = 2**20
_RECENT = 15
_LONGER = 2.0
_LONGER_SECONDS = 10.0
"""What took this many times and this many seconds longer than predicted is predicted anew."""
_LEAST_SHARE = 0.001
"""Of an operation's seconds; no region takes none."""
_MOST_SECONDS = 1e11
ROWS_OVER_FILES = 4
"""Rows in memory and in Spark's shuffle files are about this many times larger than Parquet (docs/evidence)."""


@dataclass(frozen=True, slots=True)
class RegionHistory:
    """What one earlier run saw of one region.

    Args:
        regions: the declared regions whose work it did, producers first; the last one names it. More than one if edges
            between them were kept inside Spark on that day.
        bytes_in: of its sources and durable inputs, each counted once.
        bytes_out: of all results that it wrote.
        rows: that it wrote.
        seconds: from the first start of a subtask on Spark to the end of the last one.
        machine_failures: tries that another try could help: machines, the network, the server.
        data_failures: tries that no other try could help: data and code.
        predicted_seconds, predicted_output_bytes: what `plan` said that day; None if it did not.
        is_whole: whether all its subtasks came to their end; only then it says what the region takes.
        columns: digest of the columns of all results that it wrote; "" if unknown.

    Raises:
        InvalidValueError: no region, or a number below 0 or beyond all that can be.
    """

    regions: tuple[str, ...]
    bytes_in: int
    bytes_out: int
    rows: int
    seconds: float
    machine_failures: int = 0
    data_failures: int = 0
    predicted_seconds: float | None = None
    predicted_output_bytes: int | None = None
    is_whole: bool = True
    columns: str = ""

    def __post_init__(self) -> None:
        if not self.regions:
            raise InvalidValueError("regions: expected the declared regions that ran, found none")
        for name in ("bytes_in", "bytes_out", "rows", "machine_failures", "data_failures"):
            check_int(name, getattr(self, name), at_least=0, at_most=MOST)
        check_number("seconds", self.seconds, at_least=0, below=_MOST_SECONDS)

    @property
    def name(self) -> str:
        return self.regions[-1]

    @property
    def took_far_longer(self) -> bool:
        """Whether the prediction of that day proved wrong. Failed tries take time of their own."""
        if not self.is_whole or self.machine_failures or self.data_failures or self.predicted_seconds is None:
            return False
        return self.seconds > _LONGER * self.predicted_seconds + _LONGER_SECONDS


@dataclass(frozen=True, slots=True)
class PassedHistory:
    """What Spark counted of a vertex that stayed inside an operation.

    Args:
        rows: that its reader got.
        bytes: that Spark shuffled of them, in its own format; None if it shuffled none.
        partial_results: that the reader made of them before it shuffled; None if it does not group them.

    Raises:
        InvalidValueError: a number below 0 or beyond all that can be.
    """

    rows: int
    bytes: int | None = None
    partial_results: int | None = None

    def __post_init__(self) -> None:
        for name in ("rows", "bytes", "partial_results"):
            check_int(name, getattr(self, name) or 0, at_least=0, at_most=MOST)

    @property
    def written_rows(self) -> int:
        """That a file would have; partial aggregates take the place of rows where they can."""
        return self.rows if self.partial_results is None else self.partial_results

    def written_bytes(self, row_bytes: float) -> float:
        """Of that file, if a row of it takes `row_bytes`; what Spark shuffled says more of it."""
        return self.written_rows * row_bytes if self.bytes is None else self.bytes / ROWS_OVER_FILES


@dataclass(frozen=True, slots=True)
class RunHistory:
    """One earlier run; `began` in epoch seconds.

    `regions` are those that were decided, whole or not. `source_bytes` is what its sources held, by vertex. `date` is
    its logical date in ISO form, "" if unknown. `partial_shares` has partial aggregates per input row, by the
    vertex that wrote them, or as sampled where it wrote rows. `passed` is what Spark counted on edges inside an
    operation, by the vertex that made it; `spent` are the seconds that its stages worked for each vertex.
    """

    began: float
    regions: tuple[RegionHistory, ...]
    run_id: str = ""
    date: str = ""
    source_bytes: Mapping[str, int] = field(default_factory=dict)
    partial_shares: Mapping[str, float] = field(default_factory=dict)
    passed: Mapping[str, PassedHistory] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_number("began", self.began, at_least=0, below=_MOST_SECONDS)
        for name, size in self.source_bytes.items():
            check_int(f"source_bytes of {name!r}", size, at_least=0, at_most=MOST)
        for name, share in self.partial_shares.items():
            check_number(f"partial_shares of {name!r}", share, at_least=0, below=MOST)
        for name, seconds in self.spent.items():
            check_number(f"spent of {name!r}", seconds, at_least=0, below=_MOST_SECONDS)


_RUNS_OF_SHARES = 30
SAMPLED = 16
"""Of so many groups, one is in the sample by which a run that writes rows measures `partial_shares`."""


@dataclass(frozen=True, slots=True)
class JobHistory:
    """The job's earlier runs, oldest first. `today` is the logical date from which they are looked back at (ISO form;
    "" if unknown). `columns` are digests of what regions write today, by the declared regions in each: runs in which a
    region wrote other columns do not count for it. For a region that is not in it, every run counts."""

    runs: tuple[RunHistory, ...] = ()
    today: str = ""
    columns: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    def runs_of(self, regions: tuple[str, ...]) -> list[RegionHistory]:
        """Those in which these regions ran as one, came to their end, and wrote what they write today."""
        return [each for _, each in self.days_of(regions)]

    def days_of(self, regions: tuple[str, ...]) -> list[tuple[RunHistory, RegionHistory]]:
        """The same, with the run of each."""
        found = [(run, each) for run in self.runs for each in run.regions if each.regions == regions]
        alike = [(run, each) for run, each in found if each.columns in ("", self.columns.get(regions, each.columns))]
        return [(run, each) for run, each in alike if each.is_whole and each.bytes_in and each.seconds]

    def since_wrong(self, regions: tuple[str, ...]) -> JobHistory:
        """The same from the last run on in which these regions, or an operation that took them in, took far longer than
        predicted; all of it if there is none."""
        wrong = [
            number
            for number, run in enumerate(self.runs)
            if any(each.took_far_longer and set(regions) <= set(each.regions) for each in run.regions)
        ]
        return replace(self, runs=self.runs[wrong[-1] :]) if wrong else self

    def as_last_written(self) -> JobHistory:
        """The same, for a day on which each region writes what it wrote last."""
        return replace(
            self, columns={each.regions: each.columns for run in self.runs for each in run.regions if each.columns}
        )

    def find_changed(self, columns: Mapping[tuple[str, ...], str]) -> list[str]:
        """Names of the regions that write other columns than `self.columns` says."""
        return [regions[-1] for regions, found in columns.items() if self.columns.get(regions, found) != found]

    def partial_shares(self) -> dict[str, float]:
        """Partial aggregates per input row, by vertex: the latest value in the last `_RUNS_OF_SHARES` runs.

        A run that writes rows measures nothing, so an old value drops out and the next run measures again.
        """
        return {name: share for run in self.runs[-_RUNS_OF_SHARES:] for name, share in run.partial_shares.items()}


NO_HISTORY = JobHistory()
NO_ROW_BYTES: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class PredictionDefaults:
    """For a region without any record; docs/how-it-decides.md says where the numbers come from.

    Args:
        fixed_seconds: of an operation, however little it reads.
        bytes_per_second: that one slot reads and works through.
        output_ratio: bytes out over bytes in; nothing is known of what a step drops.
    """

    fixed_seconds: float = 0.5
    bytes_per_second: float = 25 * _MIB
    output_ratio: float = 1.0


DEFAULTS = PredictionDefaults()


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a region will take if it has all `slots` for itself, and how much it will write.

    `output_bytes` are those of all `results`: one for each way in which rows are cut for readers, each with the same
    `output_rows`, known only from earlier runs. `is_untried`: it ran before, and only ever inside an operation with its
    readers, so what it would write is not known. `is_counted`: so it did, and Spark counted the rows.
    """

    seconds: float
    input_bytes: int
    output_bytes: int
    from_history: bool = False
    output_rows: int | None = None
    results: int = 1
    is_untried: bool = False
    is_counted: bool = False

    @property
    def result_bytes(self) -> int:
        """Of one result: what a reader reads."""
        return self.output_bytes // self.results


@dataclass(frozen=True, slots=True)
class _Seen:
    """What earlier runs say of a region: seconds over those of the defaults, bytes out over bytes in, rows over bytes
    out. `counted` takes the place of what it would write: rows and bytes of today. `is_outdated`: its seconds proved
    wrong since."""

    seconds_over_default: float
    output_ratio: float
    rows_per_byte: float | None = None
    is_untried: bool = False
    counted: tuple[float, float] | None = None
    is_outdated: bool = False


def predict_job(
    graph: JobGraph,
    source_bytes: Mapping[str, int],
    history: JobHistory = NO_HISTORY,
    defaults: PredictionDefaults = DEFAULTS,
    slots: int = 1,
    row_bytes: Mapping[str, float] = NO_ROW_BYTES,
) -> Mapping[str, Prediction]:
    """Predict every declared region, producers first; what one writes is what its readers read.

    The rule: of the last 15 runs in which a region ran alone and came to its end, the median of its seconds over what
    the defaults give for the bytes that it read on that day, times what they give for today's bytes; and so with the
    bytes that it wrote over those that it read, and its rows over the bytes that it wrote. A median, because one
    strange day must not count; over the defaults, because a small day has its fixed seconds. Regions that only ran as
    one operation share the seconds of that as its stages did, or else as the defaults would have them do, and the last
    of them writes what it wrote; the others would write the rows that Spark counted in it, for each byte that the
    operation read. Where a prediction proved far too low, only the seconds of that run and of those since count.

    Args:
        graph: as declared: no edge is kept inside Spark yet.
        source_bytes: of the vertices that read sources, today.
        history: earlier runs; what is not known from them, the defaults say.
        defaults: for everything else.
        slots: Spark tasks that run at once.
        row_bytes: of Parquet that a row takes, by vertex, for rows that were counted and not measured; 0 by default.

    Returns:
        By name of the region.
    """
    day = _Day(graph, source_bytes, history, defaults, slots, row_bytes)
    alone = day.seen_alone()
    return day.predict(alone | day.seen_together(alone, day.predict(alone)))


@dataclass(frozen=True, slots=True)
class _Day:
    """The arguments of `predict_job`."""

    graph: JobGraph
    source_bytes: Mapping[str, int]
    history: JobHistory
    defaults: PredictionDefaults
    slots: int
    row_bytes: Mapping[str, float]

    def predict(self, seen: Mapping[str, _Seen]) -> dict[str, Prediction]:
        found: dict[str, Prediction] = {}
        for region in self.graph.regions:
            size = self._read_by({region.name}, found)
            results = self._results_of(region)
            known = seen.get(region.name, _Seen(1.0, self.defaults.output_ratio * results))
            seconds = self._default_seconds(size) * known.seconds_over_default
            written = min(size * known.output_ratio, MOST)
            rows = None if known.rows_per_byte is None else round(min(written * known.rows_per_byte, MOST))
            if known.counted is not None:
                rows, written = round(min(known.counted[0], MOST)), min(known.counted[1] * results, MOST)
            found[region.name] = Prediction(
                seconds=seconds,
                input_bytes=size,
                output_bytes=round(written),
                from_history=region.name in seen,
                output_rows=rows,
                results=results,
                is_untried=known.is_untried,
                is_counted=known.counted is not None,
            )
        return found

    def _results_of(self, region: Region) -> int:
        edges = [edge for vertex in region.vertices for edge in self.graph.outputs_of(vertex)]
        cuts = {(edge.producer, edge.partitioning, edge.keys) for edge in edges if self.graph.crosses_regions(edge)}
        return max(1, len(cuts))

    def seen_alone(self) -> dict[str, _Seen]:
        names = [region.name for region in self.graph.regions]
        return {name: self._medians((name,)) for name in names if self.history.runs_of((name,))}

    def seen_together(self, alone: Mapping[str, _Seen], first: Mapping[str, Prediction]) -> dict[str, _Seen]:
        """What regions have of the operation that they ran in last, if they never ran alone, or if what they took then
        is outdated; `first` is how they are predicted without that."""
        found: dict[str, _Seen] = {}
        for group in self._groups():
            apart = [name for name in group if name not in alone or alone[name].is_outdated]
            is_known = self.history.runs_of(group) and first.keys() >= set(group)
            if not apart or not is_known or found.keys() & set(group):
                continue
            medians, read = self._medians(group), self._read_by(set(group), first)
            took = medians.seconds_over_default * self._default_seconds(read)
            others = sum(first[name].seconds for name in group if name not in apart)
            left = max(took - others, took / len(group))
            shares = self._share_seconds(group, apart, first)
            for name in apart:
                times = left * shares[name] / self._default_seconds(first[name].input_bytes)
                if name in alone:
                    found[name] = replace(alone[name], seconds_over_default=times)
                elif name == group[-1] and first[name].input_bytes:
                    written = medians.output_ratio * read / first[name].input_bytes
                    found[name] = _Seen(times, written, medians.rows_per_byte)
                else:
                    counted = self._count_today(group, name, read)
                    ratio = self.defaults.output_ratio * first[name].results
                    found[name] = _Seen(times, ratio, is_untried=counted is None, counted=counted)
        return found

    def _share_seconds(
        self, group: tuple[str, ...], names: Sequence[str], first: Mapping[str, Prediction]
    ) -> dict[str, float]:
        """How regions share the seconds that they took inside an operation; the shares add up to 1."""
        vertices = {region.name: region.vertices for region in self.graph.regions}
        days = [
            {name: sum(run.spent.get(vertex, 0.0) for vertex in vertices[name]) for name in names}
            for run, _ in self.history.since_wrong(group).days_of(group)[-_RECENT:]
        ]
        told = [day for day in days if sum(day.values())] or [{name: first[name].seconds for name in names}]
        weights = {
            name: max(_LEAST_SHARE, median(day[name] / (sum(day.values()) or 1.0) for day in told)) for name in names
        }
        return {name: weight / sum(weights.values()) for name, weight in weights.items()}

    def _count_today(self, group: tuple[str, ...], name: str, read: int) -> tuple[float, float] | None:
        """Rows and bytes of one result of a region that only ran inside this operation, which reads so much today;
        None if Spark has not counted them."""
        region = next(region for region in self.graph.regions if region.name == name)
        edges = [edge for vertex in region.vertices for edge in self.graph.outputs_of(vertex)]
        vertices = {edge.producer for edge in edges if self.graph.crosses_regions(edge)}
        days = [
            ([run.passed[vertex] for vertex in sorted(vertices)], each.bytes_in)
            for run, each in self.history.days_of(group)
            if vertices and vertices <= run.passed.keys()
        ][-_RECENT:]
        if not days:
            return None
        width = sum(self.row_bytes.get(vertex, 0.0) for vertex in vertices) / len(vertices)
        return (
            read * median(sum(each.written_rows for each in passed) / size for passed, size in days),
            read * median(sum(each.written_bytes(width) for each in passed) / size for passed, size in days),
        )

    def _groups(self) -> list[tuple[str, ...]]:
        """Regions that ran as one operation, those of the last run first."""
        runs = reversed(self.history.runs)
        return list(dict.fromkeys(each.regions for run in runs for each in run.regions if len(each.regions) > 1))

    def _medians(self, regions: tuple[str, ...]) -> _Seen:
        runs = self.history.runs_of(regions)[-_RECENT:]
        timed = self.history.since_wrong(regions).runs_of(regions)[-_RECENT:]
        return _Seen(
            median(each.seconds / self._default_seconds(each.bytes_in) for each in timed or runs),
            median(each.bytes_out / each.bytes_in for each in runs),
            median(each.rows / max(1, each.bytes_out) for each in runs),
            is_outdated=not timed,
        )

    def _read_by(self, names: Collection[str], found: Mapping[str, Prediction]) -> int:
        """Bytes of the sources of these regions, and of what others write for them."""
        regions = [region for region in self.graph.regions if region.name in names]
        sources = sum(self.source_bytes.get(vertex, 0) for region in regions for vertex in region.vertices)
        before = {producer.name for region in regions for producer in self.graph.producer_regions(region)}
        return sources + sum(found[name].result_bytes for name in before - set(names))

    def _default_seconds(self, size: int) -> float:
        return self.defaults.fixed_seconds + size / (self.defaults.bytes_per_second * self.slots)
