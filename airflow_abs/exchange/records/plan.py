"""`plan.json`: what the `plan` task found out, once, for all tasks of the run.

Everything templated is rendered here, every schema known, every region cut into steps. The tasks after it read this
file and need no user code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.paths import JobFolder
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import decode_json, read_bytes


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """Files that a vertex reads; `schema` is Spark's JSON form."""

    name: str
    placeholder: str
    files: Files
    schema: str


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """A blocking input: `result` of another region, read whole (broadcast), by files (rescale) or by range of
    subpartitions; `keys` are a hash edge's.
    """

    name: str
    placeholder: str
    region: str
    result: str
    partitioning: Partitioning
    keys: tuple[str, ...] = ()

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
    the row goes to; None where rows cannot be hashed (or need not be).
    """

    result: str
    schema: str
    format: str
    options: Mapping[str, str]
    subpartitions: int
    shuffles: bool
    local: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    row_hash: str | None = None
    by_file: bool = False

    @property
    def is_numbered(self) -> bool:
        return self.subpartitions > 1


@dataclass(frozen=True, slots=True)
class PlannedSink:
    """Which result becomes which published files."""

    vertex: str
    result: str
    files: Files


@dataclass(frozen=True, slots=True)
class PlannedRegion:
    """One region. Unless it is `deterministic`, what is lost of its results is not recomputed.

    `splittable` are the names of inputs of which a hot subpartition may be dealt out to several subtasks. `spark_conf`
    are the author's settings of its Spark sessions.
    """

    name: str
    vertices: tuple[str, ...]
    sources: tuple[PlannedSource, ...]
    inputs: tuple[PlannedInput, ...]
    steps: tuple[PlannedStep, ...]
    sinks: tuple[PlannedSink, ...]
    parallelism: int | None
    subpartitions: int
    single_subtask_reason: str | None
    deterministic: bool = True
    splittable: tuple[str, ...] = ()
    spark_conf: Mapping[str, str] = field(default_factory=dict)

    def step(self, result: str) -> PlannedStep:
        return next(step for step in self.steps if step.result == result)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """All regions, producers first, and what binds their decisions.

    `options` are the job's (strategy, target_bytes, ...); `slots` is how many Spark tasks run at once, None if the
    server does not say. `fused` names for each declared region that is not there the one that does its work. `id` is
    new with every plan: what is derived from it meets nothing of an earlier run, even if that had the same run id.
    `began` is when Airflow started the task that planned it, in epoch seconds; None if nobody knows.
    """

    id: str
    regions: tuple[PlannedRegion, ...]
    options: Mapping[str, Any]
    slots: int | None
    spark_version: str
    fused: Mapping[str, str] = field(default_factory=dict)
    began: float | None = None

    def region(self, name: str) -> PlannedRegion:
        return next(region for region in self.regions if region.name == name)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JobPlan:
        regions = tuple(_region_from_json(region) for region in value["regions"])
        return cls(
            id=value["id"],
            regions=regions,
            options=value["options"],
            slots=value["slots"],
            spark_version=value["spark_version"],
            fused=value.get("fused", {}),
            began=value.get("began"),
        )


def read_plan(folder: JobFolder) -> JobPlan:
    """Read a run's plan back; the same content is parsed once in a process.

    Raises:
        MissingFileError, DamagedFileError: see `read_json`.
    """
    return _parse(read_bytes(folder.plan_path), str(locate(folder.plan_path)))


@lru_cache(maxsize=32)
def _parse(data: bytes, where: str) -> JobPlan:
    return JobPlan.from_json(decode_json(data, where=where))


def _region_from_json(value: Mapping[str, Any]) -> PlannedRegion:
    return PlannedRegion(
        name=value["name"],
        vertices=tuple(value["vertices"]),
        sources=tuple(
            PlannedSource(**{**source, "files": Files.from_json(source["files"])}) for source in value["sources"]
        ),
        inputs=tuple(
            PlannedInput(
                **{
                    **entry,
                    "partitioning": Partitioning(entry["partitioning"]),
                    "keys": tuple(entry.get("keys", ())),
                }
            )
            for entry in value["inputs"]
        ),
        steps=tuple(PlannedStep(**step) for step in value["steps"]),
        sinks=tuple(PlannedSink(**{**sink, "files": Files.from_json(sink["files"])}) for sink in value["sinks"]),
        parallelism=value["parallelism"],
        subpartitions=value["subpartitions"],
        single_subtask_reason=value["single_subtask_reason"],
        deterministic=value.get("deterministic", True),
        splittable=tuple(value.get("splittable", ())),
        spark_conf=value.get("spark_conf", {}),
    )
