"""Rows that come from none of the inputs: each subtask would have all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.proof.transforms import sql

pytestmark = [pytest.mark.spark, pytest.mark.sample]

RATES = "customer INT, rate DOUBLE"


@pytest.fixture
def files(session: Any, tmp_path: Path) -> str:
    """A table as Parquet files."""
    folder = str(tmp_path / "rates")
    session.createDataFrame([(1, 0.5), (2, 0.7)], RATES).write.parquet(folder)
    return folder


@pytest.mark.parametrize("use", ["joined", "returned", "by SQL"])
def test_a_read_inside_of_a_transform_is_refused_with_both_ways_to_say_it(
    refusal: Callable[..., str], files: str, use: str
) -> None:
    def joined(orders: Any) -> Any:
        return orders.join(orders.sparkSession.read.parquet(files), "customer")

    def returned(orders: Any) -> Any:
        return orders.select("customer").union(orders.sparkSession.read.parquet(files).select("customer"))

    by_sql = sql(f"SELECT o.id, r.rate FROM {{orders}} o JOIN parquet.`{files}` r ON o.customer = r.customer")
    message = refusal({"joined": joined, "returned": returned, "by SQL": by_sql}[use])
    assert message.startswith("vertex 'step' cannot run in parts: a read of files or tables (Scan parquet) at ")
    assert message.endswith(
        " would read all of it in every subtask, without being measured or recomputed. To fix it, give the vertex "
        "source=Files(...), or make the read a vertex of its own and take it with broadcast(); or set "
        "VertexOptions(parallelism=1)"
    )


RETURNED: dict[str, Callable[..., Any]] = {
    "a local DataFrame": lambda orders: orders.select("customer", "amount").union(
        orders.sparkSession.createDataFrame([(0, 1.0)], RATES)
    ),
    "VALUES": sql("SELECT customer, amount FROM {orders} UNION ALL VALUES (0, 1.0D)"),
    "a range": lambda events: events.select("id").unionByName(events.sparkSession.range(3)),
    "a header": lambda source: source.sparkSession.sql("SELECT 'id' AS id").union(source.selectExpr("string(id)")),
}


@pytest.mark.parametrize("rows", RETURNED)
def test_local_rows_that_are_returned_are_refused(refusal: Callable[..., str], rows: str) -> None:
    message = refusal(RETURNED[rows])
    assert "a union of divided rows with rows that every subtask has (a broadcast input, local rows)" in message
    assert "would give the latter once for each subtask" in message
    assert "or make the rows a source" in message


@pytest.mark.parametrize("how", ["full", "right"])
def test_local_rows_that_a_join_keeps_are_refused(refusal: Callable[..., str], how: str) -> None:
    def transform(orders: Any) -> Any:
        return orders.join(orders.sparkSession.createDataFrame([(0, 1.0)], RATES), "customer", how)

    message = refusal(transform)
    assert "join that keeps rows of a side that every subtask has" in message
    assert "swap the sides so that the join keeps the divided side" in message


@pytest.mark.parametrize("how", ["inner", "left", "left_semi", "left_anti"])
def test_local_rows_that_are_looked_up_pass(prove: Callable[..., Any], how: str) -> None:
    def transform(events: Any) -> Any:
        return events.join(events.sparkSession.createDataFrame([(0, 1.0)], RATES), "customer", how)

    assert prove(transform).exempt is None


@pytest.mark.parametrize("action", ["tail", "head", "take", "first", "count", "collect"])
def test_an_action_is_refused_because_there_are_no_rows_yet(refusal: Callable[..., str], action: str) -> None:
    def transform(orders: Any) -> Any:
        getattr(orders, action)(*([3] if action in ("tail", "head", "take") else []))
        return orders

    message = refusal(transform)
    assert "its transform runs an action (count, collect, show, toPandas, ...)" in message
    assert "expected a function that only builds a DataFrame" in message
