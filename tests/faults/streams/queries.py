"""Three stateful queries over files with a known answer: a windowed count, a join of two streams, a deduplication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

SCHEMA = "id BIGINT, key BIGINT, at TIMESTAMP"
ROWS = 100
FIRST_SECOND = 1767225600
FLUSH = 10_000_000
"""Ids of the rows that close the last window: much later than all others, and in nobody's answer."""


def counted_by_window(orders: Any) -> Any:
    from pyspark.sql import functions as sf

    counts = orders.withWatermark("at", "10 seconds").groupBy(sf.window("at", "60 seconds"), "key").count()
    return counts.select(sf.unix_timestamp("window.start").alias("start"), "key", "count")


def joined_with_itself(orders: Any) -> Any:
    from pyspark.sql import functions as sf

    left = orders.withWatermark("at", "5 minutes").alias("l")
    right = orders.where("key = 3").withWatermark("at", "5 minutes").alias("r")
    near = sf.expr("l.key = r.key AND r.at BETWEEN l.at AND l.at + INTERVAL 30 SECONDS")
    return left.join(right, near).select(sf.col("l.id").alias("left"), sf.col("r.id").alias("right"))


def without_repeated(orders: Any) -> Any:
    return orders.withWatermark("at", "1 day").dropDuplicates(["id", "at"]).select("id", "key")


@dataclass(frozen=True, slots=True)
class Query:
    """`answer` is DuckDB's, over `{orders}`; with `repeats` every other file has the rows of the one before it."""

    name: str
    transform: Callable[[Any], Any]
    answer: str
    repeats: bool = False


QUERIES = (
    Query(
        "count",
        counted_by_window,
        f"SELECT {FIRST_SECOND} + 60 * (id // 60) AS start, key, count(*) FROM {{orders}} GROUP BY ALL",
    ),
    Query(
        "join",
        joined_with_itself,
        "SELECT l.id, r.id FROM {orders} l JOIN {orders} r ON l.key = r.key AND r.key = 3 "
        "AND r.at BETWEEN l.at AND l.at + INTERVAL 30 SECOND",
    ),
    Query("distinct", without_repeated, "SELECT DISTINCT id, key FROM {orders}", repeats=True),
)


def write_file(place: Path, first: int, number_of_rows: int = ROWS) -> None:
    """Rows with ids from `first` on, a second apart; whole at once, also in the place of another file."""
    hidden = place.with_name(f".{place.name}")
    key = 0 if first >= FLUSH else "i % 7"
    rows = (
        f"SELECT {first} + i AS id, {key}::BIGINT AS key, to_timestamp({FIRST_SECOND} + {first} + i) AS at "
        f"FROM range({number_of_rows}) t(i)"
    )
    duckdb.sql(f"COPY ({rows}) TO '{hidden}' (FORMAT parquet)")
    hidden.rename(place)


def answer(query: Query, source: Path) -> list[tuple[Any, ...]]:
    orders = f"(SELECT * FROM read_parquet('{source}/*.parquet') WHERE id < {FLUSH})"
    return sorted(duckdb.sql(query.answer.format(orders=orders)).fetchall())
