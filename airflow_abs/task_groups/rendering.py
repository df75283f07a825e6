"""From declared vertices to Airflow tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow.sdk import TaskGroup

from airflow_abs.airflow_abilities import START_IN_TRIGGERER, has
from airflow_abs.core.durability.demands import check_kept_inside
from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobGraph, Region, build_job_graph
from airflow_abs.core.incremental.reach import check_incremental_source
from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.records.declared_vertex import DeclaredVertex, find_declared_demands
from airflow_abs.exchange.sources.files import Files
from airflow_abs.hooks.ephemeral import Ephemeral
from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator
from airflow_abs.operators.commit import CommitOperator
from airflow_abs.operators.decide import DecideOperator
from airflow_abs.operators.ordering import TOLERANT, resolve_order
from airflow_abs.operators.plan import PlanOperator
from airflow_abs.operators.release import ReleaseOperator
from airflow_abs.operators.run_server import StartServerOperator, StopServerOperator
from airflow_abs.operators.run_subtask import RunSubtaskOperator, describe_region
from airflow_abs.restart_strategy import DEFAULT, RestartStrategy
from airflow_abs.tables.kinds import CATALOG
from airflow_abs.tables.overlaps import check_overlaps
from airflow_abs.task_groups.declared_vertices import declare_vertices
from airflow_abs.task_groups.task_arguments import TaskArguments
from airflow_abs.task_groups.trigger_start import decide_from_trigger, run_from_trigger

_OWN_TASKS = ("plan", "release", "start_server", "stop_server")
_MAP_INDEX_TEMPLATE = "{{ task.subtask['label'] }}"


def render_job(
    group: TaskGroup,
    settings: JobSettings,
    exchange: str,
    conn_id: str,
    declared: Sequence[AdaptiveSparkOperator],
    restart_strategy: RestartStrategy = DEFAULT,
    server: Ephemeral | None = None,
) -> JobGraph:
    """Check the declared graph and create its tasks in the open task group.

    plan -> per region: decide -> run[k] (-> commit); producers' run -> both decide and run; everything -> release.
    With a server of its own: start_server -> plan and every run; everything -> stop_server -> release.

    Raises:
        JobGraphError: the graph cannot be run; see `build_job_graph`.
    """
    if ignored := settings.start_from_trigger and not has(START_IN_TRIGGERER):
        settings = replace(settings, start_from_trigger=False)
    for vertex in declared:
        vertex.read_sql_file(group.dag)
    graph = build_job_graph(
        [vertex.to_declared().to_vertex() for vertex in declared],
        [edge for vertex in declared for edge in vertex.to_edges()],
        settings.max_parallelism,
        equal_ranges=settings.strategy == "power_of_two",
    )
    _check_edges_stay_inside(declared)
    _check_names(graph)
    by_name = {vertex.task_id: vertex for vertex in declared}
    _check_incremental(graph, by_name)
    vertices = declare_vertices(graph, by_name, settings.spark_conf)
    check_kept_inside(graph, find_declared_demands(vertices))
    rendering = _Rendering(
        graph,
        TaskArguments(group, settings, by_name, restart_strategy),
        exchange,
        conn_id,
        server,
        {each.name: each.declaration for each in vertices},
    )
    rendering.add_plan(vertices, replace(settings, py_files=py_file_paths(group, settings.py_files)))
    rendering.plan.ignored_start = ignored
    check_overlaps(rendering.plan.reads_and_writes(), rendering.plan.jobs_besides())
    for region in graph.regions:
        rendering.add_region(region)
    if server is not None:
        rendering.add_server(server)
    rendering.add_release()
    rendering.order()
    _check_log_names([group.dag.dag_id, *(task.task_id for task in rendering.others)])
    return graph


def py_file_paths(group: TaskGroup, py_files: Sequence[str]) -> list[str]:
    """Where they lie: what is relative, below the DAG file's folder."""
    beside = Path(group.dag.fileloc).parent
    return [path if "://" in path else str(beside / path) for path in py_files]


def _check_edges_stay_inside(declared: Sequence[AdaptiveSparkOperator]) -> None:
    own = {id(vertex) for vertex in declared}
    for vertex in declared:
        for name, edge in vertex.inputs.items():
            if id(edge.producer) not in own:
                raise JobGraphError(
                    f"vertex {vertex.task_id!r}: input {name!r} comes from {edge.producer.task_id!r} of "
                    "another job; read "
                    "that job's sink with Files(...) instead"
                )


def _check_names(graph: JobGraph) -> None:
    for vertex in graph.vertices:
        if vertex.name in _OWN_TASKS:
            raise JobGraphError(
                f"vertex {vertex.name!r}: a task of the job itself has this id ({', '.join(_OWN_TASKS)}); choose "
                "another task_id"
            )


_LONGEST_ID = 255 - len("task_id=")
"""In bytes: a file system takes 255 in a name, and Airflow names the folders of its logs `task_id=...`."""


def _check_log_names(ids: Iterable[str]) -> None:
    for each in ids:
        if (size := len(each.encode())) > _LONGEST_ID:
            raise JobGraphError(
                f"{each[:40]}...: the id has {size} bytes; expected at most {_LONGEST_ID}, or Airflow cannot make the "
                "folder of its log, and the task fails without one. Shorten the id of the vertex, of the job or of "
                "the group around it"
            )


def _check_incremental(graph: JobGraph, declared: Mapping[str, AdaptiveSparkOperator]) -> None:
    modes = {name: vertex.sink.mode for name, vertex in declared.items() if vertex.sink is not None}
    for name, vertex in declared.items():
        if isinstance(vertex.sink, Files) and vertex.sink.incremental:
            raise JobGraphError(
                f"vertex {name!r}: its sink is declared incremental, which only a source can be; drop it from the sink"
            )
        if isinstance(vertex.source, Files) and vertex.source.incremental:
            check_incremental_source(graph, name, modes)


@dataclass(slots=True)
class _Rendering:
    """Tasks of one job so far, by region."""

    graph: JobGraph
    arguments: TaskArguments
    exchange: str
    conn_id: str
    server: Ephemeral | None
    declarations: Mapping[str, str]
    plan: Any = None
    decide: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    commit: dict[str, Any] = field(default_factory=dict)
    others: list[Any] = field(default_factory=list)

    @property
    def declared(self) -> Mapping[str, AdaptiveSparkOperator]:
        return self.arguments.declared

    @property
    def settings(self) -> JobSettings:
        return self.arguments.settings

    @property
    def common(self) -> dict[str, Any]:
        return {
            "exchange": self.exchange,
            "job": self.arguments.group.group_id,
            "conn_id": self.conn_id,
            "ephemeral": self.server is not None,
        }

    @property
    def unmapped(self) -> dict[str, Any]:
        """Arguments of the tasks that are not subtasks."""
        return self.common | self.arguments.of_unmapped()

    def add_plan(self, vertices: Sequence[DeclaredVertex], options: JobSettings) -> None:
        self.plan = PlanOperator(
            task_id="plan",
            graph=self.graph,
            vertices=[vertex.to_json() for vertex in vertices],
            transforms={vertex.name: self.declared[vertex.name].transform for vertex in vertices},
            options=options,
            **self.unmapped,
        )
        self.others.append(self.plan)

    def add_region(self, region: Region) -> None:
        producers = {other.name: self.run[other.name] for other in self.graph.producer_regions(region)}
        arguments = self.arguments.of_region(region)
        with TaskGroup(group_id=region.name, group_display_name=" → ".join(region.vertices)):
            decide = DecideOperator(
                task_id="decide",
                region=region.name,
                producers={name: task.task_id for name, task in producers.items()},
                reports={other.name: self.run[other.name].task_id for other in self.graph.regions_before(region)},
                admission=self.arguments.admission(arguments),
                table_kinds=self.arguments.table_kinds("source"),
                declarations=self._declarations_up_to(region),
                **self.unmapped,
            )
            if self.settings.start_from_trigger:
                decide_from_trigger(decide)
            run = self._add_run(region, decide, arguments)
            self.plan >> decide
            for producer in producers.values():
                producer >> [decide, run]
            self.run[region.name] = run
            self.decide[region.name] = decide
            self.others += [decide, run]
            self._add_commit(region, run)

    def _add_run(self, region: Region, decide: DecideOperator, arguments: dict[str, Any]) -> Any:
        starts_in_triggerer = self.settings.start_from_trigger
        limit = self.arguments.with_defaults(arguments).get("execution_timeout")
        shown = {
            "map_index_template": _MAP_INDEX_TEMPLATE,
            "task_display_name": f"run {region.name}",
            "doc_md": describe_region(region),
        }
        run = RunSubtaskOperator.partial(
            task_id="run",
            region=region.name,
            deferrable=self.settings.deferrable,
            defer_after=self.settings.defer_after,
            stall_after=self.settings.stall_after,
            slot_options=self.settings.slot_options(),
            declarations=self._declarations_up_to(region),
            **(shown | arguments | ({"execution_timeout": None} if starts_in_triggerer else {})),
            do_xcom_push=True,
            **self.common,
        ).expand_kwargs(decide.output)
        if starts_in_triggerer:
            run_from_trigger(run, self.settings, self.common, limit)
        return run

    def add_server(self, server: Ephemeral) -> None:
        """Every task that talks to Spark comes directly after the setup: Airflow then clears that with it, and the task
        waits for it."""
        start = StartServerOperator(task_id="start_server", server=server, **self.unmapped)
        stop = StopServerOperator(task_id="stop_server", server=server, **self.unmapped)
        commits = [commit for commit in self.commit.values() if CATALOG in commit.table_kinds]
        start >> [self.plan, *self.run.values(), *commits]
        self.others >> stop.as_teardown(setups=start)
        self.others.append(stop)

    def add_release(self) -> None:
        """Not a teardown of `start_server`: it comes also when that has failed, and ends what is left of it then."""
        task_ids = [task.task_id for task in self.others if not task.is_teardown]
        release = ReleaseOperator(task_id="release", task_ids=task_ids, server=self.server, **self.unmapped)
        self.others >> release.as_teardown()

    def _declarations_up_to(self, region: Region) -> dict[str, str]:
        """Of its vertices, and of all before them."""
        regions = [*self.graph.regions_before(region), region]
        return {name: self.declarations[name] for each in regions for name in each.vertices}

    def _add_commit(self, region: Region, run: Any) -> None:
        """If the region has a sink, or expectations. Assets that an author names belong to what is published, not to a
        subtask."""
        outlets, inlets = self.arguments.assets_of(region)
        if not any(self.graph.vertex(vertex).is_gate for vertex in region.vertices):
            return
        arguments = {
            "outlets": outlets,
            "inlets": inlets,
            "table_kinds": self.arguments.table_kinds("sink"),
            "declarations": self._declarations_up_to(region),
            **self.unmapped,
        }
        commit = CommitOperator(task_id="commit", region=region.name, **arguments)
        run >> commit
        self.commit[region.name] = commit
        self.others.append(commit)

    def order(self) -> None:
        """What authors said with `>>`: after it come the run, or the publication of a vertex that has a sink or
        expectations."""
        homes = [self.graph.region_of(name).name for name in self.declared]
        ends = [
            self.commit[home] if self.graph.vertex(name).is_gate else self.run[home]
            for home, name in zip(homes, self.declared, strict=True)
        ]
        tasks = list(zip((self.decide[home] for home in homes), ends, strict=True))
        resolve_order(list(self.declared.values()), tasks, self.plan)
        if self.server is None:  # no task that directly follows a setup may have another trigger rule
            self._tolerate_skipped()

    def _tolerate_skipped(self) -> None:
        """Let `plan` skip what runs inside other regions.

        Not behind an author's own task: that may be skipped, too, and the vertices with it.
        """
        own = {task.task_id for task in self.others}
        alone = {name for name, decide in self.decide.items() if decide.upstream_task_ids <= own}
        for region in self.graph.regions:
            before = {other.name for other in self.graph.regions_before(region)}
            declared = self.arguments.with_defaults(self.arguments.of_region(region))
            if before and before | {region.name} <= alone and "trigger_rule" not in declared:
                self.decide[region.name].trigger_rule = TOLERANT
                self.run[region.name].trigger_rule = TOLERANT
        self.plan.tasks_of_regions = {
            region: (decide.task_id, self.run[region].task_id) for region, decide in self.decide.items()
        }
