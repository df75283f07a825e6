from __future__ import annotations

from collections.abc import Callable
from threading import Barrier
from typing import Any

import pytest

from airflow_abs.core.durability.row_order import choose_row_order
from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.plan import PlannedRegion
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile import vertices
from airflow_abs.spark.compile.key_types import compute_common_types
from airflow_abs.spark.compile.steps import assign_results, plan_region
from airflow_abs.spark.compile.vertices import VertexProgram, compile_vertices
from airflow_abs.spark.connect.abilities import release_number
from testbed.environments import server_release
from tests.job_runner import program_of

pytestmark = [pytest.mark.spark, pytest.mark.sample]

ORDERS = "order_id BIGINT, customer_id INT, amount DECIMAL(12,2), tags MAP<STRING, STRING>"


def hashed(producer: str, consumer: str, *keys: str) -> JobEdge:
    return JobEdge(producer, consumer, producer, Partitioning.HASH, keys)


def forward(producer: str, consumer: str) -> JobEdge:
    return JobEdge(producer, consumer, producer, Partitioning.FORWARD, pipelined=True)


def compile_graph(
    session: Any, graph: JobGraph, programs: list[VertexProgram]
) -> tuple[dict[str, PlannedRegion], dict[str, list[bytes]]]:
    compiled = compile_vertices(session, graph, {program.name: program for program in programs})
    specs = assign_results(session, graph, compiled)
    orders = {spec.name: choose_row_order(None) for spec in specs.values() if spec.expression is not None}
    planned, templates = {}, {}
    for region in graph.regions:
        planned[region.name], templates[region.name] = plan_region(graph, region, compiled, specs, orders)
    return planned, templates


def compile_source(session: Any, transform: Callable[..., Any]) -> None:
    graph = build_job_graph([JobVertex("orders", has_source=True, has_sink=True)], [], 128)
    program = program_of("orders", transform, {}, Files("/nowhere", schema=ORDERS), Files("/out"))
    compile_graph(session, graph, [program])


def read(name: str, schema: str) -> VertexProgram:
    return program_of(name, None, {}, Files("/nowhere", schema=schema))


def join_on_key(a: Any, b: Any) -> Any:
    return a.join(b, "k")


def cross_join(a: Any, b: Any) -> Any:
    return a.crossJoin(b.withColumnRenamed("k", "l"))


def test_edges_with_equal_keys_share_one_result_and_the_sink_is_written_from_its_files(session: Any) -> None:
    consumers = ("spend", "latest", "other")
    graph = build_job_graph(
        [JobVertex("orders", has_source=True, has_sink=True), *map(JobVertex, consumers)],
        [
            hashed("orders", "spend", "customer_id"),
            hashed("orders", "latest", "customer_id"),
            hashed("orders", "other", "order_id"),
        ],
        16,
    )
    orders = program_of("orders", None, {}, Files("/in", schema=ORDERS), Files("/out", format="json"))
    programs = [orders, *(program_of(name, None, {}) for name in consumers)]
    planned, templates = compile_graph(session, graph, programs)
    steps = planned["orders"].steps
    by_customer, by_order, sink = (step.result for step in steps)
    assert planned["spend"].inputs[0].result == planned["latest"].inputs[0].result == by_customer
    assert planned["other"].inputs[0].result == by_order
    assert [list(step.local.values()) for step in steps] == [[], [by_customer], [by_customer]]
    assert (sink, steps[2].format, len(templates["orders"])) == ("orders.sink", "json", 3)


def test_a_vertex_read_by_several_vertices_of_its_own_region_is_computed_once(session: Any) -> None:
    graph = build_job_graph(
        [JobVertex("a", has_source=True), JobVertex("b"), JobVertex("c", has_sink=True)],
        [forward("a", "b"), forward("a", "c"), forward("b", "c")],
        128,
    )
    union = program_of("c", lambda a, b: a.union(b), {}, sink=Files("/out"))
    planned, _ = compile_graph(session, graph, [read("a", "id INT"), program_of("b", None, {}), union])
    assert [step.result for step in planned["c"].steps] == ["a.whole", "c.sink"]
    assert set(planned["c"].steps[1].local.values()) == {"a.whole"}


def test_a_chain_of_forward_edges_is_one_plan(session: Any) -> None:
    graph = build_job_graph([JobVertex("a", has_source=True), JobVertex("b", has_sink=True)], [forward("a", "b")], 128)
    program = program_of("b", lambda a: a.groupBy("id").count(), {}, sink=Files("/out"))
    planned, _ = compile_graph(session, graph, [read("a", "id INT"), program])
    assert [(step.result, step.shuffles, dict(step.local)) for step in planned["b"].steps] == [("b.sink", True, {})]


def test_hash_keys_of_a_consumer_are_brought_to_one_type(session: Any) -> None:
    graph = build_job_graph(
        [JobVertex("a", has_source=True), JobVertex("b", has_source=True), JobVertex("c")],
        [hashed("a", "c", "k"), hashed("b", "c", "K")],
        8,
    )
    programs = [read("a", "k INT"), read("b", "k BIGINT, x STRING"), program_of("c", join_on_key, {})]
    planned, templates = compile_graph(session, graph, programs)
    assert b"CAST(pmod(xxhash64(CAST(`k` AS bigint)), 8L) AS INT)" in templates["a"][0]
    assert b"CAST(pmod(xxhash64(`k`), 8L) AS INT)" in templates["b"][0]
    assert [planned[name].steps[0].subpartitions for name in ("a", "b")] == [8, 8]


def runs_an_action(orders: Any) -> Any:
    return orders.limit(orders.count())


def makes_a_view(orders: Any) -> Any:
    orders.createOrReplaceTempView("orders")
    return orders.sparkSession.sql("SELECT * FROM orders")


def ignores_its_input(orders: Any) -> Any:
    return orders.sparkSession.range(3)


def returns_nothing(orders: Any) -> Any:
    return None


def repeats_a_column(orders: Any) -> Any:
    return orders.select("order_id", "order_id")


def has_an_untyped_column(orders: Any) -> Any:
    from pyspark.sql import functions as sf

    return orders.select(sf.lit(None).alias("nothing"))


def takes_the_reserved_name(orders: Any) -> Any:
    return orders.select(orders.order_id.alias("__subpartition"))


def registers_a_function(orders: Any) -> Any:
    orders.sparkSession.udf.register("twice", lambda value: value * 2, "long")
    return orders


def selects_nothing(orders: Any) -> Any:
    return orders.select()


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (
            runs_an_action,
            "vertex 'orders': its transform runs an action (count, collect, show, toPandas, ...); "
            "expected a function that "
            "only builds a DataFrame from its inputs. Return the DataFrame and let its sink or "
            "its consumers use "
            "it",
        ),
        (
            makes_a_view,
            "vertex 'orders': its transform makes a temporary view, which hides its input; hand the "
            "DataFrame to the query "
            "itself: spark.sql(query, df=df), with {df} in the query",
        ),
        (
            ignores_its_input,
            "vertex 'orders': its output does not depend on input 'source'; expected every input in the plan. The "
            "transform ignores it, or hides it behind a temporary view or an action: use the DataFrame itself, or drop "
            "the input",
        ),
        (returns_nothing, "vertex 'orders': its transform returned NoneType; expected one DataFrame"),
        (
            repeats_a_column,
            "vertex 'orders': its output has several columns named order_id; rename or drop them, for example with "
            "join(..., on='key') instead of a column expression",
        ),
        (
            has_an_untyped_column,
            "vertex 'orders': column nothing of its output has no type (NULL only); cast it, for example "
            "lit(None).cast('string')",
        ),
        (
            takes_the_reserved_name,
            "vertex 'orders': its output has a column '__subpartition', which is reserved; rename it",
        ),
        (
            registers_a_function,
            "vertex 'orders': its transform registers a function with the session, which its subtasks do "
            "not share; use "
            "the function as a column expression (pyspark.sql.functions.udf)",
        ),
        (selects_nothing, "vertex 'orders': its output has no columns; select at least one"),
    ],
)
def test_a_transform_that_cannot_be_compiled_says_why(
    session: Any, transform: Callable[..., Any], message: str
) -> None:
    with pytest.raises(JobGraphError) as caught:
        compile_source(session, transform)
    assert str(caught.value) == message


def test_an_unknown_column_is_sparks_own_error_with_the_vertex_as_a_note(session: Any) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN") as caught:
        compile_source(session, lambda orders: orders.select("no_such_column"))
    assert caught.value.__notes__ == ["raised while Spark analyzed the output of vertex 'orders'"]


def test_queries_see_their_inputs_as_arguments(session: Any) -> None:
    compile_source(session, lambda orders: orders.sparkSession.sql("SELECT order_id FROM {o}", o=orders))


def test_a_key_that_is_not_a_column_names_the_columns_there_are(session: Any) -> None:
    graph = build_job_graph([JobVertex("a", has_source=True), JobVertex("b")], [hashed("a", "b", "city")], 8)
    with pytest.raises(JobGraphError) as caught:
        compile_graph(session, graph, [read("a", "id INT, name STRING"), program_of("b", None, {})])
    assert str(caught.value) == "vertex 'a': hash key 'city' is not a column of its output; its columns are id, name"


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ("k INT", "k STRING", "has no common type (a: int, b: string)"),
        ("k DATE", "k INT", "has no common type (a: date, b: int)"),
        ("k DECIMAL(38,0)", "k DECIMAL(38,18)", "has no common type (a: decimal(38,0), b: decimal(38,18))"),
        ("k MAP<STRING, INT>", "k INT", "input 'a' holds k of type map<string,int>, which Spark cannot hash; hash by "),
        ("k STRUCT<m: ARRAY<MAP<STRING, INT>>>", "k INT", "input 'a' holds k.m[] of type map<string,int>, which Spark"),
        ("k VARIANT", "k VARIANT", "input 'a' holds k of type variant, which Spark cannot compare; hash by another"),
        ("k STRING COLLATE UNICODE_CI", "k STRING", "has a collation in k (string collate UNICODE_CI)"),
        ("k STRUCT<n: STRING COLLATE UTF8_LCASE>", "k INT", "has a collation in k.n (string collate UTF8_LCASE)"),
        (
            "k ARRAY<STRUCT<n: STRING COLLATE UTF8_BINARY_RTRIM>>",
            "k INT",
            "has a collation in k[].n (string collate",
        ),
        ("k STRUCT<n: INT>", "k STRUCT<n: BIGINT>", "has no common type (a: struct<n:int>, b: struct<n:bigint>)"),
        ("k ARRAY<DECIMAL(38,0)>", "k ARRAY<DECIMAL(38,9)>", "has no common type (a: array<decimal(38,0)>"),
        ("k BIGINT", "k DECIMAL(38,30)", "has no common type (a: bigint, b: decimal(38,30))"),
    ],
)
def test_keys_without_a_common_type_are_refused(session: Any, left: str, right: str, found: str) -> None:
    if "RTRIM" in left and release_number(server_release()) < (4, 1):
        pytest.skip("Spark 4.0 has no such collation")
    graph = build_job_graph(
        [JobVertex("a", has_source=True), JobVertex("b", has_source=True), JobVertex("c")],
        [hashed("a", "c", "k"), hashed("b", "c", "k")],
        8,
    )
    with pytest.raises(JobGraphError) as caught:
        compile_graph(session, graph, [read("a", left), read("b", right), program_of("c", cross_join, {})])
    assert str(caught.value).startswith("vertex 'c': hash key 1 of ")
    assert found in str(caught.value)


def test_a_key_of_a_type_that_nobody_tried_is_refused(session: Any) -> None:
    from pyspark.sql.types import CharType, StructField, StructType

    key = StructType([StructField("code", CharType(5))])
    with pytest.raises(JobGraphError) as caught:
        compute_common_types(session, "c", {"a": [("k", key)]})
    assert str(caught.value) == (
        "vertex 'c': hash key 1 of input 'a' holds k.code of type char(5), and it is untested whether equal values "
        "of this type always reach the same subtask; hash by a copy of another type, such as CAST(k.code AS STRING)"
    )


def test_hash_inputs_with_different_numbers_of_keys_are_refused(session: Any) -> None:
    graph = build_job_graph(
        [JobVertex("a", has_source=True), JobVertex("b", has_source=True), JobVertex("c")],
        [hashed("a", "c", "k"), hashed("b", "c", "k", "l")],
        8,
    )
    with pytest.raises(JobGraphError, match=r"different numbers of keys \(a: 1, b: 2\)"):
        compile_graph(session, graph, [read("a", "k INT"), read("b", "k INT, l INT"), program_of("c", join_on_key, {})])


def test_a_source_without_files_asks_for_a_path_or_a_schema(session: Any, tmp_path: Any) -> None:
    graph = build_job_graph([JobVertex("a", has_source=True, has_sink=True)], [], 8)
    program = program_of("a", None, {}, Files(f"{tmp_path}/none"), Files("/out"))
    with pytest.raises(JobGraphError) as caught:
        compile_graph(session, graph, [program])
    assert str(caught.value) == (
        f"vertex 'a': its source '{tmp_path}/none' (parquet) matches no files to read a schema from; check the path "
        "and its date, or declare Files(..., schema='...') if the folder may be empty"
    )


def test_schemas_of_sources_are_asked_for_at_once_but_those_with_settings(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, settings = Barrier(2, timeout=20), {}
    resolve = vertices.resolve_files

    def resolve_files(session: Any, who: str, files: Files, open_path: Any) -> Any:
        if "own" not in who:
            both.wait()
        settings[who] = session.conf.get("spark.sql.parquet.mergeSchema")
        return resolve(session, who, files, open_path)

    monkeypatch.setattr(vertices, "resolve_files", resolve_files)
    own = program_of(
        "own", None, {}, Files("/nowhere", schema="k INT"), spark_conf={"spark.sql.parquet.mergeSchema": "true"}
    )
    graph = build_job_graph([JobVertex(name, has_source=True) for name in ("own", "a", "b")], [], 8)
    compile_vertices(session, graph, {each.name: each for each in (own, read("a", "k INT"), read("b", "k INT"))})
    assert settings == {"vertex 'a'": "false", "vertex 'b'": "false", "vertex 'own'": "true"}


def test_a_query_is_a_transform_with_named_parameters(session: Any) -> None:
    graph = build_job_graph(
        [JobVertex("orders", has_source=True), JobVertex("sums")], [hashed("orders", "sums", "k")], 8
    )
    query = "SELECT k, count(*) AS n FROM {orders} WHERE v > :least AND NOT CAST(k AS STRING) RLIKE '^9{4}$' GROUP BY k"
    programs = [read("orders", "k INT, v INT"), program_of("sums", None, {"least": 3}, sql=query)]
    planned, _ = compile_graph(session, graph, programs)
    (step,) = planned["sums"].steps
    assert '"name":"n"' in step.schema


def test_a_query_with_a_mistake_names_its_vertex(session: Any) -> None:
    graph = build_job_graph(
        [JobVertex("orders", has_source=True), JobVertex("sums")], [hashed("orders", "sums", "k")], 8
    )
    programs = [read("orders", "k INT"), program_of("sums", None, {}, sql="SELECT missing FROM {orders}")]
    with pytest.raises(Exception, match="missing") as raised:
        compile_graph(session, graph, programs)
    assert any("'sums'" in note for note in raised.value.__notes__)


def test_a_plan_that_an_older_server_would_read_in_part_is_refused(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(session), "version", "4.0.5")
    with pytest.raises(JobGraphError) as caught:
        compile_source(session, lambda source: source.where(source.order_id.isin(session.range(3))))
    assert str(caught.value) == (
        "vertex 'orders': the plan of its transform has SubqueryExpression.in_subquery_values, which came with Spark "
        "4.1; the server runs Spark 4.0.5, and would silently skip it. Write the step without it, or run the "
        "server on Spark 4.1 or newer"
    )
