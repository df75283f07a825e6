"""What the example DAGs must have written, said once more as DuckDB queries, and a row-for-row comparison."""

# ruff: noqa: S608 -- the SQL is put together from our own queries and paths

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHOWN_ROWS = 5

_REVENUE = """
SELECT region, order_date AS day, count(*) AS orders, sum(amount)::DECIMAL(22,2) AS revenue,
       max(amount)::DECIMAL(12,2) AS largest_order
FROM orders JOIN customers USING (customer_id) WHERE status IN ('F', 'O') GROUP BY ALL
"""
_DIAMOND = """
WITH spend AS (SELECT customer_id, count(*) AS valid_orders, sum(amount)::DECIMAL(22,2) AS spend
               FROM orders WHERE status IN ('F', 'O') GROUP BY ALL),
     latest AS (SELECT customer_id, order_id AS latest_order, amount AS latest_amount, priority AS latest_priority
                FROM orders QUALIFY row_number() OVER (PARTITION BY customer_id ORDER BY order_id DESC) = 1)
SELECT customer_id, valid_orders, spend, latest_order, latest_amount, latest_priority
FROM spend FULL OUTER JOIN latest USING (customer_id)
"""
_PIPELINED = """
WITH spend AS (SELECT customer_id, count(*) AS orders, sum((amount * 0.8)::DECIMAL(14,3)) AS net
               FROM orders WHERE status IN ('F', 'O') GROUP BY ALL)
SELECT CASE WHEN net < 50000 THEN 'small' WHEN net < 250000 THEN 'middle' ELSE 'large' END AS class,
       count(*) AS customers, sum(orders)::BIGINT AS orders, sum(net)::DECIMAL(34,3) AS net
FROM spend GROUP BY ALL
"""

# By DAG id, over the day's `orders` and all `customers`.
QUERIES: Mapping[str, str] = {
    "daily_revenue": _REVENUE,
    "taskflow_revenue": _REVENUE,
    "diamond": _DIAMOND,
    "pipelined": _PIPELINED,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`problem` is None if the output is right; else it says what differs, with the first rows that do."""

    rows: int
    problem: str | None = None

    @property
    def ok(self) -> bool:
        return self.problem is None


def verify(dag_id: str, day: date, data: Path, output: Path) -> Verdict:
    """Compare the Parquet files below `output` with the DAG's query over the data that `generate` made at `data`.

    Equal means: the same columns in the same order with the same types, and the same rows as often (in any order).

    Raises:
        KeyError: `dag_id` is not one of `QUERIES`.
    """
    import duckdb

    query = QUERIES[dag_id]
    files = sorted(str(file) for file in output.rglob("*.parquet")) if output.exists() else []
    if not files:
        return Verdict(0, f"{dag_id} {day}: no Parquet file below {output}; expected the committed output of the run")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW orders AS SELECT * EXCLUDE ds FROM '{data}/orders/ds={day}/*.parquet'")
        connection.execute(f"CREATE VIEW customers AS SELECT * FROM '{data}/customers/*.parquet'")
        connection.execute(f"CREATE TABLE expected AS {query}")
        connection.execute(f"CREATE TABLE actual AS SELECT * FROM read_parquet({files!r}, hive_partitioning = false)")
        return compare(connection, f"{dag_id} {day}")


def compare(connection: DuckDBPyConnection, name: str) -> Verdict:
    """Compare the tables `actual` and `expected` of `connection`; `name` opens the message."""
    columns = {table: _columns(connection, table) for table in ("actual", "expected")}
    if columns["actual"] != columns["expected"]:
        return Verdict(0, f"{name}: columns are {columns['actual']}, expected {columns['expected']}")
    rows = len(connection.execute("SELECT 1 FROM actual").fetchall())
    extra = connection.execute("SELECT * FROM actual EXCEPT ALL SELECT * FROM expected").fetchall()
    missing = connection.execute("SELECT * FROM expected EXCEPT ALL SELECT * FROM actual").fetchall()
    if not extra and not missing:
        return Verdict(rows)
    return Verdict(
        rows,
        f"{name}: of {rows} rows {len(extra)} are not expected, {len(missing)} are missing; "
        f"not expected: {_sample(extra)}; missing: {_sample(missing)}",
    )


def _columns(connection: DuckDBPyConnection, table: str) -> str:
    described = connection.execute(f"DESCRIBE {table}").fetchall()
    return ", ".join(f"{name} {kind}" for name, kind, *_ in described)


def _sample(rows: list[tuple[object, ...]]) -> str:
    shown = ", ".join(str(tuple(map(str, row))) for row in sorted(rows, key=str)[:SHOWN_ROWS])
    return (shown or "none") + (", ..." if len(rows) > SHOWN_ROWS else "")
