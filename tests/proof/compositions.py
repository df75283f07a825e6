"""Random transforms: two to six operators over two small tables that reach them by random edges.

A composition is plain data, which a failure prints. A step's numbers choose columns (modulo how
many there are at that point), so nearly any numbers make a transform that Spark can analyse; some types cannot be
compared or ordered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from airflow_abs.core.graph.partitioning import Partitioning
from tests.proof.key_kinds import KEY_KINDS

KINDS = ("inner", "left", "right", "full", "semi", "anti")
PLAIN = "int and bigint"
LEFT = {"a": "int", "b": "int", "c": "string", "v": "bigint"}
RIGHT = {"a": "bigint", "b": "int", "d": "string", "w": "bigint"}
"""Columns, where the kind of the first is `PLAIN`."""
_COMPARED = {"tinyint", "smallint", "int", "bigint", "float", "double", "string"}
"""Types of which Spark compares any two."""


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
    """Both tables, by the kind of their first column (`KEY_KINDS`), and what is made of them."""

    left: Edge
    right: Edge
    steps: tuple[Step, ...]
    kind: str = PLAIN

    @property
    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """Types by table and column."""
        kind = KEY_KINDS[self.kind]
        return {"left": LEFT | {"a": kind.left}, "right": RIGHT | {"a": kind.right}}

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


def _equal(frame: Any, one: str, other_frame: Any, other: str) -> Any:
    """As text where Spark has no common type for them."""
    from pyspark.sql import functions as F  # noqa: N812

    kinds = {dict(frame.dtypes)[one], dict(other_frame.dtypes)[other]}
    if len(kinds) == 1 or kinds <= _COMPARED:
        return F.col(one) == F.col(other)
    return F.col(one).cast("string") == F.col(other).cast("string")


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
        condition = _equal(frame, _pick(frame, 0), other, _pick(other, first // 3 % 2))
        if second % 3 == 1:
            condition = condition & _equal(frame, _pick(frame, 1), other, _pick(other, 1))
    return frame.join(other, condition, KINDS[second % len(KINDS)])


def _semi_join(frame: Any, right: Any, first: int, second: int) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    name = _new(frame, "other")
    other = right.select(F.col(_pick(right, second)).alias(name))
    return frame.join(other, _equal(frame, _pick(frame, first), other, name), "semi")


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
    return frame.join(other, _equal(frame, _pick(frame, first), other, name), KINDS[first % 2])


def _pandas_by_key(frame: Any, right: Any, first: int, second: int) -> Any:
    """A function over partitions, which counts by key: its author brings equal keys together, or all rows."""
    keys = _keys(frame, first, second)
    together = [frame.repartition(*keys), frame.repartition(3, *keys), frame.coalesce(1)][second % 3]
    return together.select(*_texts(keys)).mapInPandas(_count_each, "k STRING, n BIGINT")


def _arrow_total(frame: Any, right: Any, first: int, second: int) -> Any:
    """A function that counts all rows of its one partition."""
    texts = frame.select(*_texts([_pick(frame, first)]))
    return [texts.coalesce(1), texts.repartition(1)][second % 2].mapInArrow(_count_all, "n BIGINT")


def _arrow_rows(frame: Any, right: Any, first: int, second: int) -> Any:
    """A function that treats row by row, whatever its partition holds; the key may pass by."""
    chosen = frame.select(_pick(frame, first), _pick(frame, second + 1)).toDF("p", "q")
    return [chosen, chosen.coalesce(1)][second % 2].mapInArrow(_keep_all, chosen.schema)


def _pandas_groups(frame: Any, right: Any, first: int, second: int) -> Any:
    """A function over groups, whose author moves rows before."""
    moved = [frame, frame.coalesce(1), frame.repartition(2, _pick(frame, second))][second % 3]
    return moved.groupBy(*_keys(frame, first, second)).applyInPandas(_count_group, "n BIGINT")


def _texts(names: list[str]) -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812

    return [F.coalesce(F.col(name).cast("string"), F.lit("-")).alias(f"t{place}") for place, name in enumerate(names)]


def _count_each(frames: Iterator[Any]) -> Iterator[Any]:
    import pandas as pd

    counted: Counter[str] = Counter()
    for frame in frames:
        counted.update("/".join(row) for row in frame.itertuples(index=False))
    yield pd.DataFrame({"k": list(counted), "n": list(counted.values())}).astype({"k": "object", "n": "int64"})


def _count_all(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"n": [sum(batch.num_rows for batch in batches)]})


def _keep_all(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _count_group(frame: Any) -> Any:
    import pandas as pd

    return pd.DataFrame({"n": [len(frame)]})


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
    "pandas_by_key": _pandas_by_key,
    "arrow_total": _arrow_total,
    "arrow_rows": _arrow_rows,
    "pandas_groups": _pandas_groups,
}
READS_RIGHT = {"join", "semi_join", "set", "lookup"}
LOSES_KEYS = {"all", "limit", "arrow_total", "arrow_rows", "pandas_by_key", "union", "set"}
"""After these the rows are no longer by the key of their edge; the first three are refused nearly always."""
