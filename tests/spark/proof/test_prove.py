"""Which vertices are proved, against what, and what is known of them afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import compile_vertices
from airflow_abs.spark.proof import Proof, one_subtask_reason, prove_vertices
from airflow_abs.spark.proof.explained import read_plan
from airflow_abs.spark.proof.markers import CONF
from airflow_abs.spark.proof.rows import Spread
from airflow_abs.spark.proof.walk import follow_rows
from tests.job_runner import program_of
from tests.spark.proof.conftest import EDGES, SCHEMAS, prove_step
from tests.spark.proof.transforms import functions, same

pytestmark = [pytest.mark.spark, pytest.mark.sample]

Transform = Callable[..., Any]


def total(orders: Any) -> Any:
    return orders.agg(functions().sum("amount").alias("total"))


def by_customer(orders: Any) -> Any:
    return orders.groupBy("customer").agg(functions().sum("amount").alias("amount"))


def first_three(orders: Any) -> Any:
    return orders.limit(3)


def prove_region(session: Any, transforms: dict[str, tuple[Transform | None, dict[str, str]]], **kwargs: Any) -> Any:
    """Prove ``orders`` (files, hashed by customer) and the vertices given, each with its forward inputs by name."""
    first = next(iter(transforms))
    vertices = [JobVertex("orders", has_source=True)]
    edges = [JobEdge("orders", first, "orders", Partitioning.HASH, ("customer",))]
    programs = {"orders": program_of("orders", None, {}, Files("/nowhere", schema=SCHEMAS["orders"]))}
    for name, (transform, inputs) in transforms.items():
        last = name == list(transforms)[-1]
        vertices.append(JobVertex(name, has_sink=last))
        edges += [JobEdge(producer, name, key, Partitioning.FORWARD, (), True) for key, producer in inputs.items()]
        programs[name] = program_of(name, transform, {}, None, Files("/out") if last else None)
    graph = build_job_graph(vertices, edges, 128)
    return prove_vertices(session, graph, compile_vertices(session, graph, programs), **kwargs)


def broadcast_only(parallelism: int | None = None) -> JobGraph:
    return build_job_graph(
        [JobVertex("rates", has_source=True), JobVertex("step", parallelism=parallelism, has_sink=True)],
        [JobEdge("rates", "step", "rates", Partitioning.BROADCAST)],
        128,
    )


@pytest.mark.parametrize(
    ("vertex", "why"),
    [
        ({"parallelism": 1}, "parallelism=1"),
        ({"max_parallelism": 1}, "max_parallelism=1"),
        ({"per_subtask": True}, "per_subtask=True"),
    ],
)
def test_what_is_one_subtask_or_meant_in_parts_needs_no_proof(
    prove: Callable[..., Proof], vertex: dict[str, Any], why: str
) -> None:
    assert prove(total, **vertex) == Proof("step", why, (), spreads={"__airflow_abs_input_1": why})


@pytest.mark.parametrize(
    ("transform", "what", "instead"),
    [
        (
            lambda orders: orders.groupBy("customer").pivot("region").count(),
            "pivot() without values",
            "pivot('c', ['a', 'b'])",
        ),
        (
            lambda orders: orders.crosstab("customer", "region"),
            "crosstab()",
            "groupBy('a').pivot('b', ['x', 'y']).count()",
        ),
        (
            lambda orders: orders.select("region", "amount").transpose("region"),
            "transpose()",
            "select() or unpivot() with the columns written out",
        ),
    ],
)
@pytest.mark.parametrize("vertex", [{}, {"parallelism": 1}, {"per_subtask": True}])
def test_columns_that_come_from_data_are_lost_in_one_subtask_too(
    refusal: Callable[..., str], transform: Transform, what: str, instead: str, vertex: dict[str, Any]
) -> None:
    message = refusal(transform, **vertex)
    assert message.startswith(f"vertex 'step' cannot run in parts: {what} at test_prove.py:")
    assert message.endswith(
        " takes its columns from the data, of which there is none when a transform is compiled. "
        f"To fix it, write {instead}"
    )


def test_a_vertex_of_broadcast_inputs_alone_is_one_subtask_unless_told_otherwise(prove: Any, refusal: Any) -> None:
    def limited(rates: Any) -> Any:
        return rates.limit(1)

    assert prove(limited).exempt == "all its inputs are broadcast"
    assert one_subtask_reason(broadcast_only(), "step", min_parallelism=2) is None
    assert one_subtask_reason(broadcast_only(parallelism=4), "step") is None
    message = refusal(lambda rates: rates, parallelism=4)
    assert "its output holds rows that every subtask has (a broadcast input, local rows)" in message
    assert "(here rates is broadcast)" in message


@pytest.mark.parametrize(
    ("transform", "portions"),
    [
        (lambda orders: orders.mapInPandas(same, orders.schema), ("mapInPandas()",)),
        (lambda orders: orders.repartition("customer").mapInPandas(same, orders.schema), ()),
        (lambda orders: orders.where("amount > 3"), ()),
    ],
)
def test_a_function_over_partitions_is_known_unless_the_author_put_its_keys_together(
    prove: Callable[..., Proof], transform: Transform, portions: tuple[str, ...]
) -> None:
    assert prove(transform).portions == portions


def test_a_region_of_one_subtask_passes_everything(session: Any) -> None:
    graph = build_job_graph(
        [JobVertex("orders", has_source=True), JobVertex("step", has_sink=True)],
        [JobEdge("orders", "step", "orders", Partitioning.HASH, ("customer",), pipelined=True)],
        128,
    )
    programs = {
        "orders": program_of("orders", None, {}, Files("/nowhere", schema=SCHEMAS["orders"])),
        "step": program_of("step", total, {}, None, Files("/out")),
    }
    proofs = prove_vertices(session, graph, compile_vertices(session, graph, programs))
    assert proofs["step"].exempt is not None
    assert "every consumer needs every producer at once" in proofs["step"].exempt


def test_what_a_forward_edge_brings_is_together_as_its_producer_left_it(session: Any) -> None:
    proofs = prove_region(
        session,
        {"sums": (by_customer, {}), "again": (lambda sums: sums.groupBy("customer").count(), {"sums": "sums"})},
    )
    assert {name: proof.exempt for name, proof in proofs.items()} == {"orders": None, "sums": None, "again": None}


def test_what_several_vertices_of_a_region_read_is_together_as_its_producer_left_it(session: Any) -> None:
    shape: dict[str, tuple[Transform | None, dict[str, str]]] = {
        "sums": (by_customer, {}),
        "copy": (None, {"sums": "sums"}),
        "both": (
            lambda sums, copy: sums.join(copy.withColumnRenamed("amount", "other"), "customer"),
            {"sums": "sums", "copy": "copy"},
        ),
    }
    assert prove_region(session, shape)["both"].exempt is None
    shape["both"] = (lambda sums, copy: sums.union(copy).groupBy("amount").count(), {"sums": "sums", "copy": "copy"})
    with pytest.raises(JobGraphError, match="needs all rows with the same value of amount"):
        prove_region(session, shape)


def test_the_vertex_that_needs_rows_is_named_not_the_one_that_reads_it(session: Any) -> None:
    with pytest.raises(
        JobGraphError, match=r"^vertex 'three' cannot run in parts: limit\(\)/offset\(\) at test_prove.py:"
    ):
        prove_region(session, {"three": (first_three, {}), "again": (lambda three: three, {"three": "three"})})


def test_a_partial_result_is_taken_as_rows_in_no_order_by_what_reads_it(session: Any) -> None:
    shape: dict[str, tuple[Transform | None, dict[str, str]]] = {
        "three": (first_three, {}),
        "more": (lambda three: three.withColumn("x", three.amount * 2), {"three": "three"}),
    }
    proofs = prove_region(session, shape, per_subtask=["three"])
    assert (proofs["three"].exempt, proofs["more"].exempt) == ("per_subtask=True", None)
    shape["more"] = (lambda three: three.groupBy("customer").count(), {"three": "three"})
    with pytest.raises(JobGraphError, match=r"vertex 'more' cannot run in parts: .*here three is spread by no key"):
        prove_region(session, shape, per_subtask=["three"])


def test_replicated_rows_inside_of_a_region_may_be_joined_further_on(session: Any) -> None:
    graph = build_job_graph(
        [
            JobVertex("orders", has_source=True),
            JobVertex("rates", has_source=True),
            JobVertex("best"),
            JobVertex("step", has_sink=True),
        ],
        [
            JobEdge("rates", "best", "rates", *EDGES["rates"]),
            JobEdge("best", "step", "best", Partitioning.FORWARD, (), True),
            JobEdge("orders", "step", "orders", *EDGES["orders"]),
        ],
        128,
    )

    def best(rates: Any) -> Any:
        return rates.groupBy("customer").agg(functions().max("rate").alias("rate"))

    programs = [
        *(program_of(name, None, {}, Files("/nowhere", schema=SCHEMAS[name])) for name in ("orders", "rates")),
        program_of("best", best, {}),
        program_of("step", lambda best, orders: orders.join(best, "customer"), {}, None, Files("/out")),
    ]
    compiled = compile_vertices(session, graph, {program.name: program for program in programs})
    assert prove_vertices(session, graph, compiled)["step"].exempt is None


def test_the_session_is_as_before_after_a_proof(session: Any, prove: Any, refusal: Any) -> None:
    session.conf.set("spark.sql.adaptive.enabled", "true")
    before = {key: session.conf.get(key, None) for key in CONF}
    prove(by_customer)
    refusal(total)
    assert {key: session.conf.get(key, None) for key in CONF} == before


def test_a_literal_that_looks_like_spark_s_explanation_proves_nothing(session: Any, refusal: Any, prove: Any) -> None:
    looks = "\n\n(4) Exchange\nArguments: hashpartitioning(region#1, 7), REPARTITION_BY_NUM\n"
    message = refusal(lambda orders: orders.where(orders.region != looks).groupBy("customer").count())
    assert message.startswith("vertex 'step': Spark's plan of its transform cannot be read for the proof")
    assert "a literal may look like them" in message
    assert prove(lambda orders: orders.where(orders.region != "two\n\nlines\n(4) x")).exempt is None


def test_a_long_chain_of_steps_is_proved(prove: Callable[..., Proof]) -> None:
    def chain(orders: Any) -> Any:
        for number in range(40):
            orders = orders.where(f"id <> {number}").mapInPandas(lambda parts: parts, orders.schema)
        return orders

    assert prove(chain).exempt is None


def test_a_plan_deeper_than_python_s_stack_is_read() -> None:
    depth = 1500
    tree = ["Project (1)", *(f"{'   ' * (n - 2)}+- Project ({n})" for n in range(2, depth))]
    leaf = f"{'   ' * (depth - 2)}+- LocalTableScan ({depth})"
    plan = read_plan("\n".join(["== Physical Plan ==", *tree, leaf, ""]))
    assert follow_rows(plan, {}).spread is Spread.REPLICATED


def test_what_spark_itself_cannot_plan_is_told_in_our_words(session: Any) -> None:
    def every_pair(orders: Any, rates: Any) -> Any:
        return orders.join(rates.select("rate"))

    message = (
        r"^vertex 'step': Spark itself cannot plan its transform, so it would fail in every subtask: .*cartesian "
        r"product.*[^.]\. Write the step differently, or split it into two vertices; if Spark runs it elsewhere, "
        r"set VertexOptions\(parallelism=1\), which needs no plan in advance$"
    )
    with pytest.raises(JobGraphError, match=message):
        prove_step(session, every_pair, spark_conf={"spark.sql.crossJoin.enabled": "false"})
