"""Pipelined regions: the vertices that must run together, because data flows between them without being stored.

1. Vertices joined by edges that must be pipelined form one raw region.
2. Raw regions that wait for each other in a circle would deadlock: each strongly connected set of them is one region.

Works alike for vertices of a job graph and for single subtasks. Nothing recurses: a ring of 100,000 regions is fine.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

from airflow_abs.core.errors import JobGraphError

V = TypeVar("V", bound=Hashable)


def compute_pipelined_regions(vertices: Sequence[V], edges: Iterable[tuple[V, V, bool]]) -> tuple[tuple[V, ...], ...]:
    """Group vertices into regions.

    Args:
        vertices: all vertices, each once.
        edges: (producer, consumer, must be pipelined).

    Returns:
        Every vertex in exactly one region, members in the given order; a region comes after all regions it reads from,
        and otherwise as early as its first member was given.

    Raises:
        JobGraphError: a vertex is given twice, or an edge names an unknown one.
    """
    edges = list(edges)
    position = _positions(vertices, edges)
    raw = compute_components(len(vertices), ((position[p], position[c]) for p, c, pipelined in edges if pipelined))
    successors = _successors(raw, ((position[p], position[c]) for p, c, _ in edges))
    merged = compute_strong_components(successors)
    region_of = [merged[component] for component in raw]
    return tuple(
        tuple(vertices[index] for index in members)
        for members in _in_topological_order(region_of, [(position[p], position[c]) for p, c, _ in edges])
    )


def compute_components(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Connected components of nodes 0..count-1, ignoring direction: for every node the number of its component.

    Components are numbered 0, 1, ... in the order of their first node.
    """
    parent = list(range(count))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for one, other in edges:
        first, second = sorted((root(one), root(other)))
        parent[second] = first
    return _renumber(count, root)


def compute_strong_components(successors: Sequence[Sequence[int]]) -> list[int]:
    """Strongly connected components of a directed graph: for every node the number of its component.

    `successors[i]` are the nodes that node i has an edge to. Components are numbered in the order of their first node.
    The algorithm is Tarjan's with an explicit stack.
    """
    count = len(successors)
    order = [-1] * count  # when a node was first seen
    low = [0] * count  # earliest node on the stack that it reaches
    component = [-1] * count
    stack: list[int] = []
    seen = 0
    for origin in range(count):
        if order[origin] >= 0:
            continue
        path = [(origin, iter(successors[origin]))]
        order[origin] = low[origin] = seen
        seen += 1
        stack.append(origin)
        while path:
            node, rest = path[-1]
            for successor in rest:
                if order[successor] < 0:
                    order[successor] = low[successor] = seen
                    seen += 1
                    stack.append(successor)
                    path.append((successor, iter(successors[successor])))
                    break
                if component[successor] < 0:
                    low[node] = min(low[node], order[successor])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    while component[node] < 0:
                        component[stack.pop()] = node
    return _renumber(count, component.__getitem__)


def group_members(group_of: Sequence[int]) -> list[list[int]]:
    """Turn "group of every node" into "nodes of every group", both in ascending order."""
    members: dict[int, list[int]] = {}
    for node, group in enumerate(group_of):
        members.setdefault(group, []).append(node)
    return [members[group] for group in sorted(members)]


def _renumber(count: int, label: Callable[[int], int]) -> list[int]:
    numbers: dict[int, int] = {}
    return [numbers.setdefault(label(node), len(numbers)) for node in range(count)]


def _positions(vertices: Sequence[V], edges: Iterable[tuple[V, V, bool]]) -> dict[V, int]:
    position = {vertex: index for index, vertex in enumerate(vertices)}
    if len(position) != len(vertices):
        twice = next(vertex for index, vertex in enumerate(vertices) if position[vertex] != index)
        raise JobGraphError(f"vertex {twice!r} is given twice; expected every vertex once")
    for producer, consumer, _ in edges:
        for vertex in (producer, consumer):
            if vertex not in position:
                raise JobGraphError(f"edge {producer!r} -> {consumer!r}: {vertex!r} is not one of the vertices")
    return position


def _successors(group_of: Sequence[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Edges between groups, without repetition, in ascending order."""
    successors: list[set[int]] = [set() for _ in range(max(group_of, default=-1) + 1)]
    for producer, consumer in edges:
        if group_of[producer] != group_of[consumer]:
            successors[group_of[producer]].add(group_of[consumer])
    return [sorted(targets) for targets in successors]


def _in_topological_order(group_of: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Members of every group, producers first; among the groups that are ready the first given goes first."""
    members = group_members(group_of)
    successors = _successors(group_of, edges)
    waiting_for = [0] * len(members)
    for targets in successors:
        for target in targets:
            waiting_for[target] += 1
    ready = [group for group, count in enumerate(waiting_for) if not count]
    heapify(ready)
    ordered = []
    while ready:
        group = heappop(ready)
        ordered.append(members[group])
        for target in successors[group]:
            waiting_for[target] -= 1
            if not waiting_for[target]:
                heappush(ready, target)
    return ordered
