"""`plan.json`: what the `plan` task found out, once, for all tasks of the run.

Everything templated is rendered here, every schema known, every region cut into steps. The tasks after it read this
file and need no user code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.core.decide.region_inputs import RegionOptions
from airflow_abs.core.durability.prediction import Prediction
from airflow_abs.core.durability.row_order import RowOrder
from airflow_abs.core.durability.strange_day import UsualBytes
from airflow_abs.core.expect.expectations import Expectation
from airflow_abs.core.graph.job_graph import Region
from airflow_abs.core.graph.partitioning import Partitioning, describe_edge
from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.errors import PlanMismatchError, StoredFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.exchange.py_files import PyFile
from airflow_abs.exchange.records.declared_vertex import DeclaredVertex
from airflow_abs.exchange.records.reading import Count, Positive, Seconds, as_record, refuse
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.planned_source import PlannedSource, SourceColumn, column_names, vertex_of
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import decode_json, read_bytes, read_json


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """A blocking input: `result` of another region, read whole (broadcast), by files (rescale) or by range of
    subpartitions; `keys` are a hash edge's. `inferred`: by `plan`, not declared by the author. `written` says in words
    what of the vertex's output is, ``3 of 31 columns``; empty if all is. `kept_whole` says why a hot subpartition of it
    is not cut into parts; empty if it may be, or was not checked.
    """

    name: str
    placeholder: str
    region: str
    result: str
    partitioning: Partitioning
    keys: tuple[str, ...] = ()
    inferred: bool = False
    written: str = ""
    kept_whole: str = ""

    @property
    def how(self) -> str:
        """``hash(customer_id), inferred``."""
        return describe_edge(self.partitioning, self.keys, inferred=self.inferred)

    @property
    def is_broadcast(self) -> bool:
        """Read whole by every subtask."""
        return self.partitioning is Partitioning.BROADCAST

    @property
    def is_rescale(self) -> bool:
        """Every subtask reads files of its own."""
        return self.partitioning is Partitioning.RESCALE

    @property
    def is_ranged(self) -> bool:
        """Every subtask reads a range of subpartitions."""
        return not self.is_broadcast and not self.is_rescale


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One Spark write: the step's template (`step-<i>.pb`) with its placeholders bound, written as `result`.

    `local` maps placeholders to results that earlier steps of the same attempt wrote. Files of more than one
    subpartition carry the number of a row's as a column. `digest` is the SHA-256 of the template, in hex. `row_hash` is
    SQL for a small integer that depends on a row's values alone, and if the result is read `by_file` on the file that
    the row goes to; None where rows cannot be hashed (or need not be). `expectations` are those of its vertex, if this
    step computes it; the template then has a column for each unique key. Columns of `partition_by` are folders. Of
    partial results, `rows_column` says of how many rows each is. Of rows, `sampled` are the columns by which Spark
    counts the groups of a sample, for later runs that may write partial results. `inlined` are the vertices that run
    inside the step, by the alias around the plan of each.
    """

    result: str
    schema: str
    format: str
    options: Mapping[str, str]
    subpartitions: Positive
    shuffles: bool
    local: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    row_hash: str | None = None
    by_file: bool = False
    expectations: tuple[Expectation, ...] = ()
    partition_by: tuple[str, ...] = ()
    row_order: RowOrder | None = None
    rows_column: str | None = None
    sampled: tuple[str, ...] = ()
    inlined: Mapping[str, str] = field(default_factory=dict)

    @property
    def vertex(self) -> str:
        return self.result.rpartition(".")[0]

    @property
    def is_numbered(self) -> bool:
        return self.subpartitions > 1

    @property
    def columns(self) -> list[str]:
        """Names of the result's columns, in order."""
        return column_names(self.schema)


@dataclass(frozen=True, slots=True)
class PlannedSink:
    """Which result becomes which published files, or which table's files; one of the two is None."""

    vertex: str
    result: str
    files: Files | None
    table: TargetTable | None = None

    @property
    def label(self) -> str:
        """The path, or the table."""
        if self.table is not None:
            return self.table.table
        return self.files.path if self.files is not None else ""


@dataclass(frozen=True, slots=True)
class PlannedRegion:
    """One region. Unless it is `deterministic`, it has other rows when it runs again.

    `splittable` are the names of inputs whose hot subpartitions several subtasks may share, as `plan` has proved.
    `spark_conf` are the author's settings of its Spark sessions. `retry_steps` do the same work with a result for each
    vertex, for the tries after one that failed; () if `plan` found that not worth it. Their templates are numbered
    behind those of `steps`. `broadcast_join` says why the large side of its join is not hashed, though it is declared
    so; "" if every input is as declared.
    """

    name: str
    vertices: tuple[str, ...]
    sources: tuple[PlannedSource, ...]
    inputs: tuple[PlannedInput, ...]
    steps: tuple[PlannedStep, ...]
    sinks: tuple[PlannedSink, ...]
    parallelism: Positive | None
    subpartitions: Positive
    single_subtask_reason: str | None
    deterministic: bool = True
    splittable: tuple[str, ...] = ()
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    retry_steps: tuple[PlannedStep, ...] = ()
    broadcast_join: str = ""

    def kept_whole(self, name: str) -> str | None:
        """Why a hot subpartition of an input is not cut into parts; empty: unknown, None if it may be."""
        if name in self.splittable:
            return None
        return next((entry.kept_whole for entry in self.inputs if entry.name == name), "")

    def step(self, result: str) -> PlannedStep:
        return next(step for step in self.steps if step.result == result)

    def digest_columns(self) -> str:
        """Equal for days on which it writes the same columns, of the same types, of the same vertices."""
        written = sorted((step.vertex, step.schema) for step in self.steps)
        return sha256(repr(written).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    """An edge between declared regions: whether its rows are written today, and why."""

    producer: str
    consumer: str
    input_name: str
    durable: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.producer} -> {self.consumer}.{self.input_name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What Airflow knows of a run that it plans: when it started the task, in epoch seconds, the data interval in ISO
    form, and its own name as an installation; None is unknown, or there is none. `former_jobs` and `slots` are as in
    `JobPlan`."""

    began: float | None = None
    data_interval: tuple[str, str] | None = None
    installation: str | None = None
    former_jobs: tuple[str, ...] = ()
    slots: int | None = None


NO_FACTS = RunFacts()


@dataclass(frozen=True, slots=True)
class JobPlan:
    """All regions, producers first, and what binds their decisions.

    `options` are the job's; `slots` is how many Spark tasks run at once, None if the
    server does not say. `fused` names for each declared region that is not there the one that does its work. `id` is
    new with every plan: what is derived from it meets nothing of an earlier run, even if that had the same run id.
    `began` is when Airflow started the task that planned it, in epoch seconds; None if unknown. `usual` is what
    its sources held on earlier days, by vertex, where there were enough of them. With `durability="auto"` there are
    `edges`, `predictions` of every declared region, and the `mean_seconds` of work between two failures (None if none
    are expected). `py_files` are what every Spark session of the run is sent. `vertices` are as the author declared
    them, rendered. `generation` is higher than that of the run's plans before, and `former_sinks` are vertices that
    published then and do not now. `data_interval` is the run's, in ISO form; None if it has none. `installation` names
    the Airflow that planned it; only older plans have none. `former_jobs` are what the job was called in earlier plans
    of the run, see `find_former_jobs`. `column_sources` are those of the columns of sinks, by vertex and column, as far
    as they are known.
    """

    id: str
    regions: tuple[PlannedRegion, ...]
    options: JobSettings
    slots: Positive | None
    spark_version: str
    fused: Mapping[str, str] = field(default_factory=dict)
    began: Seconds | None = None
    usual: Mapping[str, UsualBytes] = field(default_factory=dict)
    edges: tuple[PlannedEdge, ...] = ()
    predictions: Mapping[str, Prediction] = field(default_factory=dict)
    mean_seconds: Seconds | None = None
    py_files: tuple[PyFile, ...] = ()
    vertices: tuple[DeclaredVertex, ...] = ()
    generation: Count = 0
    former_sinks: tuple[str, ...] = ()
    data_interval: tuple[str, str] | None = None
    installation: str | None = None
    former_jobs: tuple[str, ...] = ()
    column_sources: Mapping[str, Mapping[str, tuple[SourceColumn, ...]]] = field(default_factory=dict)

    @property
    def sink_vertices(self) -> tuple[str, ...]:
        return tuple(sink.vertex for region in self.regions for sink in region.sinks)

    @property
    def unrepeatable(self) -> tuple[str, ...]:
        """The regions whose rows may be others when they run again: those that are not deterministic, and all that
        read them; producers first."""
        found: dict[str, None] = {}
        for region in self.regions:
            if not region.deterministic or any(entry.region in found for entry in region.inputs):
                found[region.name] = None
        return tuple(found)

    def with_all_before(self, *names: str) -> tuple[str, ...]:
        """These regions, and all whose rows reach them; producers first."""
        wanted = set(names)
        for region in reversed(self.regions):
            if region.name in wanted:
                wanted |= {entry.region for entry in region.inputs}
        return tuple(region.name for region in self.regions if region.name in wanted)

    def publisher(self, folder: JobFolder, vertex: str) -> Publisher:
        """As whom the sink of a vertex publishes."""
        run = f"{folder.dag_id}/{folder.run_id}/{folder.job}"
        if not self.installation:
            return Publisher(f"{run}/{vertex}", self.generation, run, (vertex, *self.former_sinks))
        former = tuple(f"{self.installation}:{folder.dag_id}/{folder.run_id}/{job}" for job in self.former_jobs)
        return Publisher(f"{self.installation}:{run}", self.generation, run, (vertex, *self.former_sinks), former)

    def region(self, name: str) -> PlannedRegion:
        """By name.

        Raises:
            PlanMismatchError: there is none, so the DAG file has changed.
        """
        for region in self.regions:
            if region.name == name:
                return region
        raise PlanMismatchError(
            f"{name}: the DAG file declares it, and the plan of this run knows only "
            f"{', '.join(region.name for region in self.regions)}; the file has changed since. Clear plan as well, and "
            "everything after it"
        )

    def changed_since(self, declarations: Mapping[str, str]) -> tuple[str, ...]:
        """A few words on each vertex that the DAG file declares in another way than when the run was planned, or that
        is new. Empty for plans of releases that kept no declarations.

        Args:
            declarations: by vertex, see `digest_declaration`.
        """
        planned = {vertex.name: vertex.declaration for vertex in self.vertices if vertex.declaration}
        return tuple(
            f"{name} is new" if name not in planned else f"{name} is declared otherwise"
            for name, declaration in declarations.items()
            if planned and planned.get(name) != declaration
        )

    def check_declared(self, region: str, declarations: Mapping[str, str]) -> None:
        """What a region makes is what the DAG file says now.

        Args:
            region: whose rows are about to be made or published.
            declarations: of its vertices and all before them, see `digest_declaration`.

        Raises:
            PlanMismatchError: names the vertices that have changed, or came.
        """
        if changed := self.changed_since(declarations):
            raise PlanMismatchError(
                f"{region}: the DAG file has changed since this run was planned: {', '.join(changed)}; expected the "
                "declarations that the run was planned from. Nothing was published. Clear plan as well, and everything "
                "after it. If you did not edit the file, it computes a value whenever it is parsed, such as today's "
                "date: write a template instead, such as {{ ds }}"
            )

    def declared_regions(self, name: str) -> tuple[str, ...]:
        """The declared regions that run as this one today; it is the last of them."""
        return declared_regions(self.fused, name)

    def prediction_of(self, name: str) -> Prediction | None:
        """What was predicted of a region as it runs today: the seconds of all declared ones in it, and what the last of
        them writes. None if nothing was."""
        parts = [self.predictions.get(region) for region in self.declared_regions(name)]
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts):
            return None
        seconds, is_known = sum(part.seconds for part in known), all(part.from_history for part in known)
        return replace(known[-1], seconds=round(seconds, 3), from_history=is_known)

    def strange_sources(self, decision: RegionDecision) -> tuple[str, ...]:
        """A sentence for each source of a region that holds far more or less today than on earlier days."""
        sources = [entry for entry in decision.inputs if entry.kind == "source" and not entry.size_from]
        read = [(vertex_of(entry.name), entry.bytes) for entry in sources]
        told = [self.usual[vertex].describe_strange(vertex, size) for vertex, size in read if vertex in self.usual]
        return tuple(line for line in told if line is not None)

    def edges_to(self, region: PlannedRegion) -> tuple[PlannedEdge, ...]:
        """The edges to its vertices for which `plan` decided whether they are written."""
        return tuple(edge for edge in self.edges if edge.consumer in region.vertices)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(payload: Mapping[str, Any], *, where: str) -> JobPlan:
        """Build and check a plan; a DamagedFileError names the first field that is wrong, or leads nowhere."""
        options = payload.get("options")
        if isinstance(options, Mapping):
            as_record(options, JobSettings, where=where, part="options: ", required=_DECIDE)
            payload = {**{name: options[name] for name in _ONCE_OPTIONS if name in options}, **payload}
        plan = as_record(payload, JobPlan, where=where)
        _check_results(plan, where)
        return plan


def declared_regions(fused: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The declared regions that run as the one of this name, which is the last of them; `fused` as in `JobPlan`."""

    def runs_in(region: str) -> str:
        return runs_in(fused[region]) if region in fused else region

    return (*(region for region in fused if runs_in(region) == name), name)


def read_plan(folder: JobFolder) -> JobPlan:
    """Read a run's plan back; the same content is parsed once in a process.

    Raises:
        MissingFileError, DamagedFileError: see `read_json`.
    """
    return _parse(read_bytes(folder.plan_path), str(locate(folder.plan_path)))


def number_plan(folder: JobFolder, plan: JobPlan, now: float) -> JobPlan:
    """The plan as the one that follows the run's plan before it, which it is about to replace.

    It is numbered by the clock, in milliseconds, and higher than the plan before: after `gc` has deleted that, too, its
    number is higher than any that a table remembers.
    """
    try:
        before = read_json(folder.plan_path)
    except StoredFileError:  # there is none, or it is damaged, and this plan is what helps
        before = {}
    published = [
        *before.get("former_sinks", ()),
        *(sink["vertex"] for region in before.get("regions", ()) for sink in region["sinks"]),
    ]
    former = tuple(dict.fromkeys(vertex for vertex in published if vertex not in plan.sink_vertices))
    may_change = any(not region.get("deterministic", True) for region in before.get("regions", ()))
    after = before.get("generation", 0) + (_RENEWALS_PER_PLAN if may_change else 1)
    return replace(
        plan,
        generation=max(after, int(now * 1000)),
        former_sinks=former,
        former_jobs=tuple(dict.fromkeys((*plan.former_jobs, *before.get("former_jobs", ())))),
    )


_RENEWALS_PER_PLAN = 1_000_000
"""Later publications of the same plan are numbered from the plan's number on, see `RunRecords.renewals`."""

_DECIDE = ("strategy", "target_bytes", "min_parallelism", "max_parallelism", "default_source_parallelism")
"""Options that every plan has; those that came later have a default."""
_ONCE_OPTIONS = ("data_interval", "installation")
"""Facts of the run that older plans hold among their options."""


@lru_cache(maxsize=32)
def _parse(data: bytes, where: str) -> JobPlan:
    return JobPlan.from_json(decode_json(data, where=where), where=where)


def region_options(plan: JobPlan, region: PlannedRegion) -> RegionOptions:
    """The job's options as they bind one region."""
    return bind_options(plan.options, plan.slots, region, region.splittable)


def bind_options(
    options: JobSettings, slots: int | None, region: Region | PlannedRegion, splittable: tuple[str, ...] = ()
) -> RegionOptions:
    """The job's `options` for one region, whose inputs may be `splittable`."""
    return RegionOptions(
        strategy=options.strategy,
        target_bytes=options.target_bytes,
        min_parallelism=min(options.min_parallelism, region.subpartitions),
        max_parallelism=region.subpartitions,
        default_source_parallelism=options.default_source_parallelism,
        parallelism=region.parallelism,
        slots=slots,
        single_subtask_reason=region.single_subtask_reason,
        splittable=splittable,
        most_waves=options.most_waves,
        max_broadcast_ratio=options.max_broadcast_ratio,
    )


def _check_results(plan: JobPlan, where: str) -> None:
    """Whatever a region reads, one before it writes; whatever it publishes or reads of its own, one of its steps."""
    written: dict[str, set[str]] = {}
    for region in plan.regions:
        for entry in region.inputs:
            if entry.result not in written.get(entry.region, ()):
                refuse(
                    where, f"region {region.name!r} reads {entry.result!r}, which no step of {entry.region!r} writes"
                )
        own = _check_steps(region.name, region.steps, where)
        if region.retry_steps and (missing := sorted(own - _check_steps(region.name, region.retry_steps, where))):
            refuse(where, f"the steps of {region.name!r} after a failure do not write {missing[0]!r}")
        for sink in region.sinks:
            if sink.result not in own:
                refuse(where, f"region {region.name!r} publishes result {sink.result!r}, which no step writes")
        if region.name in written:
            refuse(where, f"there are two regions {region.name!r}")
        written[region.name] = own


def _check_steps(region: str, steps: Sequence[PlannedStep], where: str) -> set[str]:
    """What they write."""
    written: set[str] = set()
    for step in steps:
        if unknown := sorted(set(step.local.values()) - written):
            refuse(where, f"step {step.result!r} of {region!r} reads {unknown[0]!r}, which none before writes")
        written.add(step.result)
    return written
