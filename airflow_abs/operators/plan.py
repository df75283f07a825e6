"""The head of a job: compile and check everything before any data moves. The only task that runs user code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_abs.airflow_abilities import START_IN_TRIGGERER, airflow_version
from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.core.settings import JobSettings
from airflow_abs.core.wording import format_count
from airflow_abs.exchange.errors import ExchangeError, MissingFileError
from airflow_abs.exchange.records.declared_vertex import DeclaredVertex
from airflow_abs.operators.idle_regions import SkipsIdleRegions
from airflow_abs.operators.job_task import JobTask, logical_date

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_abs.exchange.paths import JobFolder
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint
    from airflow_abs.tables.access import TableAccess
    from airflow_abs.tables.overlaps import DeclaredJob


class PlanOperator(JobTask, SkipsIdleRegions):
    """Compiles the job's regions into plan templates in the exchange, and skips the tasks of those that run inside
    others today and have nothing to wait for: each would cost a process.

    Args:
        graph: checked graph of the job.
        vertices: each `DeclaredVertex` as JSON; templated.
        transforms: function of each vertex, None to pass its only input on; not serialised with the DAG.
        options: what binds the decisions, stored in the plan.
    """

    template_fields: Sequence[str] = ("exchange", "vertices")
    ui_color = "#e8f0fe"
    inherits_from_skipmixin = True  # so that what it skipped is skipped again when it is cleared alone

    def __init__(
        self,
        *,
        graph: JobGraph,
        vertices: Sequence[Mapping[str, Any]],
        transforms: Mapping[str, Callable[..., Any] | None],
        options: JobSettings,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"doc_md": _describe(graph), **kwargs})
        self.graph = graph
        self.vertices = vertices
        self.transforms = transforms
        self.options = options
        self.tasks_of_regions: Mapping[str, Sequence[str]] = {}  # once they are there
        self.ignored_start = False

    @property
    def declared(self) -> list[DeclaredVertex]:
        """The vertices, rendered if the task is."""
        return [DeclaredVertex.from_json(each) for each in self.vertices]

    def reads_and_writes(self, context: Context | None = None) -> DeclaredJob:
        """Its sources and sinks, with their templates as they are, or rendered for a run."""
        from airflow_abs.tables.declared import read_declared
        from airflow_abs.tables.overlaps import DeclaredJob

        given = (self.exchange, self.vertices)
        exchange, vertices = given if context is None else self.render_template(given, context)
        declared = [DeclaredVertex.from_json(each) for each in vertices]
        return DeclaredJob(
            job=self.job,
            exchange=exchange,
            sources={each.name: read_declared(each.source) for each in declared if each.source is not None},
            sinks={each.name: read_declared(each.sink) for each in declared if each.sink is not None},
        )

    def jobs_besides(self, context: Context | None = None) -> list[DeclaredJob]:
        """What the other jobs of the DAG read and write, as `reads_and_writes`; less those that cannot be rendered yet,
        as they wait for other tasks: their own `plan` compares them with this one."""
        found = []
        for task in self.dag.tasks:
            if isinstance(task, PlanOperator) and task.task_id != self.task_id:
                try:
                    found.append(task.reads_and_writes(context))
                except Exception as error:  # templates are anybody's code
                    if context is None:
                        raise
                    self.log.info("its sinks are not compared with those of job %s yet: %s", task.job, error)
        return found

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_abs.exchange.records.job_history import read_history
        from airflow_abs.exchange.records.plan import RunFacts
        from airflow_abs.exchange.runs.former_jobs import find_former_jobs
        from airflow_abs.exchange.runs.root_marker import mark_root
        from airflow_abs.hooks.catalogs import table_access
        from airflow_abs.hooks.installation import read_installation
        from airflow_abs.hooks.storage import open_path
        from airflow_abs.spark.catalog.session_catalog import SessionCatalog
        from airflow_abs.spark.connect.session import open_session
        from airflow_abs.spark.planning import plan_job
        from airflow_abs.spark.session_capacity import await_executors
        from airflow_abs.tables.declared import take_sources

        if self.ignored_start:
            self.log.warning(
                "Airflow %s: %s; %s", airflow_version(), START_IN_TRIGGERER.lack, START_IN_TRIGGERER.fallback
            )
        folder = self.folder(context)
        endpoint = self.spark_hook(context).get_endpoint()
        self._end_earlier(endpoint, folder)
        plans = [task for task in self.dag.tasks if isinstance(task, PlanOperator)]
        jobs = {task.job: {each.name: each.declaration for each in task.declared} for task in plans}
        started = context["ti"].start_date.timestamp()
        former = find_former_jobs(folder, jobs)
        with open_session(endpoint) as session:
            slots = await_executors(session, "plan", self.options.resource_timeout, endpoint.executors)
            facts = RunFacts(started, _data_interval(context), read_installation(), former, slots)
            known = read_history(folder, logical_date(context))
            access = table_access(lambda: nullcontext(SessionCatalog(session)))
            programs = self._programs(
                folder,
                access,
                lambda sources: take_sources(folder, self.graph, sources, open_path, partial(_is_over, context), jobs),
                self.jobs_besides(context),
            )
            plan = plan_job(session, folder, self.graph, programs, self.options, open_path, facts, known)
        mark_root(folder.root)
        for region in plan.regions:
            self.log.info("compiled region %s: %s", region.name, format_count(len(region.steps), "Spark write"))
        for name, into in plan.fused.items():
            self.log.info("region %s runs inside %s today", name, into)
        told = {"regions": [region.name for region in plan.regions], "slots": plan.slots, "spark": plan.spark_version}
        self.skip_idle(context, self.graph, self.tasks_of_regions, plan.fused, told)
        return told

    def _end_earlier(self, endpoint: ConnectEndpoint, folder: JobFolder) -> None:
        """What still runs of a run that was cleared: Airflow leaves the triggers of its subtasks alone until those are
        queued again."""
        from airflow_abs.spark.errors import SparkOperationError
        from airflow_abs.spark.run.attempt import release_sessions

        try:
            ended = asyncio.run(release_sessions(endpoint, folder))
            self.log.info("cleared: ended %s", format_count(ended, "Spark session"))
        except MissingFileError:
            return  # it was never planned before
        except (ExchangeError, SparkOperationError) as error:
            self.log.warning("could not end this run's Spark sessions: %s", error)

    def _programs(
        self,
        folder: JobFolder,
        access: TableAccess,
        take: Callable[[dict[str, Any]], dict[str, Any]] = lambda sources: sources,
        others: Sequence[DeclaredJob] = (),
    ) -> dict[str, Any]:
        """What is rendered, by vertex. `access` is as in `TableSource.pin`; `take` makes of incremental sources the
        files that are this run's; `others` are the other jobs of the DAG."""
        from airflow_abs.exchange.publish.target_table import TargetTable
        from airflow_abs.spark.compile.vertices import VertexProgram
        from airflow_abs.tables.declared import find_targets, pin_sources
        from airflow_abs.tables.overlaps import check_overlaps, check_tables
        from airflow_abs.tables.source import Pin

        vertices = self.declared
        for vertex in vertices:
            _check_secrets(vertex)
        job = self.reads_and_writes()
        check_overlaps(job, others, is_rendered=True)
        sinks = find_targets(job.sinks, access)
        pinned = pin_sources(job.sources, access, folder)
        tables = {name: sink for name, sink in sinks.items() if isinstance(sink, TargetTable)}
        pins = {name: source for name, source in pinned.items() if isinstance(source, Pin)}
        check_tables(job, tables, pins)
        sources = take(pinned)
        return {
            each.name: VertexProgram(each, self.transforms[each.name], sources.get(each.name), sinks.get(each.name))
            for each in vertices
        }


def _check_secrets(vertex: DeclaredVertex) -> None:
    from airflow_abs.hooks.secrets import check_no_secrets

    check_no_secrets(vertex.name, "transform_kwargs", vertex.transform_kwargs, by_name=False)
    check_no_secrets(vertex.name, "arguments", {"sql": vertex.sql}, by_name=False)
    check_no_secrets(vertex.name, "spark_conf", vertex.options.spark_conf, by_name=True)
    for which, entry in (("source", vertex.source or {}), ("sink", vertex.sink or {})):
        check_no_secrets(vertex.name, f"{which}'s options", entry.get("options", {}), by_name=True)
        texts = {argument: entry.get(argument) for argument in ("where", "query")}
        check_no_secrets(vertex.name, f"{which}'s arguments", texts, by_name=False)


def _data_interval(context: Context) -> tuple[str, str] | None:
    """In ISO form; None for runs without one."""
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    return (start.isoformat(), end.isoformat()) if start is not None and end is not None else None


def _is_over(context: Context, run_id: str) -> bool:
    """Whether a run of this DAG has ended, or was deleted."""
    instance = context["ti"]
    return instance.get_dr_count(instance.dag_id, run_ids=[run_id], states=["queued", "running"]) == 0


def _describe(graph: JobGraph) -> str:
    """Documentation of the task in the UI."""
    regions = "\n".join(
        f"* **{' → '.join(region.vertices)}**"
        + (f" reads {', '.join(map(str, region.inputs))}" if region.inputs else "")
        for region in graph.regions
    )
    return (
        "Calls every transform once, on empty DataFrames, and stores the Spark plans: wrong columns, missing paths and "
        "an exchange that cannot be reached fail here, before any data moves. The only task that runs code of the "
        f"DAG's author.\n\nEach of these becomes a decision and its subtasks:\n\n{regions}"
    )
