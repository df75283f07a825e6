"""What is measured: tables, the steps over them, and what must come out, said once more as SQL for DuckDB.

The steps are data, so that every peer runs the same functions over the same edges: ours as vertices, the others as
tasks, as slices, or as one Spark job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks import transforms

HOT_CUSTOMER = 1
# As in TPC-DS' store_sales: so many NULLs make the largest of 128 hash buckets 6.7 times the mean.
NULL_PERCENT = 4.5


@dataclass(frozen=True, slots=True)
class Read:
    """How a step reads another one's output: by hash of these columns, or whole if there are none."""

    step: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One transform. It reads either the table `source` or the outputs of other steps, by input name."""

    name: str
    transform: Callable[..., Any]
    source: str = ""
    inputs: Mapping[str, Read] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workload:
    """Steps in topological order, the last one's output is the result. `tables` are queries over TPC-H's tables,
    `oracle` is one over `tables`."""

    name: str
    tables: Mapping[str, str]
    steps: tuple[Step, ...]
    oracle: str

    @property
    def last(self) -> Step:
        return self.steps[-1]

    def step(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)


def compose(workload: Workload, read: Callable[[str], Any]) -> Any:
    """The whole workload as one DataFrame; `read` opens a table."""
    frames: dict[str, Any] = {}
    for step in workload.steps:
        frames[step.name] = apply(step, read, frames.__getitem__)
    return frames[workload.last.name]


def apply(step: Step, read_table: Callable[[str], Any], read_step: Callable[[str], Any]) -> Any:
    """The step's DataFrame over what these two open."""
    if step.source:
        return step.transform(read_table(step.source))
    return step.transform(**{name: read_step(edge.step) for name, edge in step.inputs.items()})


_ORDERS = "SELECT o_orderkey, o_custkey, o_orderdate, o_totalprice, o_orderpriority FROM orders"
_ITEMS = """SELECT l_orderkey, l_partkey, l_quantity, l_extendedprice, l_discount, l_shipdate, l_shipmode
            FROM lineitem"""
_CUSTOMERS = "SELECT c_custkey, c_name, c_mktsegment, c_nationkey FROM customer"
_SALES = """SELECT l_orderkey * 8 + l_linenumber AS sale_id, {customer} AS customer_id,
                   l_extendedprice::DECIMAL(15,2) AS amount, l_quantity AS quantity, l_shipmode
            FROM lineitem JOIN orders ON l_orderkey = o_orderkey"""
# A number from 0 up to 1000 for every sale, the same in every run.
_CHANCE = "hash(l_orderkey * 8 + l_linenumber) % 1000"

_CUSTOMERS_STEP = Step("customers", transforms.segments, "customer")

CHAIN = Workload(
    "chain",
    {"orders": _ORDERS, "lineitem": _ITEMS, "customer": _CUSTOMERS},
    (
        Step("orders", transforms.valid_orders, "orders"),
        Step("items", transforms.priced_items, "lineitem"),
        _CUSTOMERS_STEP,
        Step(
            "revenue",
            transforms.revenue_of_orders,
            inputs={
                "orders": Read("orders", ("o_orderkey",)),
                "items": Read("items", ("l_orderkey",)),
                "customers": Read("customers"),
            },
        ),
        Step(
            "by_segment", transforms.revenue_by_segment, inputs={"revenue": Read("revenue", ("c_mktsegment", "month"))}
        ),
    ),
    """
    WITH revenue AS (
        SELECT c_mktsegment, date_trunc('month', o_orderdate)::DATE AS month,
               sum((l_extendedprice * (1 - l_discount))::DECIMAL(18,4)) AS revenue
        FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
        WHERE o_orderdate < DATE '1998-01-01' AND l_shipdate > DATE '1992-06-01'
        GROUP BY o_orderkey, o_orderdate, c_mktsegment)
    SELECT c_mktsegment, month, count(*) AS orders, sum(revenue)::DECIMAL(38,4) AS revenue,
           max(revenue)::DECIMAL(28,4) AS largest
    FROM revenue GROUP BY ALL""",
)

Q18 = Workload(
    "q18",
    {"orders": _ORDERS, "lineitem": _ITEMS, "customer": _CUSTOMERS},
    (
        Step("orders", transforms.keyed_orders, "orders"),
        Step("items", transforms.quantities, "lineitem"),
        _CUSTOMERS_STEP,
        Step("large", transforms.large_orders, inputs={"items": Read("items", ("l_orderkey",))}),
        Step(
            "picked",
            transforms.picked_orders,
            inputs={"orders": Read("orders", ("o_orderkey",)), "large": Read("large", ("l_orderkey",))},
        ),
        Step(
            "by_customer",
            transforms.large_customers,
            inputs={"picked": Read("picked", ("o_custkey",)), "customers": Read("customers", ("c_custkey",))},
        ),
    ),
    """
    WITH large AS (SELECT l_orderkey, sum(l_quantity)::DECIMAL(25,2) AS quantity FROM lineitem GROUP BY ALL
                   HAVING quantity > 200)
    SELECT c_custkey, c_mktsegment, count(*) AS orders, sum(quantity)::DECIMAL(35,2) AS quantity,
           sum(o_totalprice)::DECIMAL(25,2) AS spend
    FROM large JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
    GROUP BY ALL""",
)

WHOLE_TABLES = Workload(
    "whole_tables",
    {"orders": "FROM orders", "lineitem": "FROM lineitem", "customer": "FROM customer"},
    (
        Step("orders", transforms.shipped_orders, "orders"),
        Step("items", transforms.shipped_items, "lineitem"),
        Step("customers", transforms.solvent_customers, "customer"),
        Step(
            "joined",
            transforms.orders_with_all,
            inputs={
                "orders": Read("orders", ("o_orderkey",)),
                "items": Read("items", ("l_orderkey",)),
                "customers": Read("customers"),
            },
        ),
        Step(
            "by_segment",
            transforms.spend_by_segment,
            inputs={"joined": Read("joined", ("c_mktsegment", "o_orderpriority"))},
        ),
    ),
    """
    SELECT c_mktsegment, o_orderpriority, count(*) AS items, sum(l_extendedprice)::DECIMAL(38,2) AS price,
           max(l_quantity) AS largest
    FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
    WHERE o_orderdate < DATE '1998-01-01' AND l_shipdate > DATE '1992-06-01' AND c_acctbal > 0
    GROUP BY ALL""",
)
"""Steps as people write them: whole tables, and no `select`."""

_STORE_SALES = """
    SELECT CASE WHEN {chance} >= 45 THEN 2448623 + date_diff('day', DATE '1992-01-01', l_shipdate)::INT END
               AS ss_sold_date_sk,
           (28800 + hash(l_orderkey) % 46800)::INT AS ss_sold_time_sk, l_partkey::INT AS ss_item_sk,
           CASE WHEN hash(l_orderkey) % 1000 >= 45 THEN o_custkey::INT END AS ss_customer_sk,
           (1 + hash(o_custkey) % 1920800)::INT AS ss_cdemo_sk, (1 + hash(o_custkey, 1) % 7200)::INT AS ss_hdemo_sk,
           (1 + hash(o_custkey, 2) % 50000)::INT AS ss_addr_sk, (1 + l_suppkey % 400)::INT AS ss_store_sk,
           (1 + {chance} % 300)::INT AS ss_promo_sk, l_orderkey AS ss_ticket_number, l_quantity::INT AS ss_quantity,
           (price * 0.6)::DECIMAL(7,2) AS ss_wholesale_cost, price::DECIMAL(7,2) AS ss_list_price,
           (price * (1 - l_discount))::DECIMAL(7,2) AS ss_sales_price,
           (price * l_discount * l_quantity)::DECIMAL(7,2) AS ss_ext_discount_amt,
           (price * (1 - l_discount) * l_quantity)::DECIMAL(7,2) AS ss_ext_sales_price,
           (price * 0.6 * l_quantity)::DECIMAL(7,2) AS ss_ext_wholesale_cost,
           (price * l_quantity)::DECIMAL(7,2) AS ss_ext_list_price,
           (price * l_tax * l_quantity)::DECIMAL(7,2) AS ss_ext_tax,
           CASE WHEN {chance} < 200 THEN price ELSE 0 END::DECIMAL(7,2) AS ss_coupon_amt,
           (price * (1 - l_discount) * l_quantity)::DECIMAL(7,2) AS ss_net_paid,
           (price * (1 - l_discount) * (1 + l_tax) * l_quantity)::DECIMAL(7,2) AS ss_net_paid_inc_tax,
           (price * (0.4 - l_discount) * l_quantity)::DECIMAL(7,2) AS ss_net_profit
    FROM (SELECT *, l_extendedprice / l_quantity / 10 AS price FROM lineitem JOIN orders ON l_orderkey = o_orderkey)"""
_DATES = """
    SELECT 2448623 + range::INT AS d_date_sk, day::DATE AS d_date, year(day)::INT AS d_year, month(day)::INT AS d_moy,
           day(day)::INT AS d_dom, dayofweek(day)::INT AS d_dow, quarter(day)::INT AS d_qoy, dayname(day) AS d_day_name
    FROM (SELECT range, DATE '1992-01-01' + range::INT AS day FROM range(2700))"""

STORE_SALES = Workload(
    "store_sales",
    {"store_sales": _STORE_SALES.format(chance=_CHANCE), "date_dim": _DATES, "customer": "FROM customer"},
    (
        Step("sales", transforms.paid_store_sales, "store_sales"),
        Step("dates", transforms.working_days, "date_dim"),
        Step("customers", transforms.solvent_customers, "customer"),
        Step(
            "joined",
            transforms.dated_sales,
            inputs={
                "sales": Read("sales", ("ss_customer_sk",)),
                "customers": Read("customers", ("c_custkey",)),
                "dates": Read("dates"),
            },
        ),
        Step(
            "by_month",
            transforms.sales_by_month,
            inputs={"joined": Read("joined", ("c_mktsegment", "d_year", "d_moy"))},
        ),
    ),
    """
    SELECT c_mktsegment, d_year, d_moy, count(*) AS sales, sum(ss_net_paid)::DECIMAL(17,2) AS paid,
           sum(ss_net_profit)::DECIMAL(17,2) AS profit, max(ss_quantity) AS largest
    FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk JOIN customer ON ss_customer_sk = c_custkey
    WHERE ss_net_paid > 50 AND d_dow BETWEEN 1 AND 5 AND c_acctbal > 0
    GROUP BY ALL""",
)
"""TPC-DS' `store_sales` in all its 23 columns and types, with its NULLs; the values are those of TPC-H's line items."""


def _sales(name: str, customer: str, enrich: Callable[..., Any], join: str) -> Workload:
    return Workload(
        name,
        {"sales": _SALES.format(customer=customer), "customer": _CUSTOMERS},
        (
            Step("sales", transforms.paid_sales, "sales"),
            _CUSTOMERS_STEP,
            Step(
                "enriched",
                enrich,
                inputs={"sales": Read("sales", ("customer_id",)), "customers": Read("customers", ("c_custkey",))},
            ),
            Step(
                "by_nation",
                transforms.sales_by_nation,
                inputs={"sales": Read("enriched", ("c_nationkey", "c_mktsegment"))},
            ),
        ),
        f"""SELECT c_nationkey, c_mktsegment, count(*) AS sales, sum(amount)::DECIMAL(25,2) AS amount,
                   max(quantity) AS largest
            FROM sales {join.upper()} JOIN customer ON customer_id = c_custkey WHERE amount > 0 GROUP BY ALL""",  # noqa: S608
    )


HOT_KEY = _sales(
    "hot_key",
    f"CASE WHEN {_CHANCE} < 400 THEN {HOT_CUSTOMER}::BIGINT ELSE o_custkey END",
    transforms.sales_of_customers,
    "inner",
)
NULL_KEY = _sales(
    "null_key",
    f"CASE WHEN {_CHANCE} >= {10 * NULL_PERCENT:.0f} THEN o_custkey END",
    transforms.all_sales,
    "left",
)

WORKLOADS: Mapping[str, Workload] = {
    each.name: each for each in (CHAIN, Q18, WHOLE_TABLES, STORE_SALES, NULL_KEY, HOT_KEY)
}


def chosen(names: Iterable[str]) -> list[Workload]:
    return [WORKLOADS[name] for name in names]
