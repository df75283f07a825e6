"""What the `plan` task does on the Spark side: check, compile, and hand back everything to be stored."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from airflow_abs.core.graph.fusing import FusedGraph, fuse_regions
from airflow_abs.core.graph.job_graph import JobGraph, Region
from airflow_abs.core.wording import format_bytes
from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.records.plan import JobPlan
from airflow_abs.exchange.sources.splits import list_splits
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import check_writable, write_atomic, write_json
from airflow_abs.spark.compile.steps import assign_results, plan_region
from airflow_abs.spark.compile.vertices import CompiledVertex, VertexProgram, compile_vertices
from airflow_abs.spark.connect.capacity import RANGE_ROWS, splits_of_range
from airflow_abs.spark.proof import prove_vertices
from airflow_abs.spark.values import is_repeatable

log = logging.getLogger(__name__)


def plan_job(
    session: Any,
    folder: JobFolder,
    graph: JobGraph,
    programs: Mapping[str, VertexProgram],
    options: Mapping[str, Any],
    open_path: Callable[[str], ExchangePath],
    began: float | None = None,
) -> JobPlan:
    """Check both sides of the exchange, compile all regions, and store the plan: templates first, plan.json last.

    A job whose sources are small is fused, see `fuse_regions`, once it is proved for a day on which they are not.

    Raises:
        ExchangeUnreachableError: Airflow or Spark cannot write there, or they do not see the same files.
        SourceNotFoundError: a source matches nothing (here only if the job may be fused; else `decide` finds out).
        JobGraphError, AnalysisException: a vertex does not compile, see `compile_vertices`, or cannot run in parts, see
            `prove_vertices`.
    """
    check_exchange(session, folder)
    now = datetime.now(UTC) if began is None else datetime.fromtimestamp(began, UTC)
    compiled = compile_vertices(session, graph, programs, now)
    prove_vertices(session, graph, compiled, options.get("per_subtask", ()), options["min_parallelism"])
    fused = _fuse_if_small(graph, programs, options, open_path)
    if fused.into:
        graph = fused.graph
        compiled = compile_vertices(session, graph, programs, now)
    specs = assign_results(session, graph, compiled)
    regions = []
    for region in graph.regions:
        planned, templates = plan_region(graph, region, compiled, specs)
        recomputable = not set(region.vertices).intersection(options.get("nondeterministic", ()))
        regions.append(replace(planned, deterministic=recomputable and _is_repeatable(region, compiled)))
        for number, template in enumerate(templates):
            write_atomic(folder.step_path(region.name, number), template)
    slots = options.get("slots") or read_slots(session)
    plan = JobPlan(uuid.uuid4().hex, tuple(regions), options, slots, session.version, fused.into, began)
    write_json(folder.plan_path, plan.to_json())
    return plan


def _is_repeatable(region: Region, compiled: Mapping[str, CompiledVertex]) -> bool:
    for vertex in region.vertices:
        if not is_repeatable(compiled[vertex].relation):
            log.info(
                "vertex %r: its random values or row numbers follow the order of its rows, which a shuffle inside it "
                "changes: it counts as deterministic=False, and what is lost of its output is not recomputed",
                vertex,
            )
            return False
    return True


def _fuse_if_small(
    graph: JobGraph,
    programs: Mapping[str, VertexProgram],
    options: Mapping[str, Any],
    open_path: Callable[[str], ExchangePath],
) -> FusedGraph:
    """What a `min_parallelism` spreads is never fused, nor what cannot be in one session."""
    below = options.get("fuse_below", 0)
    differs = len({tuple(sorted(program.spark_conf.items())) for program in programs.values()}) > 1
    if not below or options["min_parallelism"] > 1 or differs:
        return FusedGraph(graph, {})
    sources = [program.source for program in programs.values() if program.source is not None]
    size = sum(split.bytes for source in sources for split in list_splits(source, open_path))
    if size >= below:
        return FusedGraph(graph, {})
    return fuse_regions(
        graph, f"the job's sources hold {format_bytes(size)}, below fuse_below {format_bytes(below)}: fused"
    )


def check_exchange(session: Any, folder: JobFolder) -> None:
    """Both sides write, and Airflow sees what Spark wrote.

    Raises:
        ExchangeUnreachableError: says which side failed.
    """
    from pyspark.errors import PySparkException

    check_writable(folder.path)
    probe = folder.path / "probe"
    try:
        session.range(1).coalesce(1).write.mode("overwrite").parquet(uri_for_spark(probe))
    except PySparkException as error:
        raise ExchangeUnreachableError(
            f"the Spark server cannot write to the exchange at {uri_for_spark(folder.path)}: {error}; "
            "expected a path that "
            "Airflow and Spark both reach and may write to"
        ) from error
    location = locate(probe)
    if not location.fs.exists(f"{location.path}/_SUCCESS"):
        raise ExchangeUnreachableError(
            f"Spark wrote to the exchange at {uri_for_spark(probe)}, but Airflow does not see it at {location}; "
            "expected storage that both share, not a local folder of each"
        )
    location.fs.rm(location.path, recursive=True)


def read_slots(session: Any) -> int | None:
    """How many Spark tasks the server runs at once now; None if it hides them. See `capacity.py`."""
    explained = session.client.explain_string(session.range(RANGE_ROWS)._plan.to_proto(session.client), "simple")
    return splits_of_range(explained)
