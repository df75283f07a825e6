"""What an entry of the corpus is: a transform, how its inputs reach it, and what plain reasoning says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_abs.core.graph.job_graph import JobEdge
from airflow_abs.core.graph.partitioning import Partitioning

Check = Callable[[Any, Any], "str | None"]
"""What is wrong with the rows found, given plain Spark's; None if nothing is."""


@dataclass(frozen=True, slots=True)
class Input:
    """One of the tables as an input; without a partitioning it is the vertex's own source."""

    table: str
    partitioning: Partitioning | None
    keys: tuple[str, ...] = ()


def by(table: str, *keys: str) -> Input:
    """Rows with equal keys meet."""
    return Input(table, Partitioning.HASH, keys)


def spread(table: str) -> Input:
    """Rows lie anywhere."""
    return Input(table, Partitioning.REBALANCE)


def whole(table: str) -> Input:
    """Every subtask has all rows."""
    return Input(table, Partitioning.BROADCAST)


def source(table: str) -> Input:
    """The vertex reads the files itself: rows lie anywhere."""
    return Input(table, None)


@dataclass(frozen=True, slots=True)
class Entry:
    """`safe`: run in parts on rows that lie as `inputs` say, does it give plain Spark's rows of the whole?

    `min_parallelism` is its job's. `check` replaces the comparison with plain Spark's rows where Spark itself does not
    promise any.
    """

    name: str
    family: str
    transform: Callable[..., Any]
    inputs: Mapping[str, Input]
    safe: bool
    why: str = ""
    check: Check | None = None
    min_parallelism: int = 1

    def edges(self, consumer: str) -> list[JobEdge]:
        return [
            JobEdge(entry.table, consumer, name, entry.partitioning, entry.keys)
            for name, entry in self.inputs.items()
            if entry.partitioning is not None
        ]

    def without_edges(self) -> Entry:
        """The same, with inputs that do not say how their rows reach it."""
        unsaid = {
            name: each if each.partitioning is None else Input(each.table, Partitioning.INFERRED)
            for name, each in self.inputs.items()
        }
        return replace(self, inputs=unsaid)

    @property
    def source(self) -> str | None:
        """The table that it reads itself."""
        return next((entry.table for entry in self.inputs.values() if entry.partitioning is None), None)


@dataclass(slots=True)
class Family:
    """Entries that try the same part of the API."""

    name: str
    entries: list[Entry] = field(default_factory=list)

    def safe(
        self, name: str, transform: Callable[..., Any], why: str = "", *, check: Check | None = None, **inputs: Input
    ) -> None:
        self._add(Entry(name, self.name, transform, inputs, True, why, check))

    def unsafe(
        self,
        name: str,
        transform: Callable[..., Any],
        why: str,
        *,
        check: Check | None = None,
        min_parallelism: int = 1,
        **inputs: Input,
    ) -> None:
        self._add(Entry(name, self.name, transform, inputs, False, why, check, min_parallelism))

    def _add(self, entry: Entry) -> None:
        assert entry.name.isidentifier(), entry.name
        assert entry.name not in {other.name for other in self.entries}, f"{entry.name} is there twice"
        self.entries.append(entry)


def query(text: str) -> Callable[..., Any]:
    """A transform that is SQL over its inputs by name, such as ``SELECT * FROM {o}``."""

    def transform(**frames: Any) -> Any:
        return next(iter(frames.values())).sparkSession.sql(text, **frames)

    return transform


def all_distinct(column: str) -> Check:
    """No value twice in all subtasks, and as many rows as plain Spark gives."""

    def check(found: Any, expected: Any) -> str | None:
        values = found.column(column).to_pylist()
        if len(values) != expected.num_rows:
            return f"{len(values)} rows, expected {expected.num_rows}"
        return None if len(set(values)) == len(values) else f"{len(values)} rows, {len(set(values))} distinct {column}"

    return check


def one_value(column: str) -> Check:
    """The same value in all rows of all subtasks."""

    def check(found: Any, expected: Any) -> str | None:
        values = set(found.column(column).to_pylist())
        if found.num_rows != expected.num_rows:
            return f"{found.num_rows} rows, expected {expected.num_rows}"
        return None if len(values) == 1 else f"{len(values)} values of {column}, expected one"

    return check


def in_order(column: str) -> Check:
    """All rows, and read one subtask after the other they are in order."""

    def check(found: Any, expected: Any) -> str | None:
        values = found.column(column).to_pylist()
        if len(values) != expected.num_rows:
            return f"{len(values)} rows, expected {expected.num_rows}"
        return None if values == sorted(values) else f"not in the order of {column}"

    return check


def some_of(column: str) -> Check:
    """As many rows of plain Spark's input as it gives may differ; none twice. `column` identifies a row."""

    def check(found: Any, expected: Any) -> str | None:
        values = found.column(column).to_pylist()
        return None if len(set(values)) == len(values) else f"{len(values)} rows, {len(set(values))} distinct {column}"

    return check


def as_many_rows(found: Any, expected: Any) -> str | None:
    """Which rows is open, how many is not."""
    return None if found.num_rows == expected.num_rows else f"{found.num_rows} rows, expected {expected.num_rows}"
