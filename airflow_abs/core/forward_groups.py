"""Forward groups: vertices whose subtask k hands its rows to subtask k, so that all must have one parallelism.

`JobParallelism` follows a running job: a vertex is decided when all its producers have finished; the first decided
member of a forward group decides for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from airflow_abs.core.errors import InvalidValueError, JobGraphError
from airflow_abs.core.regions import compute_components, group_members


def compute_forward_groups(vertices: Sequence[str], forward_edges: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Groups of at least two vertices joined by forward edges, in the given order of vertices.

    Raises:
        JobGraphError: an edge names an unknown vertex.
    """
    position = {vertex: index for index, vertex in enumerate(vertices)}
    edges = list(forward_edges)
    _check_known(edges, position)
    components = compute_components(len(vertices), [(position[p], position[c]) for p, c in edges])
    groups = [tuple(vertices[index] for index in members) for members in group_members(components)]
    return [group for group in groups if len(group) > 1]


def spread_parallelism(groups: Iterable[Sequence[str]], parallelism: Mapping[str, int | None]) -> dict[str, int | None]:
    """Give every member of a forward group the parallelism that one of them has; None stays where none has any.

    Raises:
        JobGraphError: two members of a group have different ones.
    """
    spread = dict(parallelism)
    for group in groups:
        known = {vertex: parallelism[vertex] for vertex in group if parallelism.get(vertex) is not None}
        if len(set(known.values())) > 1:
            found = ", ".join(f"{vertex} {number}" for vertex, number in known.items())
            raise JobGraphError(f"vertices joined by forward edges: expected one parallelism, found {found}")
        if known:
            spread.update(dict.fromkeys(group, next(iter(known.values()))))
    return spread


class JobParallelism:
    """Parallelism of the vertices of a running job.

    Args:
        preset: what each vertex is given beforehand, None if it is to be decided; topological order.
        edges: (producer, consumer) of all edges, forward ones included.
        forward_edges: those that tie their ends to one parallelism.
        decide: called with a vertex when its turn comes.
    """

    def __init__(
        self,
        preset: Mapping[str, int | None],
        edges: Iterable[tuple[str, str]],
        forward_edges: Iterable[tuple[str, str]],
        decide: Callable[[str], int],
    ) -> None:
        self._groups = compute_forward_groups(list(preset), forward_edges)
        self._parallelism = spread_parallelism(self._groups, preset)
        self._decide = decide
        self._finished: set[str] = set()
        self._producers: dict[str, set[str]] = {vertex: set() for vertex in preset}
        known_edges = list(edges)
        _check_known(known_edges, preset)
        for producer, consumer in known_edges:
            self._producers[consumer].add(producer)

    def __getitem__(self, vertex: str) -> int | None:
        """Parallelism of a vertex, None while undecided."""
        return self._parallelism[vertex]

    def finish(self, vertex: str) -> dict[str, int]:
        """A vertex has finished: parallelism of the vertices that this lets be decided.

        A member of a forward group is shown when its own producers have finished, with the number that the first member
        of the group was given.
        """
        if vertex not in self._producers:
            raise InvalidValueError(f"expected a vertex of this job, found {vertex!r}")
        self._finished.add(vertex)
        decided: dict[str, int] = {}
        for consumer, producers in self._producers.items():
            if vertex in producers and producers <= self._finished and self._parallelism[consumer] is None:
                decided[consumer] = self._parallelism_of_group(consumer) or self._decide(consumer)
                self._parallelism[consumer] = decided[consumer]
        return decided

    def _parallelism_of_group(self, vertex: str) -> int | None:
        members = next((group for group in self._groups if vertex in group), ())
        return next((number for member in members if (number := self._parallelism[member]) is not None), None)


def _check_known(edges: Iterable[tuple[str, str]], vertices: Container[str]) -> None:
    for producer, consumer in edges:
        for vertex in (producer, consumer):
            if vertex not in vertices:
                raise JobGraphError(f"edge {producer!r} -> {consumer!r}: {vertex!r} is none of the vertices")
