"""`>>` and `<<` on declared vertices, which become tasks only when their job closes.

Airflow sets a relation through `update_relative`, `roots` and `leaves` of the other side. Before the job has closed a
vertex has neither: it notes the relation, and `resolve` sets it between real tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from airflow.sdk import TriggerRule

TOLERANT = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
"""Of the tasks of a region before which `plan` may skip others. If `plan` itself is skipped, they are, too."""


class OrderedVertex:
    """What takes part in ``sensor >> vertex >> [task, other_vertex]`` without being a task yet.

    A task before a vertex holds up `plan`, too: `plan` reads the schemas of all sources, and what a sensor waits for
    may not be there before. A task that itself comes after a vertex of the same job can hold up no more than `decide`.
    """

    def __init__(self) -> None:
        self._before: list[Any] = []
        self._after: list[Any] = []
        self._heads: list[Any] = []
        self._tails: list[Any] = []

    @property
    def is_awaited(self) -> bool:
        """Whether a task of the DAG was put after it, before the job closed."""
        return bool(self._after)

    @property
    def comes_after(self) -> Sequence[OrderedVertex]:
        """Other vertices that were put before it with `>>`, before the job closed."""
        return [other for other in self._before if isinstance(other, OrderedVertex)]

    @property
    def roots(self) -> Sequence[Any]:
        """The tasks that begin the vertex; none before the job has closed."""
        return self._heads

    @property
    def leaves(self) -> Sequence[Any]:
        """The tasks that end the vertex; none before the job has closed."""
        return self._tails

    def update_relative(self, other: Any, upstream: bool = True, edge_modifier: Any = None) -> None:
        """Airflow calls it on the right side of ``other >> self`` (`upstream`) and of ``other << self``."""
        if not self._heads:
            (self._before if upstream else self._after).append(other)
        elif upstream:
            self._be_skipped_with_what_is_before()

    def set_upstream(self, other: Any, edge_modifier: Any = None) -> None:
        """Run these before the vertex."""
        for each in _as_list(other):
            if self._heads:
                each >> self._heads
                self._be_skipped_with_what_is_before()
            else:
                self._before.append(each)

    def set_downstream(self, other: Any, edge_modifier: Any = None) -> None:
        """Run these once the vertex has its rows, or has published them if it has a sink."""
        for each in _as_list(other):
            if self._heads:
                self._tails >> each
            elif isinstance(each, OrderedVertex):
                each.update_relative(self)
            else:
                self._after.append(each)

    def _be_skipped_with_what_is_before(self) -> None:
        for head in self._heads:
            head.trigger_rule = TriggerRule.ALL_SUCCESS

    def __rshift__(self, other: Any) -> Any:
        self.set_downstream(other)
        return other

    def __lshift__(self, other: Any) -> Any:
        self.set_upstream(other)
        return other

    def __rrshift__(self, other: Any) -> Self:
        self.set_upstream(other)
        return self

    def __rlshift__(self, other: Any) -> Self:
        self.set_downstream(other)
        return self


def resolve_order(vertices: Sequence[OrderedVertex], tasks: Sequence[tuple[Any, Any]], plan: Any) -> None:
    """Set what was noted, between tasks.

    Args:
        vertices: all vertices of a job.
        tasks: for each vertex its first and its last task.
        plan: the job's first task.
    """
    for vertex, (head, tail) in zip(vertices, tasks, strict=True):
        vertex._heads, vertex._tails = [head], [tail]
    for vertex in vertices:
        for other in vertex._after:
            vertex._tails[0] >> other
        for other in (each for each in vertex._before if isinstance(each, OrderedVertex)):
            other._tails[0] >> vertex._heads[0]
    for vertex in vertices:
        for other in (each for each in vertex._before if not isinstance(each, OrderedVertex)):
            comes_after = any(_is_after(leaf, {plan.task_id}) for leaf in _tasks_of(other))
            other >> (vertex._heads[0] if comes_after else plan)


def _is_after(task: Any, ids: set[str]) -> bool:
    """Whether one of the tasks with these ids comes before it, near or far."""
    waiting, seen = [task], set[str]()
    while waiting:
        for upstream in waiting.pop().upstream_list:
            if upstream.task_id in ids:
                return True
            if upstream.task_id not in seen:
                seen.add(upstream.task_id)
                waiting.append(upstream)
    return False


def _tasks_of(other: Any) -> Iterable[Any]:
    """The tasks that end it: itself, the task of an XCom, or the leaves of a group."""
    return other.leaves if hasattr(other, "leaves") else [other]


def _as_list(other: Any) -> Sequence[Any]:
    return other if isinstance(other, (list, tuple)) else [other]
