"""Queries of TPC-H as DataFrame steps whose rows are grouped before they are joined, against DuckDB.

What a step says in SQL is text to the planner, so none of its inputs can be partial aggregates.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs.core.durability.prediction import JobHistory, RunHistory
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.sources.files import Files
from airflow_abs.testing.corpus_bench.runner import OPTIONS
from airflow_abs.testing.job_run import JobRun
from tests.job_runner import program_of
from tests.proof.queries import CONF, QueryBench, describe_answer, read_queries
from tests.proof.test_queries import AT
from tests.proof.tpch import tables as tpch

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

REVENUE = "CAST(l_extendedprice * (1 - l_discount) AS DECIMAL(20, 4)) AS revenue"


def q03_lines(lineitem: Any) -> Any:
    return lineitem.where("l_shipdate > DATE '1995-03-15'").selectExpr("l_orderkey", REVENUE)


def q03_orders(customer: Any, orders: Any) -> Any:
    early = orders.where("o_orderdate < DATE '1995-03-15'")
    joined = customer.where("c_mktsegment = 'BUILDING'").join(early, customer["c_custkey"] == early["o_custkey"])
    return joined.select("o_orderkey", "o_orderdate", "o_shippriority")


def q03_unshipped(q03_orders: Any, q03_lines: Any) -> Any:
    joined = q03_orders.join(q03_lines, q03_orders["o_orderkey"] == q03_lines["l_orderkey"])
    return joined.groupBy("l_orderkey", "o_orderdate", "o_shippriority").agg({"revenue": "sum"})


def q03_largest(q03_unshipped: Any) -> Any:
    found = q03_unshipped.selectExpr("l_orderkey", "`sum(revenue)` AS revenue", "o_orderdate", "o_shippriority")
    return found.orderBy(found["revenue"].desc(), "o_orderdate", "l_orderkey").limit(10)


def q05_lines(lineitem: Any) -> Any:
    return lineitem.selectExpr("l_orderkey", "l_suppkey", REVENUE)


def q05_orders(customer: Any, orders: Any) -> Any:
    of_year = orders.where("o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'")
    return customer.join(of_year, customer["c_custkey"] == of_year["o_custkey"]).select("o_orderkey", "c_nationkey")


def q05_by_nation(q05_orders: Any, q05_lines: Any, supplier: Any, nation: Any, region: Any) -> Any:
    from pyspark.sql import functions as sf

    lines = q05_orders.join(q05_lines, q05_orders["o_orderkey"] == q05_lines["l_orderkey"])
    local = lines.join(
        supplier, (sf.col("l_suppkey") == sf.col("s_suppkey")) & (sf.col("c_nationkey") == sf.col("s_nationkey"))
    )
    named = local.join(nation, sf.col("s_nationkey") == sf.col("n_nationkey"))
    of_asia = named.join(region.where("r_name = 'ASIA'"), sf.col("n_regionkey") == sf.col("r_regionkey"))
    return of_asia.groupBy("n_name").agg(sf.sum("revenue").alias("revenue"))


def q10_lines(lineitem: Any) -> Any:
    return lineitem.where("l_returnflag = 'R'").selectExpr("l_orderkey", REVENUE)


def q10_returned(orders: Any, q10_lines: Any) -> Any:
    from pyspark.sql import functions as sf

    of_quarter = orders.where("o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01'")
    joined = of_quarter.join(q10_lines, of_quarter["o_orderkey"] == q10_lines["l_orderkey"])
    sums = joined.groupBy("o_orderkey", "o_custkey").agg(sf.sum("revenue").alias("revenue"))
    return sums.selectExpr("o_custkey", "CAST(revenue AS DECIMAL(22, 4)) AS revenue")


def q10_lost(customer: Any, q10_returned: Any, nation: Any) -> Any:
    from pyspark.sql import functions as sf

    of_customers = customer.join(q10_returned, customer["c_custkey"] == q10_returned["o_custkey"])
    named = of_customers.join(nation, sf.col("c_nationkey") == sf.col("n_nationkey"))
    of = ["c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment"]
    return named.groupBy(*of).agg(sf.sum("revenue").alias("revenue"))


def q10_most(q10_lost: Any) -> Any:
    found = q10_lost.select(
        "c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment"
    )
    return found.orderBy(found["revenue"].desc(), "c_custkey").limit(20)


def q13_customers(customer: Any) -> Any:
    return customer.select("c_custkey")


def q13_counts(q13_customers: Any, orders: Any) -> Any:
    from pyspark.sql import functions as sf

    plain = orders.where("o_comment NOT LIKE '%special%requests%'")
    joined = q13_customers.join(plain, q13_customers["c_custkey"] == plain["o_custkey"], "left")
    return joined.groupBy("c_custkey").agg(sf.count("o_orderkey").alias("c_count"))


def q13_distribution(q13_counts: Any) -> Any:
    from pyspark.sql import functions as sf

    return q13_counts.groupBy("c_count").agg(sf.count("*").alias("custdist"))


def q14_lines(lineitem: Any) -> Any:
    of_month = lineitem.where("l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'")
    return of_month.selectExpr("l_partkey", REVENUE)


def q14_parts(q14_lines: Any, part: Any) -> Any:
    from pyspark.sql import functions as sf

    joined = q14_lines.join(part, q14_lines["l_partkey"] == part["p_partkey"])
    is_promoted = sf.col("p_type").like("PROMO%").alias("is_promoted")
    return joined.groupBy("l_partkey", is_promoted).agg(sf.sum("revenue").alias("revenue"))


def q14_effect(q14_parts: Any) -> Any:
    from pyspark.sql import functions as sf

    promoted = sf.expr("CAST(sum(CASE WHEN is_promoted THEN revenue ELSE 0 END) AS DOUBLE)")
    return q14_parts.agg((100.0 * promoted / sf.expr("CAST(sum(revenue) AS DOUBLE)")).alias("promo_revenue"))


Step = Callable[..., Any]
STEPS: dict[str, Step] = {
    each.__name__: each
    for each in (
        q03_lines, q03_orders, q03_unshipped, q03_largest,
        q05_lines, q05_orders, q05_by_nation,
        q10_lines, q10_returned, q10_lost, q10_most,
        q13_customers, q13_counts, q13_distribution,
        q14_lines, q14_parts, q14_effect,
    )
}  # fmt: skip
"""In topological order; the parameters of each are steps and tables."""
RESULTS = {name.partition("_")[0]: name for name in STEPS}
"""The last step of each query."""
ALONE = ("q03_largest", "q05_by_nation", "q10_most", "q14_effect")
GROUPED = {
    "q03_unshipped.q03_lines": "partial sum(revenue) by l_orderkey",
    "q05_by_nation.q05_lines": "partial sum(revenue) by l_orderkey, l_suppkey",
    "q10_returned.q10_lines": "partial sum(revenue) by l_orderkey",
    "q10_lost.q10_returned": "partial sum(revenue) by o_custkey",
    "q13_counts.q13_customers": "partial distinct groups by c_custkey",
    "q14_parts.q14_lines": "partial sum(revenue) by l_partkey",
}


@pytest.mark.spark
def test_tpch_queries_grouped_before_their_joins_give_duckdbs_rows(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    bench = QueryBench.prepare(connect_server, tmp_path, tpch.build_tables())
    queries = [each for each in read_queries(Path(__file__).parent / "tpch") if each.name in RESULTS]
    planned = _plan(bench)
    written = {entry.name: entry.written for region in planned.plan.regions for entry in region.inputs}
    assert {name: told for name, told in written.items() if " by " in told} == GROUPED
    expected = bench.expect(queries)
    for parallelism in AT:
        found = bench.run(planned, parallelism)
        wrong = {each.name: describe_answer(found[RESULTS[each.name]], expected[each.name]) for each in queries}
        assert {name: what for name, what in wrong.items() if what} == {}, f"at {parallelism}"


def _plan(bench: QueryBench) -> JobRun:
    """As if an earlier run had found few groups in whatever is joined; its tables have been read."""
    inputs = {name: list(inspect.signature(step).parameters) for name, step in STEPS.items()}
    tables = sorted({each for names in inputs.values() for each in names} - set(STEPS))
    vertices = [JobVertex(name, has_source=True) for name in tables]
    vertices += [JobVertex(name, parallelism=1 if name in ALONE else None) for name in STEPS]
    edges = [JobEdge(each, name, each, Partitioning.INFERRED) for name, names in inputs.items() for each in names]
    programs = {
        name: program_of(name, None, {}, Files(str(bench.folder / "tables" / name)), spark_conf=CONF) for name in tables
    }
    programs |= {name: program_of(name, step, spark_conf=CONF) for name, step in STEPS.items()}
    graph = build_job_graph(vertices, edges, OPTIONS.max_parallelism)
    history = JobHistory((RunHistory(0.0, (), partial_shares=dict.fromkeys(programs, 0.0)),))
    run = JobFolder(bench.folder / "exchange", "queries", "planned", "queries")
    planned = JobRun.planned(bench.endpoint, run, graph, programs, OPTIONS, history)
    for name in tables:
        asyncio.run(planned.run_region(name))
    return planned
