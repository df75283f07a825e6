"""`run_locally`: a declared job from its plan to its commits, on an embedded Spark server or one that is given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from airflow_abs.core.errors import JobGraphError

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_abs.core.decide.region_decision import RegionDecision
    from airflow_abs.core.expect.verdicts import Verdict
    from airflow_abs.exchange.paths import JobFolder
    from airflow_abs.exchange.records.plan import JobPlan
    from airflow_abs.operators.plan import PlanOperator
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint
    from airflow_abs.tables.access import TableAccess
    from airflow_abs.task_groups.adaptive_spark import AdaptiveSparkJob
    from airflow_abs.testing.job_run import JobRun


@dataclass(frozen=True, slots=True)
class VertexRun:
    """The rows of a vertex over all its subtasks, the decision with its reason, and the results of its expectations by
    name."""

    rows: pa.Table
    decision: RegionDecision
    expectations: Mapping[str, Verdict]


@dataclass(frozen=True, slots=True)
class LocalRun(Mapping[str, VertexRun]):
    """The vertices of a run by name."""

    vertices: Mapping[str, VertexRun]

    def __getitem__(self, vertex: str) -> VertexRun:
        return self.vertices[vertex]

    def __iter__(self) -> Iterator[str]:
        return iter(self.vertices)

    def __len__(self) -> int:
        return len(self.vertices)


def run_locally(
    job: AdaptiveSparkJob | PlanOperator,
    parallelism: int | None = 4,
    inputs: Mapping[str, pa.Table | Sequence[Mapping[str, Any]]] | None = None,
    *,
    endpoint: ConnectEndpoint | None = None,
    logical_date: datetime | str | None = None,
    context: Mapping[str, Any] | None = None,
    check_sinks: bool = False,
) -> LocalRun:
    """Plan, decide, run and commit a job as Airflow would, and return the rows of every vertex.

    The exchange and the sinks are temporary folders. Only the embedded server stays up after the call, for later ones.

    Args:
        job: the job as declared in a DAG, or its `plan` task.
        parallelism: subtasks of every vertex that can be distributed; None decides from bytes, which means one for
            small tables.
        inputs: rows to use instead of a vertex's source, as a table or as dicts; with `Files(schema=...)` they get its
            types. Other sources are read.
        endpoint: a Spark Connect server on this host; by default the embedded one.
        logical_date: for templates, such as ``"2026-01-03"``; dates and data interval are as in `airflow dags test`.
        context: further variables for templates.
        check_sinks: True to compare the columns of sinks with the real tables, as `plan` does. This needs their
            connections, such as ``AIRFLOW_CONN_LAKE``, and publishes nothing.

    Raises:
        JobGraphError: the job cannot be planned, `inputs` does not fit it, or a sink has other columns.
        TableError: a table cannot be reached.
        ExpectationError: rows fail an expectation of a vertex.
        SparkOperationError, ExchangeError: as in a subtask or a commit.
    """
    return _run_each(job, [parallelism], inputs, endpoint, logical_date, context, check_sinks)[0]


def assert_same_at_any_parallelism(
    job: AdaptiveSparkJob | PlanOperator,
    parallelisms: Sequence[int] = (1, 2, 7),
    inputs: Mapping[str, pa.Table | Sequence[Mapping[str, Any]]] | None = None,
    *,
    endpoint: ConnectEndpoint | None = None,
    logical_date: datetime | str | None = None,
    context: Mapping[str, Any] | None = None,
    check_sinks: bool = False,
) -> None:
    """Run a job with different numbers of subtasks, and compare the rows of every vertex, in any order.

    Arguments and errors as in `run_locally`; the job is planned once.

    Raises:
        AssertionError: names the vertex, the two numbers and some of the rows that differ.
    """
    from airflow_abs.testing.rows import describe_difference

    if len(parallelisms) < 2:
        raise ValueError(f"parallelisms is {parallelisms!r}; expected at least two numbers to compare, such as (1, 7)")
    first, *others = _run_each(job, parallelisms, inputs, endpoint, logical_date, context, check_sinks)
    for parallelism, run in zip(parallelisms[1:], others, strict=True):
        for name, vertex in run.items():
            difference = describe_difference(vertex.rows, first[name].rows)
            if difference is not None:
                raise AssertionError(
                    f"vertex {name!r}: its rows at parallelism {parallelism} are not those at {parallelisms[0]}: "
                    f"{difference}"
                )


def _run_each(
    job: AdaptiveSparkJob | PlanOperator,
    parallelisms: Sequence[int | None],
    inputs: Mapping[str, Any] | None,
    endpoint: ConnectEndpoint | None,
    logical_date: datetime | str | None,
    further: Mapping[str, Any] | None,
    check_sinks: bool,
) -> list[LocalRun]:
    from airflow_abs.spark.connect.session import open_session

    task = _plan_task(job)
    context = _context(task.dag, logical_date, further)
    with TemporaryDirectory(prefix="airflow-abs-") as name:
        server = endpoint or embedded_endpoint()
        with open_session(server) as session:
            planned = _plan(task, Path(name), session, server, inputs or {}, context, spread=None not in parallelisms)
            if check_sinks:
                _check_sinks(task, planned.plan, session, context)
            runs = []
            for number, parallelism in enumerate(parallelisms):
                run = planned
                if parallelism is not None:
                    run = planned.at_parallelism(f"run-{number}-of-{parallelism}", parallelism)
                runs.append(run_to_end(run, session))
            return runs


def _plan_task(job: Any) -> PlanOperator:
    from airflow_abs.operators.plan import PlanOperator

    if isinstance(job, PlanOperator):
        return job
    found = [task for task in getattr(job, "children", {}).values() if isinstance(task, PlanOperator)]
    if len(found) != 1:
        raise JobGraphError(
            f"{job!r} has no plan task; expected an AdaptiveSparkJob whose `with` block is closed, or its plan task"
        )
    return found[0]


def embedded_endpoint() -> ConnectEndpoint:
    from airflow_abs.hooks.adaptive_spark import embedded_folder
    from airflow_abs.spark.server.embedded import ensure_embedded_server

    return ensure_embedded_server(embedded_folder())


def _context(dag: Any, logical_date: datetime | str | None, further: Mapping[str, Any] | None) -> dict[str, Any]:
    """The variables of Airflow's templates that a date gives, as `DAG.test` has them."""
    from airflow.sdk.execution_time.context import MacrosAccessor
    from airflow.sdk.timezone import coerce_datetime, convert_to_utc

    from airflow_abs.airflow_abilities import core_timetable, integrate_macros_plugins

    integrate_macros_plugins()
    context: dict[str, Any] = {"dag": dag, "macros": MacrosAccessor(), "params": {}}
    if logical_date is not None:
        given = _parse_date(logical_date) if isinstance(logical_date, str) else logical_date
        date = convert_to_utc(coerce_datetime(given))
        interval = core_timetable(dag.timetable).infer_manual_data_interval(run_after=date)
        day = date.strftime("%Y-%m-%d")
        context |= {
            "logical_date": date,
            "data_interval_start": interval.start,
            "data_interval_end": interval.end,
            "ds": day,
            "ds_nodash": day.replace("-", ""),
            "ts": date.isoformat(),
        }
    return context | dict(further or {})


def _parse_date(text: str) -> datetime:
    from airflow.sdk.timezone import parse

    try:
        return parse(text)
    except ValueError as error:
        raise JobGraphError(
            f"logical_date is {text!r}; expected a date such as '2026-01-03' or '2026-01-03T06:00:00+01:00'"
        ) from error


def _plan(
    task: PlanOperator,
    folder: Path,
    session: Any,
    endpoint: ConnectEndpoint,
    inputs: Mapping[str, Any],
    context: Mapping[str, Any],
    *,
    spread: bool,
) -> JobRun:
    from airflow_abs.core.graph.job_graph import build_job_graph
    from airflow_abs.exchange.paths import JobFolder
    from airflow_abs.exchange.sources.files import Files
    from airflow_abs.hooks.catalogs import table_access
    from airflow_abs.spark.catalog.session_catalog import SessionCatalog
    from airflow_abs.spark.compile.vertices import is_materialised
    from airflow_abs.testing.job_run import JobRun
    from airflow_abs.testing.tables import write_inputs

    declared = {each.name: each.source for each in task.declared if each.source is not None}
    sources = write_inputs(session, folder / "inputs", declared, inputs)
    run = JobFolder(folder / "exchange", task.dag_id, "planned", task.job)
    access = table_access(lambda: nullcontext(SessionCatalog(session)))
    programs = _programs(task, run, sources, folder / "sinks", context, access)
    for name, program in programs.items():  # a test may look at every column of a step
        options = replace(program.options, edge_columns="all")
        programs[name] = replace(program, declared=replace(program.declared, options=options))
    passed_on = {vertex.name for vertex in task.graph.vertices if not is_materialised(task.graph, vertex.name)}
    for name in passed_on:  # their rows would stay inside Spark: they are written besides
        programs[name] = replace(programs[name], sink=Files(str(folder / "sinks" / name)))
    vertices = [replace(each, has_sink=each.has_sink or each.name in passed_on) for each in task.graph.vertices]
    even = task.options.strategy == "power_of_two"
    graph = build_job_graph(vertices, task.graph.edges, task.options.max_parallelism, equal_ranges=even)
    options = replace(task.options, durability="always", share_tasks=False) if spread else task.options
    return JobRun.planned(endpoint, run, graph, programs, options)


def _programs(
    task: PlanOperator,
    run: JobFolder,
    sources: Mapping[str, Any],
    sinks: Path,
    context: Mapping[str, Any],
    access: TableAccess,
) -> dict[str, Any]:
    """The task's own programs, rendered, with sinks below a folder of ours, and some sources replaced."""

    def vertex(declared: Mapping[str, Any]) -> dict[str, Any]:
        name, sink = declared["name"], declared["sink"]
        own = {**declared, "source": None} if name in sources else declared
        rendered = _render(task, {**own, "sink": sink and _sink_in(sink, sinks / name)}, context)
        return {**rendered, "source": sources.get(name, rendered["source"])}

    copy = task.prepare_for_execution()
    copy.vertices = [vertex(each) for each in task.vertices]
    programs: dict[str, Any] = copy._programs(run, access)
    return programs


def _sink_in(value: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The sink with a folder of ours as its place; a table's rows become plain files."""
    from airflow_abs.tables.kinds import FILES

    own = value if value["kind"] == FILES else {"kind": FILES}
    return {**own, "path": str(folder), "mode": "overwrite"}


def _check_sinks(task: PlanOperator, plan: JobPlan, session: Any, context: Mapping[str, Any]) -> None:
    """The columns of each vertex that publishes to a table fit into it; errors as `run_locally`."""
    from pyspark.sql.types import StructType

    from airflow_abs.exchange.publish.target_table import TargetTable
    from airflow_abs.hooks.catalogs import table_access
    from airflow_abs.spark.catalog.session_catalog import SessionCatalog
    from airflow_abs.spark.compile.table_rows import check_columns_fit
    from airflow_abs.tables.declared import find_targets, read_declared
    from airflow_abs.tables.kinds import FILES

    sinks = {each["name"]: each["sink"] for each in task.vertices if each["sink"] and each["sink"]["kind"] != FILES}
    tables = {name: read_declared(_render(task, sink, context)) for name, sink in sinks.items()}
    targets = find_targets(tables, table_access(lambda: nullcontext(SessionCatalog(session))))
    schemas = {step.result: step.schema for region in plan.regions for step in region.steps}
    for name, target in targets.items():
        if isinstance(target, TargetTable):
            check_columns_fit(name, StructType.fromJson(json.loads(schemas[f"{name}.sink"])), target)


def _render(task: PlanOperator, value: Any, context: Mapping[str, Any]) -> Any:
    from jinja2 import UndefinedError

    from airflow_abs.airflow_abilities import AirflowFailException

    try:
        return task.render_template(value, dict(context))  # type: ignore[arg-type]
    except (UndefinedError, AirflowFailException) as error:
        raise JobGraphError(
            f"job {task.job!r}: a template needs a variable that it does not have here ({error}); give run_locally a "
            "logical_date, or the variable in context={...}"
        ) from error


def run_to_end(run: JobRun, session: Any) -> LocalRun:
    """Run and commit what is planned; errors as `run_locally`."""
    from airflow_abs.spark.run.attempt import release_sessions

    failed = asyncio.run(run.run_regions())
    try:
        for error in failed.values():
            raise error
        run.commit()
        verdicts: dict[str, dict[str, Verdict]] = {}
        for each in run.verdicts:
            verdicts.setdefault(each.vertex, {})[each.expectation.name] = each
        return LocalRun(
            {name: VertexRun(*found, verdicts.get(name, {})) for name, found in run.read_vertices(session).items()}
        )
    finally:
        asyncio.run(release_sessions(run.endpoint, run.folder))
