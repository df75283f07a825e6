"""Which columns of a vertex's output are written: those that Spark's planner reads of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import functions

from airflow_abs.core.durability.prediction import JobHistory, RegionHistory, RunHistory
from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.expect.expectations import Expect, Unique, read_expectations
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import CompiledVertex, compile_vertices
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.narrowing import columns_and_rows
from airflow_abs.spark.narrowing.columns_and_rows import Written, narrow_vertices
from tests.job_runner import plan_run, program_of, rows, run_job

pytestmark = pytest.mark.spark

ORDERS = (
    "order_id BIGINT, customer BIGINT, day DATE, amount DECIMAL(10,2), who STRUCT<name: STRING, city: STRING>, "
    "`no, te` STRING"
)
Transform = Callable[..., Any]


def compile_orders(
    session: Any,
    transforms: Sequence[Transform],
    *,
    how: Partitioning = Partitioning.HASH,
    expect: Mapping[str, Any] | None = None,
    sink: Files | None = None,
    schema: str = ORDERS,
) -> CompiledVertex:
    """The vertex `orders`, which reads files, as it is written for vertices that read it by these transforms."""
    readers = {f"reader{number}": transform for number, transform in enumerate(transforms)}
    vertices = [JobVertex("orders", has_source=True, has_sink=sink is not None), *map(JobVertex, readers)]
    keys = ("customer",) if how is Partitioning.HASH else ()
    edges = [JobEdge("orders", reader, "orders", how, keys) for reader in readers]
    programs = [
        program_of(
            "orders",
            source=Files("/nowhere", schema=schema),
            sink=sink,
            expectations=read_expectations("orders", expect or {}),
        ),
        *(program_of(reader, transform) for reader, transform in readers.items()),
    ]
    graph = build_job_graph(vertices, edges, 8)
    compiled = compile_vertices(session, graph, {program.name: program for program in programs})
    return narrow_vertices(session, graph, compiled)["orders"]


def written(session: Any, transform: Transform, **options: Any) -> list[str]:
    """The columns of `orders` that are written if one vertex reads it by `transform`."""
    return list(compile_orders(session, [transform], **options).schema.names)


def total(orders: Any) -> Any:
    return orders.groupBy("customer").agg(functions.sum("amount").alias("total"))


def test_an_aggregate_reads_its_key_and_what_it_adds_up(session: Any) -> None:
    assert written(session, total) == ["customer", "amount"]


def test_a_filter_counts_as_reading(session: Any) -> None:
    assert written(session, lambda orders: total(orders.where("day > '2026-01-01'"))) == ["customer", "day", "amount"]


def test_a_column_that_is_dropped_later_is_not_read(session: Any) -> None:
    def transform(orders: Any) -> Any:
        return orders.withColumn("text", functions.upper("`no, te`")).select("customer", "amount", "text").drop("text")

    assert written(session, transform) == ["customer", "amount"]


def test_a_self_join_reads_what_both_sides_read(session: Any) -> None:
    def transform(orders: Any) -> Any:
        days = orders.select("customer", functions.col("day").alias("other"))
        return orders.select("customer", "amount").join(days, "customer")

    assert written(session, transform) == ["customer", "day", "amount"]


def test_what_only_a_subquery_reads_is_read(session: Any) -> None:
    def transform(orders: Any) -> Any:
        return orders.sparkSession.sql(
            "SELECT customer FROM {orders} WHERE customer IN (SELECT order_id FROM {orders})", orders=orders
        )

    assert written(session, transform) == ["order_id", "customer"]


def test_a_python_function_over_whole_rows_reads_all(session: Any) -> None:
    def transform(orders: Any) -> Any:
        return orders.mapInPandas(lambda frames: frames, orders.schema)

    assert written(session, transform) == ["order_id", "customer", "day", "amount", "who", "no, te"]


def test_distinct_rows_need_all_columns(session: Any) -> None:
    assert len(written(session, lambda orders: orders.distinct().select("customer"))) == 6


def test_the_key_of_the_edge_is_written_even_if_nobody_reads_it(session: Any) -> None:
    assert written(session, lambda orders: orders.select("amount")) == ["customer", "amount"]


def test_of_rows_that_are_only_counted_the_narrowest_column_is_written(session: Any) -> None:
    counted = written(session, lambda orders: orders.agg(functions.count("*").alias("n")), how=Partitioning.BROADCAST)
    assert counted == ["day"]


def test_rows_are_spread_by_a_column_that_can_be_hashed(session: Any) -> None:
    schema = "pairs MAP<STRING, STRING>, name STRING, flag BOOLEAN"
    read = written(session, lambda orders: orders.select("pairs"), how=Partitioning.REBALANCE, schema=schema)
    assert read == ["pairs", "flag"]


def test_what_an_expectation_is_about_is_written(session: Any) -> None:
    expect = {"positive": Expect("amount > 0 -- not a credit"), "one": Unique("ORDER_ID")}
    assert written(session, lambda orders: orders.select("customer"), expect=expect) == [
        "order_id",
        "customer",
        "amount",
    ]


def test_a_sink_has_all_columns(session: Any, tmp_path: Path) -> None:
    assert len(written(session, total, sink=Files(str(tmp_path / "orders")))) == 6


def filters(session: Any, *transforms: Transform, **options: Any) -> tuple[str, ...]:
    """The filters of the rows of `orders` that are written, if these read it."""
    return compile_orders(session, transforms, **options).filters


def test_rows_that_every_reader_drops_are_not_written(session: Any) -> None:
    recent = lambda orders: total(orders.where("day > '2026-01-01' AND `no, te` <> 'x'"))  # noqa: E731
    also = lambda orders: total(orders.where("day > '2026-01-01' AND order_id IS NOT NULL"))  # noqa: E731
    assert filters(session, recent, also) == ("(`day` > CAST('2026-01-01' AS date))", "(`day` IS NOT NULL)")
    assert filters(session, recent, total) == ()


def test_a_key_that_an_inner_join_drops_is_not_written(session: Any) -> None:
    def transform(orders: Any) -> Any:
        return orders.join(orders.select("customer", functions.col("day").alias("other")), "customer")

    assert filters(session, transform) == ("(`customer` IS NOT NULL)",)


def test_the_kept_side_of_an_outer_join_keeps_its_rows(session: Any) -> None:
    def transform(orders: Any) -> Any:
        other = orders.where("amount > 5").select("customer", functions.col("day").alias("other"))
        return orders.join(other, "customer", "left")

    assert filters(session, transform) == ()


def test_rows_that_are_counted_somewhere_are_written(session: Any) -> None:
    def transform(orders: Any) -> Any:
        count = orders.agg(functions.count("*").alias("n"))
        return orders.where("day > '2026-01-01'").select("customer").crossJoin(count)

    assert filters(session, transform, how=Partitioning.BROADCAST) == ()


def test_a_filter_above_a_limit_or_an_opaque_function_drops_nothing_before(session: Any) -> None:
    def opaque(orders: Any) -> Any:
        return orders.mapInPandas(lambda frames: frames, orders.schema).where("day > '2026-01-01'")

    assert filters(session, opaque) == ()
    assert filters(session, lambda orders: orders.limit(5).where("day > '2026-01-01'")) == ()


def test_a_condition_that_is_always_false_narrows_nothing(session: Any) -> None:
    assert len(written(session, lambda orders: total(orders.where("order_id NOT IN (1, 2, NULL)")))) == 6
    assert len(written(session, lambda orders: total(orders.where("amount = 5.123")))) == 6


def test_expectations_are_about_all_rows(session: Any) -> None:
    recent = lambda orders: total(orders.where("day > '2026-01-01'"))  # noqa: E731
    assert filters(session, recent, expect={"positive": Expect("amount > 0")}) == ()


def test_a_type_that_only_files_of_other_formats_hold_is_written(session: Any) -> None:
    read = written(
        session, lambda orders: orders.select("customer", "v"), schema="customer BIGINT, v VARIANT, x STRING"
    )
    assert read == ["customer", "v"]


def lines(orders: Any) -> Any:
    return orders.select(
        "customer",
        functions.explode(functions.array(functions.lit(1), functions.lit(2))).alias("line"),
        "order_id",
        "note",
    )


def joined(lines: Any, customers: Any) -> Any:
    return (
        lines.join(customers, "customer")
        .groupBy("region")
        .agg(functions.count("*").alias("n"), functions.sum("line").alias("sum"))
    )


@pytest.fixture
def run(connect_server: ConnectEndpoint, tmp_path: Path) -> Callable[..., Any]:
    """A job of two sources, a join of theirs and a total, at two fan-outs against DuckDB."""
    duckdb.sql(
        f"COPY (SELECT i % 7 AS customer, i AS order_id, 'n' || i AS note FROM range(1000) AS r(i)) "
        f"TO '{tmp_path}/orders.parquet'"
    )
    duckdb.sql(
        f"COPY (SELECT i AS customer, 'r' || i % 3 AS region, 'x' AS rest FROM range(7) AS r(i)) "
        f"TO '{tmp_path}/customers.parquet'"
    )

    def start(perform: Callable[..., Any] = run_job, **options: Any) -> Any:
        vertices = [
            JobVertex("lines", has_source=True),
            JobVertex("customers", has_source=True),
            JobVertex("joined", has_sink=True),
        ]
        edges = [
            JobEdge("lines", "joined", "lines", Partitioning.HASH, ("customer",)),
            JobEdge("customers", "joined", "customers", Partitioning.HASH, ("customer",)),
        ]
        orders = Files(f"{tmp_path}/orders.parquet", schema="customer BIGINT, order_id BIGINT, note STRING")
        customers = Files(f"{tmp_path}/customers.parquet", schema="customer BIGINT, region STRING, rest STRING")
        programs = [
            program_of("lines", lines, source=orders),
            program_of("customers", source=customers),
            program_of("joined", joined, sink=Files(f"{tmp_path}/out"), per_subtask=True),
        ]
        return perform(connect_server, tmp_path / "exchange", vertices, edges, programs, **options)

    return start


@pytest.mark.sample
def test_files_hold_the_columns_that_are_read_and_the_rows_are_duckdbs(run: Callable[..., Any], tmp_path: Path) -> None:
    done = run()
    held = {step.vertex: step.columns for region in done.plan.regions for step in region.steps}
    assert held == {
        "lines": ["customer", "line"],
        "customers": ["customer", "region"],
        "joined": ["region", "n", "sum"],
    }
    expected = rows(
        f"SELECT region, count(*), sum(line) FROM (SELECT unnest([1, 2]) AS line, customer "
        f"FROM '{tmp_path}/orders.parquet') JOIN '{tmp_path}/customers.parquet' USING (customer) GROUP BY region"
    )
    found = f"SELECT region, sum(n), sum(sum) FROM '{tmp_path}/out/*.parquet' GROUP BY region"
    assert [tuple(map(str, row)) for row in rows(found)] == [tuple(map(str, row)) for row in expected]


def test_a_day_on_which_other_columns_were_written_says_nothing_of_today(
    run: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    plan = run(plan_run, share_tasks=True).plan

    def predicted(columns: str) -> tuple[bool, int]:
        seen = RegionHistory(plan.declared_regions("joined"), 1000, 10**9, 1000, 1.0, columns=columns)
        history = JobHistory((RunHistory(0.0, (seen,)),))
        found = run(plan_run, share_tasks=True, history=history).plan.predictions["joined"]
        return found.from_history, found.output_bytes

    with caplog.at_level(logging.INFO):
        is_known, size = predicted(plan.region("joined").digest_columns())
        assert is_known
        assert size > 10**8
        assert "replanned" not in caplog.text
        is_known, size = predicted("of other columns")
    assert not is_known
    assert size < 10**6
    assert "joined write other columns than in the last run" in caplog.text


@pytest.mark.sample
def test_one_column_too_few_is_found_in_plan(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    find = columns_and_rows._Reading.find

    def too_few(reading: Any) -> Any:
        return {**find(reading), "lines": Written(("customer",))}

    monkeypatch.setattr(columns_and_rows._Reading, "find", too_few)
    with pytest.raises(
        JobGraphError, match=r"vertex 'joined': Spark's plan reads column 'line' of vertex 'lines', and"
    ):
        run()


def test_a_column_that_is_read_after_all_fails_and_is_never_null(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = columns_and_rows._Reading.find
    monkeypatch.setattr(
        columns_and_rows._Reading, "find", lambda reading: {**find(reading), "lines": Written(("customer",))}
    )
    monkeypatch.setattr(columns_and_rows, "_check_unread", lambda *arguments: None)
    with pytest.raises(Exception, match=r"airflow_abs did not write column 'line' of vertex 'lines'"):
        run()
