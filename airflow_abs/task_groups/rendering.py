"""From declared vertices to Airflow tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, TaskGroup

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobGraph, Region, build_job_graph
from airflow_abs.core.slots.admission import Admission
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.storage.uris import without_connection
from airflow_abs.hooks.ephemeral import Ephemeral
from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator
from airflow_abs.operators.commit import CommitOperator
from airflow_abs.operators.decide import DecideOperator
from airflow_abs.operators.plan import PlanOperator
from airflow_abs.operators.release import ReleaseOperator
from airflow_abs.operators.restart_policy import HeadPolicy, RestartPolicy
from airflow_abs.operators.restart_strategy import DEFAULT, RestartStrategy
from airflow_abs.operators.run_server import StartServerOperator, StopServerOperator
from airflow_abs.operators.run_subtask import RunSubtaskOperator, describe_region
from airflow_abs.settings import JobSettings
from airflow_abs.task_groups.trigger_start import LIMITS, check_arguments, decide_from_trigger, run_from_trigger

_HEAD_RETRIES = 3
_RETRY_DELAY = timedelta(seconds=10)
"""After the end of a worker that no retry policy saw."""

_MAP_INDEX_TEMPLATE = "{{ task.subtask['label'] }}"
_TEMPLATED = re.compile(r"\{\{|\{%")


def render_job(
    group: TaskGroup,
    settings: JobSettings,
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
    graph = build_job_graph(
        [vertex.to_vertex() for vertex in declared],
        [edge for vertex in declared for edge in vertex.to_edges()],
        settings.max_parallelism,
    )
    _check_edges_stay_inside(declared)
    _check_map_length(graph)
    by_name = {vertex.task_id: vertex for vertex in declared}
    rendering = _Rendering(group, settings, conn_id, graph, by_name, restart_strategy, server)
    rendering.add_plan()
    for region in graph.regions:
        rendering.add_region(region)
    if server is not None:
        rendering.add_server(server)
    rendering.add_release()
    return graph


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


def _check_map_length(graph: JobGraph) -> None:
    from airflow.sdk.configuration import conf

    limit = conf.getint("core", "max_map_length", fallback=1024)
    for region in graph.regions:
        if region.subpartitions > limit:
            raise JobGraphError(
                f"vertex {region.name!r}: max_parallelism {region.subpartitions} exceeds Airflow's [core] "
                "max_map_length "
                f"{limit}; lower it or raise the limit"
            )


@dataclass(slots=True)
class _Rendering:
    """Tasks of one job so far, by region."""

    group: TaskGroup
    settings: JobSettings
    conn_id: str
    graph: JobGraph
    declared: Mapping[str, AdaptiveSparkOperator]
    restart_strategy: RestartStrategy
    server: Ephemeral | None
    plan: Any = None
    run: dict[str, Any] = field(default_factory=dict)
    others: list[Any] = field(default_factory=list)

    @property
    def common(self) -> dict[str, Any]:
        return {
            "exchange": self.settings.exchange,
            "job": self.group.group_id,
            "conn_id": self.conn_id,
            "ephemeral": self.server is not None,
        }

    @property
    def head(self) -> dict[str, Any]:
        """Arguments of the tasks that are not subtasks: a worker that is killed must not fail the run."""
        given = self._given({})
        defaults = {"retries": _HEAD_RETRIES, "retry_delay": _RETRY_DELAY, "retry_policy": HeadPolicy()}
        return {**self.common, **{key: value for key, value in defaults.items() if key not in given}}

    def add_plan(self) -> None:
        vertices = [self.declared[vertex.name] for vertex in self.graph.vertices]
        self.plan = PlanOperator(
            task_id="plan",
            graph=self.graph,
            transforms={vertex.task_id: vertex.transform for vertex in vertices},
            sources={vertex.task_id: vertex.source.to_json() for vertex in vertices if vertex.source},
            sinks={vertex.task_id: vertex.sink.to_json() for vertex in vertices if vertex.sink},
            transform_kwargs={
                vertex.task_id: vertex.transform_kwargs for vertex in vertices if vertex.transform_kwargs
            },
            joins={vertex.task_id: vertex.join for vertex in vertices if vertex.join},
            options={
                **self.settings.options(),
                "nondeterministic": [vertex.task_id for vertex in vertices if not vertex.deterministic],
            },
            **self.head,
        )
        self.others.append(self.plan)

    def add_region(self, region: Region) -> None:
        producers = {other.name: self.run[other.name] for other in self.graph.producer_regions(region)}
        arguments = self._task_arguments(region)
        with TaskGroup(group_id=region.name, group_display_name=" → ".join(region.vertices)):
            decide = DecideOperator(
                task_id="decide",
                region=region.name,
                producers={name: task.task_id for name, task in producers.items()},
                reports={other.name: self.run[other.name].task_id for other in self.graph.regions_before(region)},
                admission=self._admission(arguments),
                **self.head,
            )
            if self.settings.start_from_trigger:
                decide_from_trigger(decide)
            run = self._add_run(region, decide, arguments)
            self.plan >> decide
            for producer in producers.values():
                producer >> [decide, run]
            self.run[region.name] = run
            self.others += [decide, run]
            if any(self.declared[vertex].sink for vertex in region.vertices):
                self._add_commit(region, run)

    def _add_run(self, region: Region, decide: DecideOperator, arguments: dict[str, Any]) -> Any:
        starts_in_triggerer = self.settings.start_from_trigger
        limit = self._given(arguments).get("execution_timeout")
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
            **(shown | arguments | ({"execution_timeout": None} if starts_in_triggerer else {})),
            **self.common,
        ).expand_kwargs(decide.output)
        if starts_in_triggerer:
            run_from_trigger(run, self.settings, self.common, limit)
        return run

    def add_server(self, server: Ephemeral) -> None:
        """Every task that talks to Spark comes directly after the setup: Airflow then clears that with it, and the task
        waits for it."""
        start = StartServerOperator(task_id="start_server", server=server, **self.head)
        stop = StopServerOperator(task_id="stop_server", server=server, **self.head)
        start >> [self.plan, *self.run.values()]
        self.others >> stop.as_teardown(setups=start)
        self.others.append(stop)

    def add_release(self) -> None:
        """Not a teardown of `start_server`: it comes also when that has failed, and ends what is left of it then."""
        task_ids = [task.task_id for task in self.others if not task.is_teardown]
        release = ReleaseOperator(task_id="release", task_ids=task_ids, server=self.server, **self.head)
        self.others >> release.as_teardown()

    def _add_commit(self, region: Region, run: Any) -> None:
        outlets = [asset for vertex in region.vertices if (asset := sink_asset(self.declared[vertex].sink))]
        commit = CommitOperator(task_id="commit", region=region.name, outlets=outlets, **self.head)
        run >> commit
        self.others.append(commit)

    def _task_arguments(self, region: Region) -> dict[str, Any]:
        """The authors' Airflow arguments of all vertices of the region: they are one task."""
        merged: dict[str, Any] = {}
        for name in region.vertices:
            if self.settings.start_from_trigger:
                check_arguments(name, self.declared[name].task_kwargs)
            for key, value in self.declared[name].task_kwargs.items():
                if key in merged and merged[key] != value:
                    raise JobGraphError(
                        f"vertex {name!r}: {key}={value!r} contradicts {key}={merged[key]!r} of another "
                        "vertex of region "
                        f"{region.name!r}, and they are one Airflow task; set it once"
                    )
                merged[key] = value
        given = self._given(merged)
        defaults = {
            "retries": self.restart_strategy.retries,
            "retry_delay": _RETRY_DELAY,
            "retry_policy": RestartPolicy(self.restart_strategy),
        }
        return {**{key: value for key, value in defaults.items() if key not in given}, **merged}

    def _admission(self, arguments: Mapping[str, Any]) -> Admission:
        if self.settings.start_from_trigger or any(name in self._given(arguments) for name in LIMITS):
            return Admission.BOUND
        return Admission.QUEUE if self.settings.deferrable else Admission.FREE

    def _given(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.group.dag.default_args, **self.group.default_args, **arguments}


def sink_asset(sink: Files | None) -> Asset | None:
    """The asset of a sink: its path up to the first folder that is templated, the same for every run of the DAG."""
    if sink is None:
        return None
    fixed = _TEMPLATED.split(sink.path, maxsplit=1)[0]
    folder = fixed if fixed == sink.path else fixed.rpartition("/")[0]
    uri = without_connection(folder) if "://" in folder else f"file://{folder}"
    return Asset(uri.rstrip("/")) if folder.strip("/") else None
