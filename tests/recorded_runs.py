"""Runs as they lie in an exchange, made without Airflow and Spark: declared sizes instead of data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions, SourceInput
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.decisions import StoredDecision
from airflow_abs.exchange.records.manifest import (
    MANIFEST_VERSION,
    Manifest,
    ResultFile,
    ResultManifest,
    attempts_read,
    bytes_by_file,
    bytes_by_subpartition,
)
from airflow_abs.exchange.records.plan import (
    JobPlan,
    PlannedInput,
    PlannedRegion,
    PlannedSink,
    PlannedStep,
    region_options,
)
from airflow_abs.exchange.records.slices import Slice, cut_slices
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.planned_source import PlannedSource, SourceColumn
from airflow_abs.exchange.storage.whole_files import encode_json, write_json

BEGAN = 1_767_225_600.0  # 2026-01-01

Sizes = Callable[[str, int, int], int]
"""Region, index of a subtask, subpartition: the bytes that it writes there."""

OPTIONS = JobSettings(target_bytes=1000, max_parallelism=16, durability="always", share_tasks=False, hot_keys=False)


@dataclass(frozen=True, slots=True)
class MadeRegion:
    """A region to make: it reads `files` (bytes of each) or `inputs` (region to partitioning)."""

    name: str
    files: Sequence[int] = ()
    inputs: Mapping[str, Partitioning] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    sink: str | None = None
    parallelism: int | None = None
    deterministic: bool = True


@dataclass(slots=True)
class RecordedRun:
    """A planned job; `decide` and `commit` write what the tasks of those names would."""

    folder: JobFolder
    regions: Sequence[MadeRegion]
    sizes: Sizes
    options: JobSettings = OPTIONS
    slots: int = 2
    seconds: Callable[[str, int], float] = lambda region, index: 1.5 + index / 10
    waited: Callable[[int], float] = lambda index: index / 4
    planning: float = 10.0
    stored: dict[str, StoredDecision] = field(default_factory=dict)
    manifests: dict[str, dict[int, Manifest]] = field(default_factory=dict)
    schema: str = "{}"
    column_sources: Mapping[str, Mapping[str, tuple[SourceColumn, ...]]] = field(default_factory=dict)

    @property
    def subpartitions(self) -> int:
        return self.options.max_parallelism

    @property
    def plan(self) -> JobPlan:
        regions = tuple(map(self._planned, self.regions))
        found = self.column_sources
        return JobPlan("plan-1", regions, self.options, self.slots, "4.2.0", began=BEGAN, column_sources=found)

    def write_plan(self) -> None:
        for region in self.regions:
            Path(str(self.folder.region_path(region.name))).mkdir(parents=True, exist_ok=True)
        write_json(self.folder.plan_path, self.plan.to_json())

    def decide(self, name: str) -> RegionDecision:
        planned = self.plan.region(name)
        region = next(each for each in self.regions if each.name == name)
        inputs = [
            BlockingInput(
                entry.name,
                entry.partitioning,
                [
                    (bytes_by_file if entry.is_rescale else bytes_by_subpartition)(manifest.results[entry.result])
                    for _, manifest in sorted(self.manifests[entry.region].items())
                ],
            )
            for entry in planned.inputs
        ]
        files = {f"{name}.source": [SourceFile(f"/lake/{name}/{k}", size) for k, size in enumerate(region.files)]}
        sources = [SourceInput(source, [file.bytes for file in found]) for source, found in files.items() if found]
        options: RegionOptions = region_options(self.plan, planned)
        decision = decide_region(name, inputs, sources, options)
        producers = {entry.region: len(self.manifests[entry.region]) for entry in planned.inputs}
        stored = StoredDecision(
            plan="plan-1",
            decision=decision,
            files={key: found for key, found in files.items() if found},
            producers=producers,
            producer_decisions={region: self.stored[region].digest for region in producers},
            measured={entry.name: entry.bytes_by_subpartition() for entry in inputs},
            measured_by_producer={entry.name: entry.bytes_by_partition for entry in inputs if entry.is_rescale},
            placements={
                entry.name: [
                    manifest.results[entry.result].checksum
                    for _, manifest in sorted(self.manifests[entry.region].items())
                ]
                for entry in planned.inputs
                if entry.is_rescale
            },
            measured_at=self._measured_at(planned),
        )
        write_json(self.folder.decision_path(name), stored.to_json())
        self.stored[name] = stored
        self.manifests.setdefault(name, {})
        return decision

    def slice_of(self, name: str, index: int) -> Slice:
        return cut_slices(self.stored[name])[index]

    def _measured_at(self, planned: PlannedRegion) -> float:
        """The end of the last subtask before it; the sources are decided when `plan` has ended."""
        before = {entry.region for entry in planned.inputs}
        return max(
            (
                (self.stored[region].measured_at or 0.0) + (manifest.waited or 0.0) + manifest.seconds
                for region in before
                for manifest in self.manifests[region].values()
            ),
            default=BEGAN + self.planning,
        )

    def commit(self, name: str, index: int, attempt: int = 1, grown: int = 0) -> None:
        """Write the manifest of one subtask; `grown` bytes more than `sizes` says."""
        manifest = self.made(name, index, attempt, grown)
        # As `write_manifest`, without its sync to the disk: there can be thousands.
        path = Path(str(self.folder.manifest_path(name, index)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_json(manifest.to_json(), version=MANIFEST_VERSION))
        self.manifests[name][index] = manifest

    def made(self, name: str, index: int, attempt: int = 1, grown: int = 0) -> Manifest:
        """As a subtask would commit it that reads what counts now."""
        results = {}
        for step in self.plan.region(name).steps:
            spread = [self.sizes(name, index, part) for part in range(step.subpartitions)]
            sizes = (*spread[:-1], spread[-1] + grown)
            folder = f"{name}/subtask-{index}/attempt-{attempt}/{step.result}"
            files = [ResultFile(f"{folder}/part-0.parquet", sum(sizes) + 100, sum(sizes) // 10, 0, sizes)]
            if step.by_file:
                files.append(replace(files[0], path=f"{folder}/part-1.parquet"))
            results[step.result] = ResultManifest(
                step.format, step.schema, step.subpartitions, tuple(files), str(grown), step.by_file
            )
        times = {"seconds": self.seconds(name, index), "waited": self.waited(index)}
        producers = {entry.region for entry in self.plan.region(name).inputs}
        read = {
            region: attempts_read(each for _, each in sorted(self.manifests[region].items())) for region in producers
        }
        return Manifest(name, index, attempt, self.stored[name].digest, results=results, read=read, **times)

    def run(self, *names: str) -> None:
        """Decide and commit regions, all if none is named."""
        for region in names or [region.name for region in self.regions]:
            for index in range(self.decide(region).parallelism):
                self.commit(region, index)

    def _planned(self, region: MadeRegion) -> PlannedRegion:
        steps = [self._step(region.name, name) for name in self._results_of(region.name)]
        if region.sink:
            steps.append(self._step(region.name, f"{region.name}.sink"))
        return PlannedRegion(
            name=region.name,
            vertices=(*region.before, region.name),
            sources=(PlannedSource(f"{region.name}.source", "s0", Files(f"/lake/{region.name}"), self.schema),)
            if region.files
            else (),
            inputs=tuple(
                PlannedInput(
                    f"{region.name}.{origin}",
                    f"i{k}",
                    origin,
                    self._result(origin, how),
                    how,
                    ("customer_id",) if how is Partitioning.HASH else (),
                )
                for k, (origin, how) in enumerate(region.inputs.items())
            ),
            steps=tuple(steps),
            sinks=(PlannedSink(region.name, f"{region.name}.sink", Files(region.sink)),) if region.sink else (),
            parallelism=region.parallelism,
            subpartitions=self.subpartitions,
            single_subtask_reason=None,
            deterministic=region.deterministic,
        )

    def _results_of(self, name: str) -> list[str]:
        return list(dict.fromkeys(self._result(name, r.inputs[name]) for r in self.regions if name in r.inputs))

    @staticmethod
    def _result(origin: str, how: Partitioning) -> str:
        whole = how in (Partitioning.BROADCAST, Partitioning.RESCALE)
        return f"{origin}.whole" if whole else f"{origin}.{how.value}"

    def _step(self, name: str, result: str) -> PlannedStep:
        cut = result.endswith((".hash", ".rebalance"))
        shuffles = any(Partitioning.HASH in region.inputs.values() for region in self.regions if region.name == name)
        by_file = any(region.inputs.get(name) is Partitioning.RESCALE for region in self.regions)
        return PlannedStep(
            result,
            self.schema,
            "parquet",
            {},
            self.subpartitions if cut else 1,
            shuffles=shuffles,
            by_file=by_file and result.endswith(".whole"),
        )


def skewed(region: str, index: int, subpartition: int) -> int:
    """Different for every cell, and the same in every process; subpartition 5 is hot."""
    base = 17 + (sum(region.encode()) * 31 + index * 97 + subpartition * 53) % 89
    return base * 12 if subpartition == 5 else base


def revenue_run(root: Path, run_id: str = "manual__2026-01-03", sizes: Sizes = skewed, **options: Any) -> RecordedRun:
    """Two sources, a join with a broadcast side, two vertices in one region, a sink."""
    regions = [
        MadeRegion("orders", files=(1800, 900, 900, 400)),
        MadeRegion("customers", files=(700,)),
        MadeRegion("enriched", inputs={"orders": Partitioning.HASH, "customers": Partitioning.BROADCAST}),
        MadeRegion("by_region", inputs={"enriched": Partitioning.HASH}, before=("rates",), sink="/mart/revenue"),
    ]
    run = RecordedRun(JobFolder(root, "daily_revenue", run_id, "revenue"), regions, sizes, replace(OPTIONS, **options))
    run.write_plan()
    return run


def copied_run(root: Path, sizes: Sizes = skewed, **options: Any) -> RecordedRun:
    """A source whose files are distributed to `copy`, which also reads a hash input; every result read by file has two
    files for each subtask."""
    regions = [
        MadeRegion("orders", files=(1800, 900, 900, 400)),
        MadeRegion("notes", files=(900, 900)),
        MadeRegion("copy", inputs={"orders": Partitioning.RESCALE}),
        MadeRegion("noted", inputs={"notes": Partitioning.HASH, "copy": Partitioning.RESCALE}, sink="/mart/noted"),
    ]
    run = RecordedRun(JobFolder(root, "copies", "run", "job"), regions, sizes, replace(OPTIONS, **options))
    run.write_plan()
    return run


def wide_run(folder: JobFolder, subtasks: int) -> RecordedRun:
    """The example DAG's four vertices; two of them with exactly so many subtasks."""
    regions = [
        MadeRegion("orders", files=(100,) * subtasks, parallelism=subtasks),
        MadeRegion("customers", files=(700,)),
        MadeRegion(
            "enriched",
            inputs={"orders": Partitioning.HASH, "customers": Partitioning.BROADCAST},
            parallelism=subtasks,
        ),
        MadeRegion("by_region", inputs={"enriched": Partitioning.HASH}, sink="/mart/revenue", parallelism=2),
    ]
    run = RecordedRun(folder, regions, skewed, replace(OPTIONS, max_parallelism=subtasks))
    run.write_plan()
    return run


def chain_run(root: Path, regions: int, subtasks: int) -> RecordedRun:
    """A source and a chain of hash edges, every region with exactly so many subtasks."""
    made = [MadeRegion("r00", files=(100,) * subtasks, parallelism=subtasks)]
    made += [
        MadeRegion(f"r{k:02}", inputs={f"r{k - 1:02}": Partitioning.HASH}, parallelism=subtasks)
        for k in range(1, regions)
    ]
    folder = JobFolder(root, "chain", "run", "job")
    run = RecordedRun(folder, made, skewed, replace(OPTIONS, max_parallelism=subtasks))
    run.write_plan()
    return run
