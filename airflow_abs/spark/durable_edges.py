"""What `plan` finds out on the day about which edges are written, and what that makes of the job's regions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from airflow_abs.core.decide.sources import size_splits
from airflow_abs.core.durability.broadcast_join import BroadcastJoin, find_broadcast_joins
from airflow_abs.core.durability.chaining import Chains, chain_row_by_row
from airflow_abs.core.durability.demands import DaysDemands, find_demands
from airflow_abs.core.durability.failures import FailurePriors, estimate_mean_times
from airflow_abs.core.durability.prediction import (
    NO_HISTORY,
    NO_ROW_BYTES,
    JobHistory,
    Prediction,
    predict_job,
)
from airflow_abs.core.durability.row_order import DaysBytes, RowOrder, choose_row_order, expect_readers, reads_ranges
from airflow_abs.core.durability.rule import Conditions, EdgeDurability, decide_durability
from airflow_abs.core.durability.sharing import SHARED_BYTES, share_tasks
from airflow_abs.core.durability.strange_day import UsualBytes, usual_bytes
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.core.graph.joining import JoinedGraph, join_regions
from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.errors import SourceNotFoundError
from airflow_abs.exchange.records.declared_vertex import find_declared_demands
from airflow_abs.exchange.records.plan import PlannedEdge, bind_options
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.spark.compile.vertices import VertexProgram
from airflow_abs.tables.source import splits_of

log = logging.getLogger(__name__)

_LOCAL_BYTES_OF_A_SLOT = 16 * 2**30
_WORTH_STEPS_SECONDS = 30.0
"""Of predicted work. Their templates cost `plan` a request to Spark for each vertex, without failures too."""


@dataclass(frozen=True, slots=True)
class DaysGraph:
    """The graph as it runs today. `into`, as in `JoinedGraph`; `predictions` by declared region.

    `mean_seconds` is the work between two failures that the rule went by; None if there are none, or no rule.
    `readers` are the subtasks that each region that reads ranges may get, by name, and `outputs` the bytes that each
    vertex may write; both {} if the bytes of a source are not known. `stepwise` is the same graph with every edge
    inside its regions written, and `worth_steps` names the regions that are long enough to run so after a failure.
    """

    graph: JobGraph
    into: Mapping[str, str] = field(default_factory=dict)
    edges: tuple[PlannedEdge, ...] = ()
    predictions: Mapping[str, Prediction] = field(default_factory=dict)
    mean_seconds: float | None = None
    readers: Mapping[str, int] = field(default_factory=dict)
    stepwise: JobGraph | None = None
    worth_steps: frozenset[str] = frozenset()
    outputs: Mapping[str, int] = field(default_factory=dict)
    broadcast_joins: tuple[BroadcastJoin, ...] = ()

    @property
    def redistributed(self) -> dict[JobEdge, JobEdge]:
        """Edges of broadcast joins, by what they are declared as."""
        return {edge: other for join in self.broadcast_joins for edge, other in join.edges.items()}

    def with_broadcast_joins(
        self, spread: Collection[JobEdge], row_by_row: Collection[str], target_bytes: int
    ) -> DaysGraph:
        """The same day with joins whose large side is not hashed; the arguments as in `find_broadcast_joins`."""
        if not self.outputs:
            return self
        joins = find_broadcast_joins(self.graph, spread, row_by_row, self.outputs, target_bytes)
        today = replace(self, broadcast_joins=tuple(joins))
        for join in today.broadcast_joins:
            log.info("%s: %s", join.region, join.reason)
        stepwise = self.stepwise and self.stepwise.with_edges(today.redistributed)
        return replace(today, graph=self.graph.with_edges(today.redistributed), stepwise=stepwise)


def join_where_it_pays(
    graph: JobGraph,
    programs: Mapping[str, VertexProgram],
    options: JobSettings,
    open_path: Callable[[str], ExchangePath],
    *,
    slots: int | None,
    unrepeatable: Collection[str],
    history: JobHistory = NO_HISTORY,
    row_bytes: Mapping[str, float] = NO_ROW_BYTES,
) -> DaysGraph:
    """Keep the edges inside Spark that it does not pay to write today; with `durability="always"` those of chains
    alone, and let small regions share a task.

    Args:
        graph: as declared.
        programs: by vertex.
        options: the job's.
        open_path: for the files of sources.
        slots: Spark tasks that run at once; None counts as one.
        unrepeatable: vertices that give other rows when they rerun, in addition to those that declare it.
        history: of the job's earlier runs.
        row_bytes: see `predict_job`.

    Raises:
        SourceNotFoundError: a source matches nothing (with `always`, `decide` finds out).
    """
    always = options.durability == "always"
    try:
        sizes, are_known = _source_bytes(programs, open_path, usual_bytes(history))
    except SourceNotFoundError:
        if always:
            return DaysGraph(graph)
        raise

    def with_readers(today: DaysGraph) -> DaysGraph:
        if not are_known:
            return today
        most = _most_bytes(graph, sizes, history)
        bound = ((each, bind_options(options, slots, each)) for each in today.graph.regions if reads_ranges(each))
        return replace(
            today, outputs=most.outputs, readers={each.name: expect_readers(each, most, by) for each, by in bound}
        )

    declared = find_declared_demands((program.declared for program in programs.values()), unrepeatable)
    settings = _settings(graph, programs)
    chains = Chains(JoinedGraph(graph, {}), ())
    if always and options.chaining:
        chains = chain_row_by_row(graph, declared, _kept(programs), settings)
    if always and not options.share_tasks:
        return with_readers(_days_graph(chains.joined, chains.edges, {}))
    predictions = predict_job(graph, sizes, history, slots=slots or 1, row_bytes=row_bytes)
    if always:
        chained = chains.joined.graph
        predicted = predict_job(chained, sizes, history, slots=slots or 1)
        day = DaysDemands(predicted, options.target_bytes, options.min_parallelism, history)
        most_bytes = options.target_bytes if options.most_waves is None else SHARED_BYTES
        shared = share_tasks(chained, declared, day, settings, most_bytes)
        homes = {name: shared.joined.into.get(home, home) for name, home in chains.joined.into.items()}
        joined = JoinedGraph(shared.joined.graph, homes | dict(shared.joined.into))
        return with_readers(_days_graph(joined, (*chains.edges, *shared.edges), predictions))
    day = DaysDemands(predictions, options.target_bytes, options.min_parallelism, history)
    priors = FailurePriors(options.failures_per_run, options.failures_per_day)
    mean = estimate_mean_times(sum(each.seconds for each in predictions.values()), history, priors).seconds
    conditions = Conditions(
        mean_seconds=mean,
        slots=slots or 1,
        local_bytes=options.local_bytes or _LOCAL_BYTES_OF_A_SLOT * (slots or 1),
        demands=find_demands(graph, declared, day),
        settings=settings,
        budget=options.durability_budget,
    )
    decided = decide_durability(graph, predictions, conditions)
    inside = [each.edge for each in decided if not each.durable]
    joined = join_regions(graph, inside)
    today = _days_graph(joined, decided, predictions, mean if isfinite(mean) else None)
    if worth := find_worth_steps(joined, predictions):
        today = replace(today, stepwise=join_regions(graph, inside, written=True).graph, worth_steps=worth)
    return with_readers(today)


def find_worth_steps(joined: JoinedGraph, predictions: Mapping[str, Prediction]) -> frozenset[str]:
    """Regions that took in others, and that are so long that a second failure should not repeat everything."""
    seconds: dict[str, float] = {}
    for region, prediction in predictions.items():
        home = region
        while home in joined.into:
            home = joined.into[home]
        seconds[home] = seconds.get(home, 0.0) + prediction.seconds
    return frozenset(home for home in joined.into.values() if seconds.get(home, 0.0) >= _WORTH_STEPS_SECONDS)


def order_rows(today: DaysGraph, results: Mapping[JobEdge, str]) -> dict[str, RowOrder]:
    """Of each result that is read by range, whether its rows are sorted; `results` are those, by edge that reads."""
    regions: dict[str, set[str]] = {}
    for edge, result in results.items():
        regions.setdefault(result, set()).add(today.graph.region_of(edge.consumer).name)
    orders = {}
    for result, readers in regions.items():
        orders[result] = choose_row_order(sum(today.readers[name] for name in readers) if today.readers else None)
        log.info("rows of %s: %s", result.rpartition(".")[0], orders[result].reason)
    return orders


def _most_bytes(graph: JobGraph, sizes: Mapping[str, int], history: JobHistory) -> DaysBytes:
    """As predicted; a region without any record is assumed to write as much as it reads."""
    predicted = predict_job(graph, sizes, history)
    outputs = {vertex.name: predicted[graph.region_of(vertex.name).name].result_bytes for vertex in graph.vertices}
    return DaysBytes(outputs, sizes)


def _days_graph(
    joined: JoinedGraph,
    decided: Sequence[EdgeDurability],
    predictions: Mapping[str, Prediction],
    mean_seconds: float | None = None,
) -> DaysGraph:
    for each in decided:
        log.info("%s: %s", each.edge, each.reason)
    edges = tuple(
        PlannedEdge(each.edge.producer, each.edge.consumer, each.edge.input_name, each.durable, each.reason)
        for each in decided
    )
    return DaysGraph(joined.graph, joined.into, edges, predictions, mean_seconds)


def _source_bytes(
    programs: Mapping[str, VertexProgram], open_path: Callable[[str], ExchangePath], usual: Mapping[str, UsualBytes]
) -> tuple[dict[str, int], bool]:
    """By vertex, and whether it is known of all of them."""
    sizes, are_known = {}, True
    for name, program in programs.items():
        if program.source is not None:
            told = [split.bytes for split in splits_of(program.source, open_path)]
            taken, size_from, _ = size_splits(told, usual.get(name))
            sizes[name] = sum(taken)
            are_known &= size_from != "default"
    return sizes, are_known


def _kept(programs: Mapping[str, VertexProgram]) -> list[str]:
    """Vertices that people look into, or that see their subtask."""
    options = {name: program.options for name, program in programs.items()}
    return [name for name, each in options.items() if each.edge_columns == "all" or each.per_subtask]


def _settings(graph: JobGraph, programs: Mapping[str, VertexProgram]) -> dict[str, Hashable]:
    """What the task and the session of each region run with; the vertices of one agree already."""
    return {
        region.name: (
            tuple(sorted({programs[vertex].declared.task for vertex in region.vertices})),
            tuple(sorted(programs[region.name].options.spark_conf.items())),
        )
        for region in graph.regions
    }
