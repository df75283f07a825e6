"""What the `plan` task does on the Spark side: check, compile, and hand back everything to be stored."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from airflow_abs.core.durability.prediction import NO_HISTORY, JobHistory
from airflow_abs.core.durability.row_order import RowOrder
from airflow_abs.core.durability.strange_day import usual_bytes
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.errors import ExchangeUnreachableError, SourceNotFoundError
from airflow_abs.exchange.incremental.new_files import NewFiles
from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.publish.publication import check_overwritten, check_target
from airflow_abs.exchange.py_files import store_py_files
from airflow_abs.exchange.records.declared_vertex import find_declared_demands
from airflow_abs.exchange.records.plan import (
    NO_FACTS,
    JobPlan,
    PlannedRegion,
    PlannedStep,
    RunFacts,
    declared_regions,
    number_plan,
)
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import write_pinned_files
from airflow_abs.exchange.sources.planned_source import PlannedSource, vertex_of
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import check_writable, write_atomic, write_json
from airflow_abs.spark.column_sources import find_column_sources
from airflow_abs.spark.compile.declared_joins import spreads_a_side
from airflow_abs.spark.compile.expectations import check_expectations
from airflow_abs.spark.compile.joined import join_vertices
from airflow_abs.spark.compile.sinks import check_layouts
from airflow_abs.spark.compile.steps import assign_results, plan_region
from airflow_abs.spark.compile.vertices import CompiledVertex, VertexProgram, compile_vertices
from airflow_abs.spark.durable_edges import DaysGraph, join_where_it_pays, order_rows
from airflow_abs.spark.inference.broadcasts import THRESHOLD, read_threshold
from airflow_abs.spark.inference.infer import infer_edges
from airflow_abs.spark.narrowing import combine_edges, narrow_vertices
from airflow_abs.spark.proof import Findings, Proof, prove_vertices
from airflow_abs.spark.pruning.joined_sources import find_joined_columns
from airflow_abs.spark.pruning.partitions import prune_sources
from airflow_abs.spark.relations import FILE_METADATA, UNLISTED_FOLDER
from airflow_abs.spark.row_bytes import estimate_row_bytes
from airflow_abs.spark.session_capacity import bounded_wait, read_slots
from airflow_abs.spark.template import may_shuffle
from airflow_abs.spark.transforms.py_files import with_py_files
from airflow_abs.spark.values import is_repeatable
from airflow_abs.tables.source import Pin, partition_columns, splits_of

log = logging.getLogger(__name__)

_Templated = tuple[PlannedRegion, list[bytes]]
"""A region, and the template of each of its steps."""


def plan_job(
    session: Any,
    folder: JobFolder,
    graph: JobGraph,
    programs: Mapping[str, VertexProgram],
    options: JobSettings,
    open_path: Callable[[str], ExchangePath],
    facts: RunFacts = NO_FACTS,
    history: JobHistory = NO_HISTORY,
) -> JobPlan:
    """Check both sides of the exchange, compile all regions, and store the plan: templates first, plan.json last.

    Regions are joined where it does not pay to write today, see `join_where_it_pays`, once they are proved for a day on
    which it does. The job's sources are compared with what `history` says of such days.

    Raises:
        ExchangeUnreachableError: Airflow or Spark cannot write there, or they do not see the same files.
        ResourcesError: Spark has no executor for the resource timeout.
        CommitError: the folder of a sink has other owners' files, see `check_target`, `check_overwritten`.
        SourceNotFoundError: a source matches nothing (with `durability="always"`, `decide` finds out).
        JobGraphError, AnalysisException: a vertex does not compile, see `compile_vertices`, or is wrong in parts and as
            one subtask, see `prove_vertices`.
    """
    check_writable(folder.path)
    for program in programs.values():
        if isinstance(program.sink, Files):
            target = open_path(program.sink.path)
            check_target(target)
            if program.sink.mode == "overwrite" and not program.sink.replace_foreign:
                check_overwritten(target)
    py_files = store_py_files(folder, options.py_files, open_path)
    now = datetime.now(UTC) if facts.began is None else datetime.fromtimestamp(facts.began, UTC)
    with with_py_files(session, folder, py_files):
        compiled: Mapping[str, CompiledVertex] = compile_vertices(session, graph, programs, now, open_path)
    check_expectations(session, compiled)
    check_layouts(compiled.values())
    findings = Findings(whole=None if options.unsplittable == "refuse" else {})
    with _meanwhile(
        partial(check_shared, session, folder, options.resource_timeout)
    ):  # not while transforms run: they may execute nothing
        graph, compiled = _infer(session, graph, compiled, programs, options, open_path, findings)
        proofs = prove_vertices(session, graph, compiled, _per_subtask(programs), options.min_parallelism, findings)
    graph = graph.with_single_subtask(_log_whole(findings))
    log_portions(proofs.values())
    _propose_pruning(graph, compiled, proofs.values(), programs, open_path)
    published = [name for name, program in programs.items() if program.sink is not None]
    column_sources = find_column_sources([each.name for each in graph.vertices], compiled, proofs, published)
    slots = options.slots or facts.slots or read_slots(session)
    declared = [program.declared for program in programs.values()]
    unrepeatable = find_declared_demands(declared, _find_unrepeatable(compiled)).nondeterministic
    compiled = _with_spreads(graph, compiled, proofs, unrepeatable)
    log_spreads(graph, compiled, programs)
    spread = _find_spread(compiled, session.conf.get(THRESHOLD))
    row_by_row = {name for name, vertex in compiled.items() if not may_shuffle(vertex.relation)}

    def list_today(source: PlannedSource) -> Sequence[SourceFile]:
        declared = programs[vertex_of(source.name)].source
        return splits_of(declared, open_path) if declared is not None else ()

    def plan_day(known: JobHistory) -> tuple[DaysGraph, list[_Templated]]:
        today = join_where_it_pays(
            graph,
            programs,
            options,
            open_path,
            slots=slots,
            unrepeatable=unrepeatable,
            history=known,
            row_bytes={name: estimate_row_bytes(vertex.schema) for name, vertex in compiled.items()},
        ).with_broadcast_joins(spread, row_by_row, options.target_bytes)
        separate = {name: vertex.with_edges(today.redistributed) for name, vertex in compiled.items()}
        return today, _cut_regions(session, today, separate, unrepeatable, list_today, _keep_all(programs), known)

    today, regions = _plan_by_alike_days(plan_day, history)
    _store_pinned_files(folder, today.graph, programs)
    for region, templates in regions:
        for number, template in enumerate(templates):
            write_atomic(folder.step_path(region.name, number), template)
    plan = JobPlan(
        id=uuid.uuid4().hex,
        regions=tuple(region for region, _ in regions),
        options=options,
        slots=slots,
        spark_version=session.version,
        fused=today.into,
        began=facts.began,
        usual=usual_bytes(history),
        edges=today.edges,
        predictions=today.predictions,
        mean_seconds=today.mean_seconds,
        py_files=py_files,
        vertices=tuple(each.as_recorded() for each in declared),
        data_interval=facts.data_interval,
        installation=facts.installation,
        former_jobs=facts.former_jobs,
        column_sources=column_sources,
    )
    plan = number_plan(folder, plan, time.time())
    write_json(folder.plan_path, plan.to_json())
    return plan


def _infer(
    session: Any,
    graph: JobGraph,
    compiled: Mapping[str, CompiledVertex],
    programs: Mapping[str, VertexProgram],
    options: JobSettings,
    open_path: Callable[[str], ExchangePath],
    findings: Findings,
) -> tuple[JobGraph, Mapping[str, CompiledVertex]]:
    """Name the edges that the author did not declare, see `infer_edges`, and log each with the reason."""

    @cache
    def source_bytes(vertex: str) -> int | None:
        source = programs[vertex].source
        try:
            return sum(split.bytes for split in splits_of(source, open_path)) if source is not None else 0
        except SourceNotFoundError:  # the decision says so, if it is not there by then
            return None

    joins = [name for name, program in programs.items() if program.options.join is not None]
    inferred = infer_edges(
        session,
        graph,
        compiled,
        source_bytes,
        _per_subtask(programs),
        options.min_parallelism,
        joins,
        findings,
    )
    for edge, reason in inferred.reasons.items():
        log.info("vertex %r reads %s by %s: %s", edge.consumer, edge.input_name, edge.how, reason)
    return inferred.graph, inferred.compiled


def _keep_all(programs: Mapping[str, VertexProgram]) -> list[str]:
    return [name for name, program in programs.items() if program.options.edge_columns == "all"]


def _per_subtask(programs: Mapping[str, VertexProgram]) -> list[str]:
    return [name for name, program in programs.items() if program.options.per_subtask]


def _log_whole(findings: Findings) -> dict[str, str]:
    """Say which vertices have no fan-out, and how they would get one; the reasons by vertex."""
    whole = findings.whole or {}
    for name, error in whole.items():
        log.warning(
            "vertex %r runs as one subtask, one Spark operation over all slots: %s. For a fan-out and retries of its "
            "parts, %s; JobOptions(unsplittable='refuse') fails here instead",
            name,
            error.why,
            error.instead,
        )
    return {name: error.why for name, error in whole.items()}


def log_portions(proofs: Iterable[Proof]) -> None:
    """What the proof takes on trust of functions over partitions, once for each vertex."""
    for proof in proofs:
        if proof.portions:
            log.info(
                "vertex %r: the rows of %s arrive in batches that neither plain Spark nor a subtask guarantees, "
                "which is fine if it treats them one by one; if it needs a key's rows together, put repartition(key) "
                "before it",
                proof.vertex,
                " and ".join(proof.portions),
            )


def _with_spreads(
    graph: JobGraph,
    compiled: Mapping[str, CompiledVertex],
    proofs: Mapping[str, Proof],
    unrepeatable: Collection[str],
) -> dict[str, CompiledVertex]:
    """The vertices with what the proof says of the hot subpartitions of their inputs."""

    def why_not(vertex: CompiledVertex, placeholder: str) -> str | None:
        together = graph.region_of(vertex.name).vertices
        other = next((f"{name} gives other rows when it runs again" for name in together if name in unrepeatable), None)
        producer = compiled[vertex.inputs[placeholder].producer]
        return other or proofs[vertex.name].spreads[placeholder] or _hides_places(producer)

    return {
        name: replace(vertex, spreads={each: why_not(vertex, each) for each in proofs[name].spreads})
        for name, vertex in compiled.items()
    }


def _find_spread(compiled: Mapping[str, CompiledVertex], threshold: str) -> set[JobEdge]:
    """Edges whose rows may be spread in any way, where Spark may broadcast what they are joined with.

    A sink with a number of files keeps its hash, by which a partition of the sink may be one file.
    """
    return {
        vertex.inputs[placeholder]
        for vertex in compiled.values()
        for placeholder, why_not in vertex.spreads.items()
        if why_not is None
        and read_threshold(vertex, threshold) >= 0
        and (vertex.sink is None or vertex.sink.files is None)
    }


def _hides_places(producer: CompiledVertex) -> str | None:
    """Rows of a file are told apart by a column of Spark's, which a column of its name would hide."""
    hiding = next((column for column in producer.schema.names if column.lower() == FILE_METADATA), None)
    return None if hiding is None else f"a column {hiding} of it hides the positions of rows in files"


def log_spreads(graph: JobGraph, compiled: Mapping[str, CompiledVertex], programs: Mapping[str, VertexProgram]) -> None:
    """Say which hot keys may be spread, of steps that read several inputs by range; warn of `join=` if none."""
    for region in graph.regions:
        inputs = [
            (edge, compiled[name].spreads[placeholder])
            for name in region.vertices
            for placeholder, edge in compiled[name].inputs.items()
            if placeholder in compiled[name].spreads
        ]
        spread = [edge.input_name for edge, why in inputs if why is None]
        kept = {why: None for _, why in inputs if why is not None}
        join = programs[region.name].options.join if region.name in programs else None
        if spread and len(inputs) > 1:
            log.info("vertex %r: a hot key of %s may be spread over several subtasks", region.name, " or ".join(spread))
        elif not spread and kept and join is not None and spreads_a_side(join):
            log.warning(
                "vertex %r: join=%r is declared, and a hot key is not spread over several subtasks: %s",
                region.name,
                join,
                "; ".join(kept),
            )


def _propose_pruning(
    graph: JobGraph,
    compiled: Mapping[str, CompiledVertex],
    proofs: Iterable[Proof],
    programs: Mapping[str, VertexProgram],
    open_path: Callable[[str], ExchangePath],
) -> None:
    """Log where `prune=` would read fewer files and give the same rows."""
    for proof in proofs:
        source = programs[proof.vertex].source
        joined = find_joined_columns(graph, compiled, proof)
        if joined and source is not None:
            partitioned_by = partition_columns(source, open_path)
            for each in joined:
                if each.column in partitioned_by:
                    log.info("%s", each.describe())


def _plan_by_alike_days(
    plan_day: Callable[[JobHistory], tuple[DaysGraph, list[_Templated]]], history: JobHistory
) -> tuple[DaysGraph, list[_Templated]]:
    """The day by its history, less that of days on which regions wrote other columns.

    Which columns are written is known only when the day is planned, so the day after such a change is planned twice.
    """
    usual = history.as_last_written()
    today, regions = plan_day(usual)
    columns = {declared_regions(today.into, region.name): region.digest_columns() for region, _ in regions}
    if changed := usual.find_changed(columns):
        log.info(
            "%s write other columns than in the last run, whose bytes and seconds therefore do not count: replanned",
            ", ".join(changed),
        )
        return plan_day(replace(usual, columns={**usual.columns, **columns}))
    return today, regions


def _cut_regions(
    session: Any,
    today: DaysGraph,
    separate: Mapping[str, CompiledVertex],
    unrepeatable: Collection[str],
    list_today: Callable[[PlannedSource], Sequence[SourceFile]],
    keep_all: Collection[str],
    history: JobHistory,
) -> list[_Templated]:
    """Cut every region into steps; what they do not read of their sources is left out.

    `separate` are the vertices of the graph as it is declared.
    """
    compiled = join_vertices(today.graph, separate) if today.into else separate
    compiled = combine_edges(session, today.graph, compiled, keep_all, history.partial_shares())
    compiled = narrow_vertices(session, today.graph, compiled, keep_all)
    specs = assign_results(session, today.graph, compiled)
    orders = order_rows(today, {edge: spec.name for edge, spec in specs.items() if spec.expression is not None})
    retries = _cut_for_retries(session, today, separate, compiled, orders, keep_all, history)
    regions = []
    for region in today.graph.regions:
        planned, templates = plan_region(today.graph, region, compiled, specs, orders)
        planned = prune_sources(session, planned, templates, list_today)
        steps, more_templates = retries.get(region.name, ((), []))
        is_repeatable = not set(region.vertices).intersection(unrepeatable)
        broadcast = next((join.reason for join in today.broadcast_joins if join.region == region.name), "")
        planned = replace(planned, deterministic=is_repeatable, retry_steps=steps, broadcast_join=broadcast)
        regions.append((planned, [*templates, *more_templates]))
    return regions


def _cut_for_retries(
    session: Any,
    today: DaysGraph,
    separate: Mapping[str, CompiledVertex],
    compiled: Mapping[str, CompiledVertex],
    orders: Mapping[str, RowOrder],
    keep_all: Collection[str],
    history: JobHistory,
) -> dict[str, tuple[tuple[PlannedStep, ...], list[bytes]]]:
    """Steps and templates of regions that run as one operation at first, and vertex by vertex after a failure.

    A region is left out if its readers would get other columns or rows that way: all of its tries must write the
    same.
    """
    graph = today.stepwise
    if graph is None:
        return {}
    cut = combine_edges(session, graph, join_vertices(graph, separate), keep_all, history.partial_shares())
    cut = narrow_vertices(session, graph, cut, keep_all)
    specs = assign_results(session, graph, cut)
    found = {}
    for region in graph.regions:
        read = {edge.producer for edge in specs if edge.producer in region.vertices}
        if region.name in today.worth_steps and all(cut[name].is_written_as(compiled[name]) for name in read):
            planned, templates = plan_region(graph, region, cut, specs, orders)
            found[region.name] = (planned.steps, templates)
    return found


def _store_pinned_files(folder: JobFolder, graph: JobGraph, programs: Mapping[str, VertexProgram]) -> None:
    """What was fixed of tables and incremental sources, for the `decide` of the region that reads it."""
    for vertex, program in programs.items():
        if isinstance(program.source, (Pin, NewFiles)):
            spans = program.source.spans if isinstance(program.source, Pin) else None
            write_pinned_files(folder, graph.region_of(vertex).name, vertex, program.source.files, spans)


def _find_unrepeatable(compiled: Mapping[str, CompiledVertex]) -> set[str]:
    """Vertices whose values follow the order of rows."""
    found = {name for name, vertex in compiled.items() if not is_repeatable(vertex.relation)}
    for name in sorted(found):
        log.info(
            "vertex %r: its random values or row numbers depend on the order of its rows, which a shuffle inside it "
            "changes: it counts as deterministic=False, and if its output is lost, everything that has read it reruns",
            name,
        )
    return found


@contextmanager
def _meanwhile(check: Callable[[], None]) -> Iterator[None]:
    """Run a check beside the block; its error comes before those of the block."""
    with ThreadPoolExecutor(1, thread_name_prefix="check") as pool:
        checked = pool.submit(check)
        try:
            yield
        finally:
            checked.result()


def check_shared(session: Any, folder: JobFolder, resource_timeout: float) -> None:
    """Spark writes to the exchange, and Airflow sees what Spark wrote.

    Raises:
        ExchangeUnreachableError: says which side failed.
        ResourcesError: Spark has no executor for `resource_timeout` seconds.
    """
    from pyspark.errors import PySparkException

    probe = folder.path / "probe"
    try:
        with bounded_wait(session, "plan wants one Spark task, which writes to the exchange", resource_timeout):
            write = session.range(1).coalesce(1).write.mode("overwrite").options(**UNLISTED_FOLDER)
            write.parquet(uri_for_spark(probe))
    except PySparkException as error:
        raise ExchangeUnreachableError(
            f"the Spark server cannot write to the exchange at {uri_for_spark(folder.path)}: {error}; "
            "expected a path that "
            "Airflow and Spark both reach and may write to"
        ) from error
    location = locate(probe)
    # Not by `_SUCCESS`: some committers leave none, nor does Spark where it is set so.
    if not any(name.endswith(".parquet") for name in location.fs.find(location.path)):
        raise ExchangeUnreachableError(
            f"Spark wrote to the exchange at {uri_for_spark(probe)}, but Airflow does not see it at {location}; "
            "expected storage that both share, not a local folder of each"
        )
    location.fs.rm(location.path, recursive=True)
