"""Which inputs may be spread over several subtasks, part by part, while the others are read whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_abs.spark.proof import prove
from airflow_abs.spark.proof.prover import marker_name
from airflow_abs.spark.proof.spreading import find_spreads
from tests.spark.proof.conftest import prove_step
from tests.spark.proof.transforms import by_customer, functions, same, sql

pytestmark = pytest.mark.spark


def joined(how: str) -> Callable[..., Any]:
    def join(orders: Any, customers: Any) -> Any:
        return orders.join(customers.drop("region"), "customer", how)

    return join


def twice(orders: Any, customers: Any) -> Any:
    named = customers.select("customer", "name")
    return orders.join(named, "customer").select("id").union(orders.join(named, "customer", "left").select("id"))


def counted_side(orders: Any, customers: Any) -> Any:
    return orders.join(customers.groupBy("customer").count(), "customer", "left")


def ranked(orders: Any, customers: Any) -> Any:
    return joined("inner")(orders, customers).withColumn("n", functions().row_number().over(by_customer("id")))


def self_join(orders: Any, customers: Any) -> Any:
    total = orders.select("customer", functions().col("id").alias("other"))
    return orders.join(total, "customer").join(customers.select("customer"), "customer")


def drawn(orders: Any, customers: Any) -> Any:
    return orders.join(customers.where(functions().rand(7) < 0.5).select("customer"), "customer")


def cogrouped(orders: Any, customers: Any) -> Any:
    groups = orders.groupBy("customer").cogroup(customers.groupBy("customer"))
    return groups.applyInPandas(lambda left, right: left, orders.schema)


MAY: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "an inner join: either side": (joined("inner"), {"orders", "customers"}),
    "a left join: the left side": (joined("left"), {"orders"}),
    "a right join: the right side": (joined("right"), {"customers"}),
    "a semi join: the left side": (joined("left_semi"), {"orders"}),
    "an anti join: the left side": (joined("left_anti"), {"orders"}),
    "a full join: neither": (joined("full"), set()),
    "a null-safe join": (
        sql("SELECT o.id, c.name FROM {orders} o LEFT JOIN {customers} c ON o.customer <=> c.customer"),
        {"orders"},
    ),
    "with a broadcast join, filters, projections and functions of rows around it": (
        lambda orders, customers, rates: (
            orders.where("amount > 3")
            .join(customers.drop("region"), "customer")
            .join(rates, "customer", "left")
            .withColumn("value", functions().udf(lambda value: value, "double")("amount"))
            .where("value > 1")
            .select("id", "value", functions().explode(functions().array("id", "id")).alias("copy"))
        ),
        {"orders", "customers"},
    ),
    "two joins with a third input": (
        lambda orders, customers, longs: orders.join(customers.drop("region"), "customer", "left").join(
            longs, "customer", "left"
        ),
        {"orders"},
    ),
    "EXISTS in SQL": (
        sql("SELECT * FROM {orders} o WHERE EXISTS (SELECT 1 FROM {customers} c WHERE c.customer = o.customer)"),
        {"orders"},
    ),
    "a union of two joins of the same inputs": (twice, {"orders"}),
    "an aggregate of the other side": (counted_side, {"orders"}),
    "a union of both inputs: neither": (
        lambda orders, customers: orders.select("customer").union(customers.select("customer")),
        set(),
    ),
    "an aggregate of the join": (
        lambda orders, customers: orders.join(customers, "customer").groupBy("customer").count(),
        set(),
    ),
    "distinct rows of the join": (
        lambda orders, customers: orders.join(customers, "customer").select("customer", "name").distinct(),
        set(),
    ),
    "a window over the join": (ranked, set()),
    "a join of the input with itself: the other side alone": (self_join, {"customers"}),
    "a function of groups of both": (cogrouped, set()),
    "a function over partitions": (
        lambda orders, customers: orders.join(customers.select("customer"), "customer").mapInPandas(
            same, orders.schema
        ),
        set(),
    ),
    "a value that each part would draw for itself": (drawn, set()),
    "intersect": (lambda pairs, others: pairs.intersect(others), set()),
    "rows that are passed on need no key": (lambda orders: orders.where("id > 3"), {"orders"}),
    "a semi join that keeps broadcast rows": (lambda orders, rates: rates.join(orders, "customer", "left_semi"), set()),
    "a source beside them is divided in any way": (
        lambda source, customers, longs: (
            customers.join(longs, "customer").select("customer").union(source.select("customer"))
        ),
        {"customers", "longs"},
    ),
}


@pytest.mark.parametrize("what", MAY)
def test_an_input_may_be_spread_if_every_part_is_right_with_all_rows_of_the_others(session: Any, what: str) -> None:
    transform, may = MAY[what]
    proof = prove_step(session, transform)
    spread = {proof_input(proof, placeholder) for placeholder, why in proof.spreads.items() if why is None}
    assert spread == may
    assert all(why is None or why for why in proof.spreads.values())


def proof_input(proof: Any, placeholder: str) -> str:
    return str(proof.markers[marker_name("divided", placeholder)].input)


@pytest.mark.sample
@pytest.mark.parametrize(
    ("transform", "why"),
    [
        (
            joined("full"),
            "a full outer join that keeps rows of a side that every subtask has",
        ),
        (MAY["an aggregate of the join"][0], "an aggregate (groupBy, agg, count, ...)"),
        (ranked, "a window"),
        (MAY["a function over partitions"][0], "a function over partitions (mapInPandas())"),
        (drawn, "rand() would be another value in each part"),
    ],
)
def test_the_reason_says_what_stands_against_it(session: Any, transform: Callable[..., Any], why: str) -> None:
    reasons = set(prove_step(session, transform).spreads.values())
    assert len(reasons) == 1
    assert str(reasons.pop()).startswith(why)


def test_a_step_that_asks_nothing_of_its_rows_is_not_spread_where_the_author_takes_each_part(session: Any) -> None:
    proof = prove_step(session, joined("inner"), per_subtask=True)
    assert set(proof.spreads.values()) == {"per_subtask=True"}
    assert set(prove_step(session, joined("inner"), parallelism=1).spreads.values()) == {"parallelism=1"}


@pytest.mark.sample
def test_the_answer_takes_no_request(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    explain = type(session.client)._analyze

    def counting(client: Any, method: str, **given: Any) -> Any:
        asked.append(method)
        return explain(client, method, **given)

    def found(*given: Any) -> dict[str, str | None]:
        before = len(asked)
        assert before > 0
        spreads = find_spreads(*given)
        assert len(asked) == before
        return spreads

    monkeypatch.setattr(type(session.client), "_analyze", counting)
    monkeypatch.setattr(prove, "find_spreads", found)
    assert None in prove_step(session, joined("left")).spreads.values()
