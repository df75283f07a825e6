"""One run of one job as Airflow would run it, in this process and without Airflow: the real planner, decisions,
subtasks and commits, on a real Spark server."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.core.durability.prediction import NO_HISTORY, JobHistory
from airflow_abs.core.expect.verdicts import Verdict
from airflow_abs.core.failover import Subtask
from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.published_rows import remember_rows, rows_before
from airflow_abs.exchange.records.deciding import decide_and_store
from airflow_abs.exchange.records.decisions import StoredDecision, read_decision
from airflow_abs.exchange.records.manifest import Manifest, read_manifests
from airflow_abs.exchange.records.plan import JobPlan, PlannedRegion, PlannedStep, RunFacts
from airflow_abs.exchange.records.reports import report
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.audit import check_region
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.execution.commit import commit_region
from airflow_abs.hooks.catalogs import table_access
from airflow_abs.spark.catalog.session_catalog import open_session_catalog
from airflow_abs.spark.compile.vertices import VertexProgram
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.planning import plan_job
from airflow_abs.spark.result_rows import read_rows
from airflow_abs.spark.run.renewal import renew_blocking
from airflow_abs.spark.run.subtask import SubtaskAttempt, run_subtask
from airflow_abs.tables.inference import SourceInference
from airflow_abs.tables.publishing.publication import publish_region

_SUBTASKS_OF_A_SLOT = 2  # one of them plans while the other one works


@dataclass(slots=True)
class JobRun:
    """A planned job and how far it is; `reports` are what the subtasks of each region would push as XCom."""

    endpoint: ConnectEndpoint
    folder: JobFolder
    graph: JobGraph
    plan: JobPlan
    reports: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    decisions: dict[str, RegionDecision] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)

    @classmethod
    def planned(
        cls,
        endpoint: ConnectEndpoint,
        folder: JobFolder,
        graph: JobGraph,
        programs: Mapping[str, VertexProgram],
        options: JobSettings,
        history: JobHistory = NO_HISTORY,
    ) -> Self:
        """The plan task's part; errors as `plan_job`."""
        with open_session(endpoint) as session:
            facts = RunFacts(installation="local")
            plan = plan_job(session, folder, graph, programs, options, Path, facts, history=history)
        return cls(endpoint, folder, graph, plan)

    def at_parallelism(self, run_id: str, parallelism: int) -> Self:
        """Another run of the same plan, in which every region that can be spread is `parallelism` subtasks.

        The number is put in the place of the decision, after everything was planned for an unknown number, as
        on any day. It is as if the day had the bytes for it, except that a subtask may have nothing to read. What
        already ran need not run again. A number that the author set is kept, a region of one subtask too, and none
        exceeds its max_parallelism.
        """
        folder = replace(self.folder, run_id=run_id)
        shutil.copytree(locate(self.folder.path).path, locate(folder.path).path)
        regions = tuple(_spread(region, parallelism) for region in self.plan.regions)
        plan = replace(self.plan, regions=regions)
        write_json(folder.plan_path, plan.to_json())
        own = {"reports": dict(self.reports), "decisions": dict(self.decisions), "verdicts": []}
        return replace(self, folder=folder, plan=plan, **own)  # type: ignore[arg-type]

    def with_spread(self, run_id: str, number: int) -> Self | None:
        """Another run of the same plan, for regions with this many inputs that may be spread: of each but this one, by
        its number, hot subpartitions stay whole. None if there is no such region. What already ran need not run again.
        """
        regions = tuple(
            replace(region, splittable=region.splittable[number : number + 1])
            for region in self.plan.regions
            if region.name in self.reports or len(region.splittable) > number
        )
        if len(regions) == len(self.reports):
            return None
        folder = replace(self.folder, run_id=run_id)
        shutil.copytree(locate(self.folder.path).path, locate(folder.path).path)
        plan = replace(self.plan, regions=regions)
        write_json(folder.plan_path, plan.to_json())
        own = {"reports": dict(self.reports), "decisions": dict(self.decisions), "verdicts": []}
        return replace(self, folder=folder, plan=plan, **own)  # type: ignore[arg-type]

    def decide(self, region: str) -> StoredDecision:
        """The part of a region's `decide` task."""
        producers = {entry.region for entry in self.plan.region(region).inputs}
        records = RunRecords(self.folder)
        for name in sorted(producers):
            check_region(records, name)
        reports = {name: self.reports[name] for name in sorted(producers)}
        tables = [source.table for each in self.plan.regions for source in each.sources if source.table is not None]
        kinds = {table.declared["kind"] for table in tables}  # planned in this process, of what the job declares
        sources = SourceInference(records, table_access(), kinds)
        stored = decide_and_store(records, region, reports, sources)
        self.decisions[region] = stored.decision
        return stored

    async def run_region(self, region: str, attempt: int = 1) -> None:
        """Decide a region and run all its subtasks side by side."""
        async with open_connection(self.endpoint) as connection:
            await self._run_region(connection, self._admission(), region, attempt)

    async def run_subtask(self, region: str, index: int, attempt: int = 1) -> None:
        """Run one subtask of a region that is decided."""
        entry = SubtaskAttempt(region, index, attempt, read_decision(self.folder, region).digest)
        async with open_connection(self.endpoint) as connection:
            await run_subtask(connection, self.folder, entry, Path)

    async def run_regions(self) -> dict[str, Exception]:
        """Run every region that has not run, each once its producers are done.

        Returns:
            The error of each region that failed, in the order of the plan; regions that read one of those do not run.
        """
        admission, failed = self._admission(), dict[str, Exception]()
        started: dict[str, asyncio.Task[None]] = {}

        async def run(region: PlannedRegion, connection: Connection) -> None:
            producers = sorted({entry.region for entry in region.inputs})
            await asyncio.gather(*(started[name] for name in producers if name in started))
            if any(name not in self.reports for name in producers):
                return
            try:
                await self._run_region(connection, admission, region.name, attempt=1)
            except Exception as error:
                failed[region.name] = error

        async with open_connection(self.endpoint) as connection:
            for region in self.plan.regions:
                if region.name not in self.reports:
                    started[region.name] = asyncio.create_task(run(region, connection))
            await asyncio.gather(*started.values())
        return {region.name: failed[region.name] for region in self.plan.regions if region.name in failed}

    def publish(self, region: str, records: RunRecords | None = None) -> dict[str, dict[str, Any]]:
        """Publish the sinks of a region; the plan was made in this process, of what the job declares."""
        kinds = {sink.table.kind for each in self.plan.regions for sink in each.sinks if sink.table is not None}
        access = table_access(partial(open_session_catalog, lambda: self.endpoint))
        return publish_region(records or RunRecords(self.folder), region, access, kinds)

    def commit(self) -> None:
        """The part of the `commit` tasks: publish every sink."""
        for region in self.plan.regions:
            self.commit_region(region.name)

    def commit_region(self, region: str) -> None:
        """The part of one `commit` task, or of that of a region without one."""

        def publish(records: RunRecords, name: str) -> list[Verdict]:
            verdicts = check_region(records, name, partial(rows_before, records.folder))
            self.publish(name, records)
            remember_rows(self.folder, verdicts)
            return verdicts

        def renew(records: RunRecords, outdated: Mapping[Subtask, Subtask]) -> None:
            renew_blocking(self.endpoint, self.folder, f"commit {region}", records, outdated, Path)

        self.verdicts += commit_region(RunRecords(self.folder), region, publish, renew)

    def read_vertices(self, session: Any) -> dict[str, tuple[Any, RegionDecision]]:
        """The rows of every vertex whose region ran, as Arrow tables in the order of subtasks, and its decision."""
        found = {}
        for region in self.plan.regions:
            if region.name in self.reports:
                stored = read_decision(self.folder, region.name)
                decision = stored.decision
                manifests = read_manifests(self.folder, region.name, decision.parallelism, decision=stored.digest)
                for vertex in region.vertices:
                    step = _readable_step(region, vertex)
                    if step is not None:
                        found[vertex] = read_rows(session, self.folder, step, manifests), decision
        return found

    def _admission(self) -> asyncio.Semaphore:
        """As many subtasks at once as the server has slots for: all of them would want its memory, too."""
        return asyncio.Semaphore(_SUBTASKS_OF_A_SLOT * (self.plan.slots or 1))

    async def _run_region(
        self, connection: Connection, admission: asyncio.Semaphore, region: str, attempt: int
    ) -> None:
        async def run(entry: SubtaskAttempt) -> Manifest:
            async with admission:
                return await run_subtask(connection, self.folder, entry, Path)

        stored = await asyncio.to_thread(self.decide, region)
        count = stored.decision.parallelism
        attempts = [SubtaskAttempt(region, index, attempt, stored.digest) for index in range(count)]
        manifests = await asyncio.gather(*map(run, attempts))
        self.reports[region] = [report(manifest, count) for manifest in manifests]


def _readable_step(region: PlannedRegion, vertex: str) -> PlannedStep | None:
    """A result of the vertex; one for other regions rather than its sink, which may be text."""
    steps = [step for step in region.steps if step.result.rpartition(".")[0] == vertex]
    return next((step for step in steps if not step.result.endswith(".sink")), steps[0] if steps else None)


def _spread(region: PlannedRegion, parallelism: int) -> PlannedRegion:
    divided = bool(region.sources) or any(not entry.is_broadcast for entry in region.inputs)
    if region.parallelism is not None or region.single_subtask_reason is not None or not divided:
        return region
    return replace(region, parallelism=min(parallelism, region.subpartitions))
