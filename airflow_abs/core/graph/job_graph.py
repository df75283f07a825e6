"""The graph that a DAG author declares: vertices, edges, and the pipelined regions that follow from them.

Everything here is known when a DAG file is parsed; nothing is decided yet. The words are Flink's: a JobGraph has
vertices and edges, a pipelined region is what must run together, and one region becomes one mapped Airflow task.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_abs.core.decide.parallelism import power_of_two_up_to
from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.partitioning import Partitioning, describe_edge
from airflow_abs.core.graph.regions import compute_pipelined_regions

# What is inferred may be.
_CUT_BY_SUBPARTITION = (Partitioning.HASH, Partitioning.REBALANCE, Partitioning.INFERRED)
# Inside a region subtask k has the rows of subtask k, and that is all that these two ask for.
_SUBTASK_TO_SUBTASK = (Partitioning.FORWARD, Partitioning.RESCALE)


@dataclass(frozen=True, slots=True)
class JobVertex:
    """One step of the job, before its parallelism is known.

    `parallelism` is set by the user and never changed; `max_parallelism` is the vertex's own bound and, for its hash
    and rebalance inputs, the number of subpartitions that their producers write. `expectations` are the names of what
    is expected of its rows.
    """

    name: str
    parallelism: int | None = None
    max_parallelism: int | None = None
    has_source: bool = False
    has_sink: bool = False
    expectations: tuple[str, ...] = ()

    @property
    def is_gate(self) -> bool:
        """Whether something is done with its rows, all of them, before what reads them may count."""
        return self.has_sink or bool(self.expectations)


@dataclass(frozen=True, slots=True)
class JobEdge:
    """One input of a vertex. `keys` belong to hash edges; a forward edge is always pipelined.

    `durable` is what the author asks for: rows that are written, or stay inside Spark; None for what the day gives.
    `inferred` is True once `plan` has found out how rows are distributed; the author only named the producer. `prunes`
    is a column of the consumer's source, which is read only where it has a value of a column of the producer's rows.
    """

    producer: str
    consumer: str
    input_name: str
    partitioning: Partitioning
    keys: tuple[str, ...] = ()
    pipelined: bool = False
    durable: bool | None = None
    inferred: bool = False
    prunes: tuple[str, str] | None = None

    @property
    def must_be_pipelined(self) -> bool:
        return self.pipelined or self.partitioning is Partitioning.FORWARD

    def __str__(self) -> str:
        return f"{self.producer} -> {self.consumer}.{self.input_name} [{self.how}]"

    @property
    def how(self) -> str:
        """``hash(customer_id), inferred``."""
        return describe_edge(self.partitioning, self.keys, inferred=self.inferred)


@dataclass(frozen=True, slots=True)
class Region:
    """Vertices that run together: one Spark plan per subtask, one mapped Airflow task.

    `name` is that of its last vertex. `inputs` come from other regions and are blocking; `inner` stay inside.
    `subpartitions` is the number that each hash or rebalance input is cut into, and so the region's upper bound.
    """

    name: str
    vertices: tuple[str, ...]
    inputs: tuple[JobEdge, ...]
    inner: tuple[JobEdge, ...]
    parallelism: int | None
    subpartitions: int
    single_subtask_reason: str | None


@dataclass(frozen=True, slots=True)
class JobGraph:
    """A checked graph; vertices in topological order, declaration order where that leaves a choice."""

    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    regions: tuple[Region, ...]

    def vertex(self, name: str) -> JobVertex:
        return next(vertex for vertex in self.vertices if vertex.name == name)

    def region_of(self, vertex: str) -> Region:
        return next(region for region in self.regions if vertex in region.vertices)

    def inputs_of(self, vertex: str) -> tuple[JobEdge, ...]:
        return tuple(edge for edge in self.edges if edge.consumer == vertex)

    def outputs_of(self, vertex: str) -> tuple[JobEdge, ...]:
        return tuple(edge for edge in self.edges if edge.producer == vertex)

    def with_edges(self, changed: Mapping[JobEdge, JobEdge]) -> JobGraph:
        """The same graph with other edges in the place of some; they must tie regions together as those did."""

        def changed_in(edges: Sequence[JobEdge]) -> tuple[JobEdge, ...]:
            return tuple(changed.get(edge, edge) for edge in edges)

        regions = tuple(
            replace(region, inputs=changed_in(region.inputs), inner=changed_in(region.inner)) for region in self.regions
        )
        return JobGraph(self.vertices, changed_in(self.edges), regions)

    def with_single_subtask(self, reasons: Mapping[str, str]) -> JobGraph:
        """The same graph with the regions of some vertices as one subtask each, for the reasons by vertex."""
        of_region = {self.region_of(vertex).name: why for vertex, why in reasons.items()}
        regions = tuple(
            replace(each, single_subtask_reason=each.single_subtask_reason or of_region.get(each.name))
            for each in self.regions
        )
        return replace(self, regions=regions)

    def crosses_regions(self, edge: JobEdge) -> bool:
        """True if the edge's rows go through the exchange."""
        return edge.producer not in self.region_of(edge.consumer).vertices

    def producer_regions(self, region: Region) -> tuple[Region, ...]:
        """The regions that `region` reads from, each once, in topological order."""
        producers = {edge.producer for edge in region.inputs}
        return tuple(other for other in self.regions if producers.intersection(other.vertices))

    def regions_before(self, region: Region) -> tuple[Region, ...]:
        """All regions whose rows `region` rests on, near and far, in topological order."""
        found: set[str] = set()
        waiting = [region]
        while waiting:
            for other in self.producer_regions(waiting.pop()):
                if other.name not in found:
                    found.add(other.name)
                    waiting.append(other)
        return tuple(other for other in self.regions if other.name in found)


def build_job_graph(
    vertices: Sequence[JobVertex], edges: Iterable[JobEdge], max_parallelism: int, *, equal_ranges: bool = False
) -> JobGraph:
    """Check the declared vertices and edges and compute the regions.

    Args:
        vertices: in the order of their declaration.
        edges: in any order; an edge names its producer and consumer.
        max_parallelism: the job's bound for vertices that have none of their own.
        equal_ranges: inputs are cut into a power of two of subpartitions, which a power of two of subtasks share alike.

    Raises:
        JobGraphError: names the vertex or edge, what was found and what to do.
    """
    edges = tuple(edges)
    _check_vertices(vertices)
    _check_edges({vertex.name: vertex for vertex in vertices}, edges)
    ordered = _sort_topologically(vertices, edges)
    by_name = {vertex.name: vertex for vertex in ordered}
    groups = compute_pipelined_regions(
        [vertex.name for vertex in ordered], [(edge.producer, edge.consumer, edge.must_be_pipelined) for edge in edges]
    )
    regions = [_build_region(group, by_name, edges, max_parallelism, equal_ranges) for group in groups]
    return JobGraph(ordered, edges, sort_regions(regions))


def _check_vertices(vertices: Sequence[JobVertex]) -> None:
    if not vertices:
        raise JobGraphError("the job has no vertex; declare at least one AdaptiveSparkOperator inside it")
    for name, count in Counter(vertex.name for vertex in vertices).items():
        if count > 1:
            raise JobGraphError(f"vertex {name!r}: declared {count} times; give each its own task_id")
    for vertex in vertices:
        for what in ("parallelism", "max_parallelism"):
            number = getattr(vertex, what)
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise JobGraphError(f"vertex {vertex.name!r}: {what} is {number!r}; expected an integer of at least 1")


def _check_edges(vertices: Mapping[str, JobVertex], edges: Sequence[JobEdge]) -> None:
    for edge in edges:
        if edge.producer not in vertices:
            known = ", ".join(sorted(vertices))
            raise JobGraphError(
                f"vertex {edge.consumer!r}: input {edge.input_name!r} comes from {edge.producer!r}, which "
                "is not a vertex "
                f"of this job; its vertices are {known}"
            )
        if edge.partitioning is Partitioning.HASH and not edge.keys:
            raise JobGraphError(
                f"vertex {edge.consumer!r}: input {edge.input_name!r} is hash() without keys; name at "
                "least one column, "
                "or use rescale() or rebalance()"
            )
    fed = {edge.consumer for edge in edges}
    for vertex in vertices.values():
        if not vertex.has_source and vertex.name not in fed:
            raise JobGraphError(f"vertex {vertex.name!r}: it has neither a source nor inputs; give it one of them")


def _sort_topologically(vertices: Sequence[JobVertex], edges: Sequence[JobEdge]) -> tuple[JobVertex, ...]:
    """Kahn's algorithm; among the vertices that are ready the first declared comes first."""
    waiting = Counter(edge.consumer for edge in edges)
    consumers: dict[str, list[str]] = {vertex.name: [] for vertex in vertices}
    for edge in edges:
        consumers[edge.producer].append(edge.consumer)
    by_name = {vertex.name: vertex for vertex in vertices}
    ready = deque(vertex.name for vertex in vertices if not waiting[vertex.name])
    ordered = []
    while ready:
        name = ready.popleft()
        ordered.append(by_name[name])
        for consumer in consumers[name]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                ready.append(consumer)
    if len(ordered) < len(vertices):
        cycle = ", ".join(vertex.name for vertex in vertices if waiting[vertex.name])
        raise JobGraphError(f"the job has a cycle among {cycle}; a vertex cannot need its own output")
    return tuple(ordered)


def _build_region(
    members: Sequence[str],
    vertices: Mapping[str, JobVertex],
    edges: Sequence[JobEdge],
    max_parallelism: int,
    equal_ranges: bool,
) -> Region:
    inside = set(members)
    inputs = tuple(edge for edge in edges if edge.consumer in inside and edge.producer not in inside)
    inner = tuple(edge for edge in edges if edge.consumer in inside and edge.producer in inside)
    crossing = next((edge for edge in inner if edge.partitioning not in _SUBTASK_TO_SUBTASK), None)
    single = f"{crossing} lies inside the region: every consumer needs every producer at once" if crossing else None
    parallelism = _agreed_parallelism([vertices[name] for name in members], single)
    return Region(
        name=members[-1],
        vertices=tuple(members),
        inputs=inputs,
        inner=inner,
        parallelism=parallelism,
        subpartitions=_agreed_subpartitions(members, vertices, inputs, max_parallelism, equal_ranges),
        single_subtask_reason=single,
    )


def _agreed_parallelism(members: Sequence[JobVertex], single: str | None) -> int | None:
    fixed = {vertex.name: vertex.parallelism for vertex in members if vertex.parallelism is not None}
    if len(set(fixed.values())) > 1:
        found = ", ".join(f"{name}={number}" for name, number in fixed.items())
        raise JobGraphError(
            f"vertices of one pipelined region have different parallelism ({found}); set the same for all"
        )
    name, number = next(iter(fixed.items()), ("", None))
    if single and number not in (None, 1):
        raise JobGraphError(
            f"vertex {name!r}: parallelism={number} cannot be kept, {single}; drop it or make the edge blocking"
        )
    return number


def _agreed_subpartitions(
    members: Sequence[str],
    vertices: Mapping[str, JobVertex],
    inputs: Sequence[JobEdge],
    max_parallelism: int,
    equal_ranges: bool,
) -> int:
    bounds = {name: _max_parallelism(vertices[name], max_parallelism) for name in members}
    cut = {edge.consumer: bounds[edge.consumer] for edge in inputs if edge.partitioning in _CUT_BY_SUBPARTITION}
    if len(set(cut.values())) > 1:
        found = ", ".join(f"{name}: {number}" for name, number in cut.items())
        raise JobGraphError(
            f"the blocking inputs of region {members[-1]!r} have different max_parallelism ({found}); inputs that one "
            "subtask reads by range must be cut alike: set the same max_parallelism"
        )
    if not cut:
        return min(bounds.values())
    subpartitions = next(iter(cut.values()))
    is_decided = all(vertices[name].parallelism is None for name in members)
    return power_of_two_up_to(subpartitions) if equal_ranges and is_decided else subpartitions


def _max_parallelism(vertex: JobVertex, default: int) -> int:
    """The vertex's own bound, else the job's, which a parallelism set by the user may raise."""
    if vertex.max_parallelism is None:
        return max(default, vertex.parallelism or 1)
    if vertex.parallelism is not None and vertex.parallelism > vertex.max_parallelism:
        raise JobGraphError(
            f"vertex {vertex.name!r}: parallelism={vertex.parallelism} exceeds its "
            f"max_parallelism={vertex.max_parallelism}; "
            "lower one or raise the other"
        )
    return vertex.max_parallelism


def sort_regions(regions: Sequence[Region]) -> tuple[Region, ...]:
    """Producers before consumers; the merged graph of regions has no cycle."""
    home = {name: region.name for region in regions for name in region.vertices}
    upstream = {region.name: {home[edge.producer] for edge in region.inputs} for region in regions}
    done: set[str] = set()
    ordered: list[Region] = []
    while len(ordered) < len(regions):
        ready = [region for region in regions if region.name not in done and upstream[region.name] <= done]
        ordered.extend(ready)
        done.update(region.name for region in ready)
    return tuple(ordered)
