"""A key is counted by each subtask for itself: right only where its rows are in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_abs.core.expect.expectations import Expectation, Unique, read_expectations

pytestmark = [pytest.mark.spark, pytest.mark.sample]


def unique(*columns: str) -> tuple[Expectation, ...]:
    return read_expectations("step", {"one": Unique(*columns)})


def same(orders: Any) -> Any:
    return orders


@pytest.mark.parametrize("columns", [("customer",), ("region", "customer")])
def test_a_key_that_holds_the_columns_of_the_hash_passes(prove: Callable[..., Any], columns: tuple[str, ...]) -> None:
    prove(same, expectations=unique(*columns))


def test_a_key_that_the_transform_has_brought_together_passes(prove: Callable[..., Any]) -> None:
    prove(
        lambda orders: orders.groupBy("customer").count().withColumnRenamed("customer", "c"), expectations=unique("c")
    )


def test_another_key_is_refused_with_the_edge_to_write(refusal: Callable[..., str]) -> None:
    assert refusal(same, expectations=unique("id")) == (
        "vertex 'step': expectation 'one' (Unique(id)) cannot be counted in parts: rows with the same id may be in "
        "several subtasks (here orders is hashed by customer). To fix it, read the input with hash('id'); or give the "
        "expectation to a vertex after it whose input is hash('id'); or set VertexOptions(parallelism=1)"
    )


def test_files_of_a_source_hold_any_keys(refusal: Callable[..., str]) -> None:
    assert "(Unique(id)) cannot be counted in parts" in refusal(lambda source: source, expectations=unique("id"))


def test_one_subtask_holds_all_keys(prove: Callable[..., Any]) -> None:
    prove(same, expectations=unique("id"), parallelism=1)


def test_a_part_that_is_wanted_as_it_is_shows_no_keys(refusal: Callable[..., str]) -> None:
    message = refusal(same, expectations=unique("customer"), per_subtask=True)
    assert "(Unique(customer)) cannot be counted in parts" in message


def test_a_key_that_is_counted_is_shared_by_no_two_subtasks(prove: Callable[..., Any]) -> None:
    def joined(orders: Any, customers: Any) -> Any:
        return orders.join(customers.drop("region"), "customer")

    proof = prove(joined, expectations=unique("customer"), join="inner")
    assert set(proof.spreads.values()) == {"the expectation 'one' needs all rows of a key in one subtask"}
