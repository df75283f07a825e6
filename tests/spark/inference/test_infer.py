"""Edges that nobody declared: what `plan` names them, and what it says where none would do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import compile_vertices
from airflow_abs.spark.inference.infer import InferredEdges, infer_edges
from airflow_abs.spark.proof import Findings, prove_vertices
from tests.job_runner import program_of
from tests.spark.proof.conftest import SCHEMAS
from tests.spark.proof.transforms import by_customer, functions, sql

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = [pytest.mark.spark, pytest.mark.sample]

Transform = Callable[..., Any]
Declared = Mapping[str, tuple[Partitioning, tuple[str, ...]]]
BY_REGION = (Partitioning.HASH, ("region",))
JOINED = sql("SELECT id, name FROM {orders} JOIN {customers} USING (customer)")


@pytest.fixture(scope="module")
def session(connect_server: ConnectEndpoint) -> Iterator[Any]:
    from airflow_abs.spark.connect.session import open_session

    with open_session(connect_server) as opened:
        yield opened


def infer(
    session: Any,
    transform: Transform,
    *,
    sizes: Mapping[str, int] | None = None,
    declared: Declared | None = None,
    joins: tuple[str, ...] = (),
    alone: tuple[str, ...] = (),
    per_subtask: tuple[str, ...] = (),
    findings: Findings | None = None,
    **vertex: Any,
) -> InferredEdges:
    """Infer the edges of ``step``, whose inputs are sources of `SCHEMAS` that its parameters name, and prove them."""
    names = list(inspect.signature(transform).parameters)
    edges = [
        JobEdge(name, "step", name, *(declared or {}).get(name, (Partitioning.INFERRED, ())))
        for name in names
        if name != "source"
    ]
    producers = [edge.producer for edge in edges]
    own = Files("/nowhere", schema=SCHEMAS["orders"]) if "source" in names else None
    graph = build_job_graph(
        [
            *(JobVertex(name, has_source=True, parallelism=1 if name in alone else None) for name in producers),
            JobVertex("step", has_source=own is not None, has_sink=True, **vertex),
        ],
        edges,
        128,
    )
    programs = {name: program_of(name, None, {}, Files("/nowhere", schema=SCHEMAS[name])) for name in producers}
    programs["step"] = program_of("step", transform, {}, own, Files("/out"))
    compiled = compile_vertices(session, graph, programs)
    found = infer_edges(session, graph, compiled, (sizes or {}).get, per_subtask, joins=joins, findings=findings)
    prove_vertices(session, found.graph, found.compiled, per_subtask, findings=findings)
    return found


def ways(found: InferredEdges) -> dict[str, str]:
    return {edge.input_name: edge.how.removesuffix(", inferred") for edge in found.reasons}


def total(orders: Any) -> Any:
    return orders.agg(functions().sum("amount").alias("total"))


def ranked(orders: Any, customers: Any, rates: Any) -> Any:
    rank = functions().row_number().over(by_customer("id"))
    joined = orders.join(customers.drop("region"), "customer").join(rates, "customer", "left")
    return (
        joined.groupBy("customer", "region")
        .agg(functions().max("id").alias("id"), functions().sum("rate").alias("rate"))
        .withColumn("rank", rank)
    )


CASES: dict[str, tuple[Transform, dict[str, Any], dict[str, str]]] = {
    "a join by what it compares": (JOINED, {}, {"orders": "hash(customer)", "customers": "hash(customer)"}),
    "columns of other names": (
        sql("SELECT id FROM {orders} o JOIN {customers} c ON o.region = c.name"),
        {},
        {"orders": "hash(region)", "customers": "hash(name)"},
    ),
    "a full join of INT and BIGINT": (
        sql("SELECT customer, note, count(*) n FROM {orders} FULL JOIN {longs} USING (customer) GROUP BY ALL"),
        {},
        {"orders": "hash(customer)", "longs": "hash(customer)"},
    ),
    "a group by all of its columns": (
        sql("SELECT customer, region, count(*) n FROM {orders} GROUP BY ALL"),
        {},
        {"orders": "hash(customer, region)"},
    ),
    "what all steps have in common": (
        sql("SELECT region, count(DISTINCT customer) n FROM {orders} GROUP BY region"),
        {},
        {"orders": "hash(region)"},
    ),
    "a join's keys before its readers' larger ones": (
        ranked,
        {},
        {"orders": "hash(customer)", "customers": "hash(customer)", "rates": "hash(customer)"},
    ),
    "row by row": (lambda orders: orders.where("amount > 1"), {}, {"orders": "rescale"}),
    "a small source is broadcast": (
        sql("SELECT id, name FROM {orders} LEFT JOIN {customers} USING (customer)"),
        {"sizes": {"customers": 1000}},
        {"orders": "rescale", "customers": "broadcast"},
    ),
    "one input stays divided, the large one": (
        JOINED,
        {"sizes": {"customers": 1000, "orders": 2000}},
        {"orders": "rescale", "customers": "broadcast"},
    ),
    "one input stays divided, of two as large the first": (
        JOINED,
        {"sizes": {"customers": 1000, "orders": 1000}},
        {"orders": "rescale", "customers": "broadcast"},
    ),
    "one input stays divided, even the small one if the join keeps it": (
        sql("SELECT id, name FROM {orders} RIGHT JOIN {customers} USING (customer)"),
        {"sizes": {"customers": 1000, "orders": 2000}},
        {"orders": "broadcast", "customers": "rescale"},
    ),
    "a small source that the join keeps is hashed": (
        sql("SELECT id, name FROM {orders} FULL JOIN {customers} USING (customer)"),
        {"sizes": {"customers": 1000}},
        {"orders": "hash(customer)", "customers": "hash(customer)"},
    ),
    "above the threshold": (
        JOINED,
        {"sizes": {"customers": 11 * 2**20}},
        {"orders": "hash(customer)", "customers": "hash(customer)"},
    ),
    "a declared join of two hash inputs": (
        JOINED,
        {"sizes": {"customers": 1000}, "joins": ("step",)},
        {"orders": "hash(customer)", "customers": "hash(customer)"},
    ),
    "a hint": (
        lambda orders, rates: orders.join(functions().broadcast(rates.where("rate > 1")), "customer"),
        {},
        {"orders": "rescale", "rates": "broadcast"},
    ),
    "a hint in SQL": (
        sql("SELECT /*+ MAPJOIN(r) */ o.* FROM {orders} o JOIN {rates} r ON o.customer = r.customer"),
        {},
        {"orders": "rescale", "rates": "broadcast"},
    ),
    "beside a declared edge": (
        sql("SELECT o.customer, name FROM {orders} o JOIN {customers} c USING (customer, region)"),
        {"declared": {"orders": BY_REGION}},
        {"customers": "hash(region)"},
    ),
    "beside the vertex's own source": (
        lambda source, rates: source.join(rates, "customer"),
        {"sizes": {"rates": 10}},
        {"rates": "broadcast"},
    ),
    "a total that one subtask writes": (
        sql("SELECT region, sum(amount) a FROM {orders} GROUP BY 1 HAVING a > (SELECT rate FROM {rates})"),
        {"alone": ("rates",)},
        {"orders": "hash(region)", "rates": "broadcast"},
    ),
    "one row beside every row": (
        sql("SELECT id, amount / rate AS share FROM {orders} CROSS JOIN {rates}"),
        {"alone": ("rates",)},
        {"orders": "rescale", "rates": "broadcast"},
    ),
    "rows that one subtask writes, joined by a key": (
        sql("SELECT id, rate FROM {orders} JOIN {rates} USING (customer)"),
        {"alone": ("rates",)},
        {"orders": "hash(customer)", "rates": "hash(customer)"},
    ),
    "one subtask": (total, {"parallelism": 1}, {"orders": "rescale"}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_edge_is_named_by_what_the_transform_needs(session: Any, case: str) -> None:
    transform, options, expected = CASES[case]
    assert ways(infer(session, transform, **options)) == expected


def test_each_edge_says_why(session: Any) -> None:
    found = infer(session, JOINED, sizes={"customers": 1000})
    assert {str(edge): why for edge, why in found.reasons.items()} == {
        "orders -> step.orders [rescale, inferred]": "each subtask may read any rows",
        "customers -> step.customers [broadcast, inferred]": (
            "its sources hold 1000 B, spark.sql.autoBroadcastJoinThreshold is 10.0 MiB"
        ),
    }
    (why,) = set(infer(session, JOINED).reasons.values())
    assert why.startswith("a join on customer = customer")
    assert why.endswith("needs the rows that match in one subtask")


def grouped_again(orders: Any, customers: Any) -> Any:
    joined = orders.join(customers.drop("region"), "customer")
    return joined.groupBy("region").agg(functions().sum("amount").alias("amount"))


def first_of_a_join(orders: Any, customers: Any) -> Any:
    joined = orders.join(customers.drop("region"), "customer")
    return joined.orderBy("amount").limit(3)


def line_of(transform: Transform, number: int) -> str:
    return f"test_infer.py:{inspect.getsourcelines(transform)[1] + number}"


def test_two_levels_of_exchange_are_refused_with_the_place_to_cut(session: Any) -> None:
    with pytest.raises(JobGraphError) as caught:
        infer(session, grouped_again)
    message = str(caught.value)
    assert message.startswith(
        "vertex 'step' needs its rows distributed more than once: a join on customer = customer at "
        f"{line_of(grouped_again, 1)} needs the rows that match in one subtask, which is so once they are hashed "
        "(orders by customer, customers by customer); but then an aggregate"
    )
    assert f"at {line_of(grouped_again, 2)} needs all rows with the same value of region in one subtask." in message
    assert message.endswith(
        "Cut it there: return what comes before that step, and do the rest in a vertex of its own that has this one as "
        "input; or read an input that stays small with broadcast()"
    )


def test_what_no_edges_serve_may_be_one_subtask_that_reads_whole_files(session: Any) -> None:
    findings = Findings(whole={})
    found = infer(session, grouped_again, findings=findings)
    assert ways(found) == {"orders": "rescale", "customers": "rescale"}
    why = found.graph.region_of("step").single_subtask_reason
    assert why is not None
    assert why.startswith("it needs its rows distributed more than once: a join on customer = customer")
    assert set(found.reasons.values()) == {f"one subtask reads everything: {why}"}
    assert findings.whole is not None
    assert list(findings.whole) == ["step"]


def test_a_parallelism_of_the_authors_is_not_taken_away(session: Any) -> None:
    with pytest.raises(JobGraphError, match="vertex 'step' needs its rows distributed more than once"):
        infer(session, grouped_again, findings=Findings(whole={}), parallelism=4)


def test_a_step_of_all_rows_above_another_names_parallelism_1(session: Any) -> None:
    with pytest.raises(
        JobGraphError,
        match=r"in a vertex of its own with VertexOptions\(parallelism=1\) that has this one as input; or read",
    ):
        infer(session, first_of_a_join)


def test_one_subtask_is_never_chosen_silently(session: Any) -> None:
    message = r"an aggregate .* needs all rows in one subtask .* with VertexOptions\(parallelism=1\)"
    with pytest.raises(JobGraphError, match=message):
        infer(session, total)


def test_keys_without_a_common_type_are_refused_as_declared_ones_are(session: Any) -> None:
    with pytest.raises(JobGraphError, match="hash key 1 of its inputs has no common type"):
        infer(session, sql("SELECT id FROM {orders} o JOIN {customers} c ON o.customer = c.name"))


def test_what_each_subtask_makes_of_its_part_is_not_for_plan_to_choose(session: Any) -> None:
    message = (
        r"vertex 'step': its result is per subtask \(per_subtask=True\), and input 'orders' does not say which rows a "
        r"subtask has; expected orders\.hash\(\.\.\.\), \.broadcast\(\), \.rescale\(\) or \.rebalance\(\)"
    )
    with pytest.raises(JobGraphError, match=message):
        infer(session, total, per_subtask=("step",))


def test_a_proof_that_inference_tried_is_not_asked_for_again(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    vertices = [JobVertex("orders", has_source=True), JobVertex("step", has_sink=True)]
    graph = build_job_graph(vertices, [JobEdge("orders", "step", "orders", Partitioning.INFERRED)], 128)
    source = Files("/nowhere", schema=SCHEMAS["orders"])
    by_region = sql("SELECT region, count(*) n FROM {orders} GROUP BY region")
    programs = {
        "orders": program_of("orders", None, {}, source),
        "step": program_of("step", by_region, {}, None, Files("/out")),
    }
    compiled, findings = compile_vertices(session, graph, programs), Findings()
    asked: list[Any] = []
    explain = session.client.explain_string
    monkeypatch.setattr(session.client, "explain_string", lambda *args: asked.append(args) or explain(*args))
    found = infer_edges(session, graph, compiled, findings=findings)
    assert ways(found) == {"orders": "hash(region)"}
    assert len(asked) == 2  # spread by nothing, and by the key
    prove_vertices(session, found.graph, found.compiled, findings=findings)
    assert len(asked) == 3  # the source, of which nothing was inferred


def test_plans_that_are_asked_for_at_once_have_the_settings_of_their_vertices(session: Any) -> None:
    zones = {"plain": None, "tokyo": "Asia/Tokyo", "lima": "America/Lima"}
    vertices = [JobVertex(name, has_source=True, has_sink=True) for name in zones]
    source = Files("/nowhere", schema=SCHEMAS["orders"])
    programs = {
        name: program_of(
            name,
            lambda source: source.selectExpr("CAST(timestamp_seconds(1) AS STRING) AS time"),
            {},
            source,
            Files("/out"),
            spark_conf={} if zone is None else {"spark.sql.session.timeZone": zone},
        )
        for name, zone in zones.items()
    }
    graph = build_job_graph(vertices, [], 128)
    compiled, findings = compile_vertices(session, graph, programs), Findings()
    prove_vertices(session, graph, compiled, findings=findings)
    shown = {dict(settings).get("spark.sql.session.timeZone"): text for (settings, _), text in findings.answers.items()}
    assert len(findings.answers) == 3
    assert "1970-01-01 09:00:01" in shown["Asia/Tokyo"]
    assert "1969-12-31 19:00:01" in shown["America/Lima"]
