"""Airflow's arguments of a job's tasks: what its author gave to vertices, job and DAG, and our defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from airflow.sdk import Asset, TaskGroup

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import Region
from airflow_abs.core.settings import JobSettings
from airflow_abs.core.slots.admission import Admission
from airflow_abs.exchange.sources.files import Files
from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator
from airflow_abs.operators.restart_policy import RestartPolicy, TransientErrorPolicy
from airflow_abs.restart_strategy import RestartStrategy
from airflow_abs.tables.kinds import FILES, kind_of
from airflow_abs.tables.sink import TableSink
from airflow_abs.task_groups.trigger_start import LIMITS, check_arguments

_UNMAPPED_RETRIES = 8
"""With the waits of `TransientErrorPolicy` they outlast six minutes without a Spark server: two slow restarts."""
_RETRY_DELAY = timedelta(seconds=10)
"""After the end of a worker that no retry policy saw."""

OF_SINKS = ("outlets", "inlets")
"""Airflow's arguments that belong to the task that publishes: a subtask publishes nothing."""


@dataclass(frozen=True, slots=True)
class TaskArguments:
    """What each task of a job is given. All vertices of a region are one task."""

    group: TaskGroup
    settings: JobSettings
    declared: Mapping[str, AdaptiveSparkOperator]
    restart_strategy: RestartStrategy

    def of_unmapped(self) -> dict[str, Any]:
        """Of the tasks that are not subtasks: a worker that is killed must not fail the run."""
        given = self.with_defaults({})
        defaults = {"retries": _UNMAPPED_RETRIES, "retry_delay": _RETRY_DELAY, "retry_policy": TransientErrorPolicy()}
        # Bytes and ranges travel as XComs, whatever `default_args` say.
        return {"do_xcom_push": True, **{key: value for key, value in defaults.items() if key not in given}}

    def of_region(self, region: Region) -> dict[str, Any]:
        """The authors' Airflow arguments of all vertices of the region: they are one task."""
        merged: dict[str, Any] = {}
        for name in region.vertices:
            if self.settings.start_from_trigger:
                check_arguments(name, self.declared[name].task_kwargs)
            for key, value in self.declared[name].task_kwargs.items():
                if key in OF_SINKS:
                    continue
                if key == "do_xcom_push":
                    _check_xcom_push(name, value)
                    continue
                if key in merged and merged[key] != value:
                    raise JobGraphError(
                        f"vertex {name!r}: {key}={value!r} contradicts {key}={merged[key]!r} of another "
                        "vertex of region "
                        f"{region.name!r}, and they are one Airflow task; set it once"
                    )
                merged[key] = value
        given = self.with_defaults(merged)
        defaults = {
            "retries": self.restart_strategy.retries,
            "retry_delay": _RETRY_DELAY,
            "retry_policy": RestartPolicy(self.restart_strategy),
        }
        return {**{key: value for key, value in defaults.items() if key not in given}, **merged}

    def admission(self, arguments: Mapping[str, Any]) -> Admission:
        """What bounds how many subtasks are on Spark at once: the author's limits, or the slots."""
        if self.settings.start_from_trigger or any(name in self.with_defaults(arguments) for name in LIMITS):
            return Admission.BOUND
        return Admission.QUEUE if self.settings.deferrable else Admission.FREE

    def with_defaults(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What Airflow will use: `default_args` of the DAG and of the group, then the arguments themselves."""
        return {**self.group.dag.default_args, **self.group.default_args, **arguments}

    def assets_of(self, region: Region) -> tuple[list[Any], list[Any]]:
        """Outlets and inlets of what the region publishes: its sinks' own assets, and those that the author names.

        Raises:
            JobGraphError: some are given to a vertex that publishes nothing.
        """
        own = [asset for vertex in region.vertices if (asset := sink_asset(self.declared[vertex].sink))]
        outlets, inlets = (self._of_sinks(region, name) for name in OF_SINKS)
        return own + [outlet for outlet in outlets if outlet not in own], inlets

    def table_kinds(self, of: Literal["source", "sink"]) -> tuple[str, ...]:
        """Of all sources or sinks that are tables, in order; any region may read or publish those that run inside it on
        the day."""
        ends = [vertex.source if of == "source" else vertex.sink for vertex in self.declared.values()]
        return tuple(sorted({kind_of(end) for end in ends if end is not None} - {FILES}))

    def _of_sinks(self, region: Region, name: str) -> list[Any]:
        found: list[Any] = []
        for vertex in region.vertices:
            given = self.declared[vertex].task_kwargs.get(name) or []
            if given and self.declared[vertex].sink is None:
                raise JobGraphError(
                    f"vertex {vertex!r}: {name}= belongs to what is published, and it has no sink; give it a sink, or "
                    f"set {name} on a task after the job"
                )
            found += given if isinstance(given, (list, tuple)) else [given]
        return found


def _check_xcom_push(vertex: str, value: object) -> None:
    if not value:
        raise JobGraphError(
            f"vertex {vertex!r}: do_xcom_push=False is not supported: a subtask reports what it wrote as an XCom, "
            "which decides the fan-out of its readers; drop it"
        )


def sink_asset(sink: Files | TableSink | None) -> Asset | None:
    """The asset of a sink, the same for every run of the DAG."""
    return Asset(uri) if sink is not None and (uri := sink.asset_uri) else None
