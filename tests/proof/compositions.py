"""Random transforms: two to six operators over two small tables that reach them by random edges.

A composition is plain data, so that hypothesis can shrink it and print it. A step's numbers choose columns (modulo how
many there are at that point), so any numbers make a transform that Spark can analyse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from airflow_abs.core.graph.partitioning import Partitioning

KINDS = ("inner", "left", "right", "full", "semi", "anti")
LEFT = {"a": "int", "b": "int", "c": "string", "v": "bigint"}
RIGHT = {"a": "bigint", "b": "int", "d": "string", "w": "bigint"}


@dataclass(frozen=True, slots=True)
class Step:
    """One operator with the numbers that choose its columns and kinds."""

    operator: str
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Edge:
    """How a table reaches the transform; `keys` are places in its columns."""

    partitioning: Partitioning
    keys: tuple[int, ...] = ()

    def names(self, columns: Mapping[str, str]) -> tuple[str, ...]:
        names = list(columns)
        return tuple(dict.fromkeys(names[key % len(names)] for key in self.keys))


@dataclass(frozen=True, slots=True)
class Composition:
    left: Edge
    right: Edge
    steps: tuple[Step, ...]

    def __call__(self, left: Any, right: Any) -> Any:
        """The transform: reads `right` at least once."""
        frame = left
        for step in self.steps:
            frame = OPERATORS[step.operator](frame, right, step.first, step.second)
        if not any(step.operator in READS_RIGHT for step in self.steps):
            frame = _semi_join(frame, right, 0, 0)
        return frame


def _pick(frame: Any, number: int) -> str:
    return str(frame.columns[number % len(frame.columns)])


def _new(frame: Any, name: str) -> str:
    """The name with a number, which no column has."""
    return next(f"{name}{number}" for number in count() if f"{name}{number}" not in frame.columns)


def _keys(frame: Any, first: int, second: int) -> list[str]:
    """One column, or two."""
    return list(dict.fromkeys([_pick(frame, first), _pick(frame, second)][: 1 + first % 2]))


def _filter(frame: Any, right: Any, first: int, second: int) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return frame.where(F.hash(_pick(frame, first)) % 3 != second % 3)


def _derive(frame: Any, right: Any, first: int, second: int) -> Any:
    """A column of another: added, or in its place; injective, or not."""
    from pyspark.sql import functions as F  # noqa: N812

    name, column = _pick(frame, first), F.col(_pick(frame, first))
    made = [column, F.coalesce(column.cast("string"), F.lit("-")), F.length(column.cast("string"))][second % 3]
    return frame.withColumn(name if second % 2 else _new(frame, "x"), made)


def _swap(frame: Any, right: Any, first: int, second: int) -> Any:
    """Two columns exchange their names."""
    one, two = _pick(frame, first), _pick(frame, second)
    names = {one: two, two: one}
    return frame.toDF(*(names.get(name, name) for name in frame.columns))


def _group(frame: Any, right: Any, first: int, second: int) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return frame.groupBy(*_keys(frame, first, second)).agg(
        F.count(F.lit(1)).alias(_new(frame, "n")), F.max(_pick(frame, second)).alias(_new(frame, "m"))
    )


def _distinct(frame: Any, right: Any, first: int, second: int) -> Any:
    return frame.select(*_keys(frame, first, second)).distinct()


def _window(frame: Any, right: Any, first: int, second: int) -> Any:
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    window = Window.partitionBy(*_keys(frame, first, second))
    made = F.count(F.lit(1)).over(window) if second % 2 else F.rank().over(window.orderBy(*frame.columns))
    return frame.withColumn(_new(frame, "r"), made)


def _all(frame: Any, right: Any, first: int, second: int) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return frame.agg(F.max(_pick(frame, first)).alias("all"))


def _limit(frame: Any, right: Any, first: int, second: int) -> Any:
    return frame.orderBy(*frame.columns).limit(1 + first)


def _explode(frame: Any, right: Any, first: int, second: int) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return frame.withColumn(_new(frame, "e"), F.explode(F.sequence(F.lit(0), F.lit(first % 3))))


def _join(frame: Any, right: Any, first: int, second: int) -> Any:
    """With the other table under names of its own, by one pair of columns or two."""
    from pyspark.sql import functions as F  # noqa: N812

    other = right.toDF(*(_new(frame, name) for name in right.columns))
    if first % 3 == 2:
        other = F.broadcast(other)
    condition = F.col(_pick(frame, first)).cast("string") == F.col(_pick(other, second)).cast("string")
    if first % 3 != 1:
        condition = F.col(_pick(frame, 0)) == F.col(_pick(other, first // 3 % 2))
        if second % 3 == 1:
            condition = condition & (F.col(_pick(frame, 1)) == F.col(_pick(other, 1)))
    return frame.join(other, condition, KINDS[second % len(KINDS)])


def _semi_join(frame: Any, right: Any, first: int, second: int) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    name = _new(frame, "other")
    other = right.select(F.col(_pick(right, second)).alias(name))
    return frame.join(other, F.col(_pick(frame, first)) == F.col(name), "semi")


def _union(frame: Any, right: Any, first: int, second: int) -> Any:
    """With columns of the other table in the place of its own, or with itself."""
    from pyspark.sql import functions as F  # noqa: N812

    names = list(dict.fromkeys([_pick(frame, first), _pick(frame, first + 1)]))
    if second % 3 == 0:
        return frame.select(*names).union(frame.where(F.hash(names[-1]) % 2 == 0).select(*names))
    own = [F.col(name).cast("string").alias(f"u{place}") for place, name in enumerate(names)]
    others = [F.col(_pick(right, second + place)).cast("string") for place in range(len(own))]
    return frame.select(*own).union(right.select(*others))


def _set(frame: Any, right: Any, first: int, second: int) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    one = frame.select(F.col(_pick(frame, first)).alias("s"))
    two = right.select(F.col(_pick(right, second)))
    return [one.exceptAll, one.subtract, one.intersect, one.intersectAll][first % 4](two)


def _lookup(frame: Any, right: Any, first: int, second: int) -> Any:
    """The other table aggregated, then joined."""
    from pyspark.sql import functions as F  # noqa: N812

    key = _pick(right, second)
    name = _new(frame, "k")
    other = right.groupBy(F.col(key).alias(name)).agg(F.count(F.lit(1)).alias(_new(frame, "kn")))
    return frame.join(other, F.col(_pick(frame, first)) == F.col(name), KINDS[first % 2])


OPERATORS: Mapping[str, Callable[[Any, Any, int, int], Any]] = {
    "filter": _filter,
    "derive": _derive,
    "swap": _swap,
    "group": _group,
    "distinct": _distinct,
    "window": _window,
    "all": _all,
    "limit": _limit,
    "explode": _explode,
    "join": _join,
    "semi_join": _semi_join,
    "union": _union,
    "set": _set,
    "lookup": _lookup,
}
READS_RIGHT = {"join", "semi_join", "set", "lookup"}
SELDOM = {"all", "limit"}
"""Refused nearly always, with everything around them."""


def split_rows(rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str], edge: Edge, parts: int) -> list[list[Any]]:
    """What each subtask gets. Any function of the keys will do for a hash edge, and any dealing out for a rebalance."""
    if edge.partitioning is Partitioning.BROADCAST:
        return [list(rows)] * parts
    places = [list(columns).index(name) for name in edge.names(columns)]
    dealt: list[list[Any]] = [[] for _ in range(parts)]
    for number, row in enumerate(rows):
        by_key = sum(map(ord, repr(tuple(row[place] for place in places))))
        dealt[(by_key if edge.partitioning is Partitioning.HASH else number) % parts].append(row)
    return dealt
