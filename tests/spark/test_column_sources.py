"""Column lineage: the columns of a step, followed through Spark's own plans to the columns of the sources."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.plan import read_plan
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.planned_source import SourceColumn
from airflow_abs.spark.column_sources import find_column_sources
from airflow_abs.spark.compile.vertices import compile_vertices
from airflow_abs.spark.proof.prove import Proof, set_for_proof
from airflow_abs.spark.proof.prover import Prover
from tests.job_runner import plan_run, program_of
from tests.spark.proof.transforms import functions, sql

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

SOURCES = {
    "orders": "id BIGINT, customer INT, amount DECIMAL(12,2), status STRING, tags ARRAY<STRING>",
    "customers": "customer INT, region STRING",
}
QUERIES: dict[str, dict[str, str]] = {
    """SELECT region, sum(amount) AS revenue, count(*) AS n
       FROM {orders} JOIN {customers} USING (customer) WHERE status = 'F' GROUP BY region""": {
        "region": "customers.region",
        "revenue": "orders.amount",
        "n": "",
    },
    "SELECT id, amount * 2 + id AS x, 'constant' AS c FROM {orders}": {
        "id": "orders.id",
        "x": "orders.amount orders.id",
        "c": "",
    },
    "SELECT id AS k FROM {orders} UNION ALL SELECT customer FROM {customers}": {"k": "customers.customer orders.id"},
    "SELECT customer, avg(amount) AS a, count(DISTINCT id) AS d FROM {orders} GROUP BY customer": {
        "customer": "orders.customer",
        "a": "orders.amount",
        "d": "orders.id",
    },
    "SELECT id, max(amount) OVER (PARTITION BY customer) AS most FROM {orders}": {
        "id": "orders.id",
        "most": "orders.amount orders.customer",
    },
    "SELECT id, explode(tags) AS tag FROM {orders}": {"id": "orders.id", "tag": "orders.tags"},
    "SELECT a.id, b.amount FROM {orders} a JOIN {orders} b ON a.customer = b.customer": {
        "id": "orders.id",
        "amount": "orders.amount",
    },
    "SELECT c.customer, coalesce(o.amount, 0) AS amount FROM {customers} c LEFT JOIN {orders} o USING (customer)": {
        "customer": "customers.customer",
        "amount": "orders.amount",
    },
    """SELECT id, region FROM (SELECT * FROM {orders} o JOIN {customers} c ON o.customer = c.customer)
       UNION ALL SELECT customer, region FROM {customers}""": {
        "id": "customers.customer orders.id",
        "region": "customers.region",
    },
    # What is not read is not guessed: a subquery's value, the keys of a cube.
    "SELECT id, (SELECT max(region) FROM {customers}) AS last FROM {orders}": {},
    "SELECT status, sum(amount) AS total FROM {orders} GROUP BY CUBE (status)": {"total": "orders.amount"},
}


@pytest.fixture(scope="module")
def session(connect_server: ConnectEndpoint) -> Any:
    from airflow_abs.spark.connect.session import open_session

    with open_session(connect_server) as opened:
        yield opened


def trace(session: Any, transform: Callable[..., Any]) -> dict[str, str]:
    """Of a step that reads the sources through a vertex each."""
    names = list(inspect.signature(transform).parameters)
    graph = build_job_graph(
        [*(JobVertex(name, has_source=True) for name in names), JobVertex("step", has_sink=True)],
        [JobEdge(name, "step", name, Partitioning.HASH, ("customer",)) for name in names],
        128,
    )
    programs = {name: program_of(name, None, {}, Files("/nowhere", schema=SOURCES[name])) for name in names}
    programs["step"] = program_of("step", transform, {}, None, Files("/out"))
    compiled = compile_vertices(session, graph, programs)
    with set_for_proof(session):
        prover = Prover(session, graph, compiled, frozenset())
        proofs = {name: Proof(name, None, (), prover.plan(name), prover.markers) for name in (*names, "step")}
    found = find_column_sources(proofs, compiled, proofs, ["step"])["step"]
    return {
        column: " ".join(f"{each.source.removesuffix('.source')}.{each.column}" for each in sources)
        for column, sources in found.items()
    }


@pytest.mark.sample
@pytest.mark.parametrize("query", QUERIES)
def test_a_column_of_a_query_comes_from_what_it_is_computed_from(session: Any, query: str) -> None:
    assert trace(session, sql(query)) == QUERIES[query]


def test_a_python_function_of_a_row_reads_its_arguments(session: Any) -> None:
    def transform(orders: Any) -> Any:
        double = functions().udf(lambda amount, number: amount * number, "DECIMAL(14,2)")
        return orders.select("id", double("amount", "id").alias("twice"))

    assert trace(session, transform) == {"id": "orders.id", "twice": "orders.amount orders.id"}


def test_nothing_is_known_behind_a_python_function_of_many_rows(session: Any) -> None:
    assert trace(session, lambda orders: orders.mapInPandas(lambda frames: frames, "id BIGINT")) == {}


def test_a_literal_that_looks_like_a_column_hides_where_its_own_comes_from(session: Any) -> None:
    query = "SELECT id, concat(status, ' id#1 AS id#2') AS s, status AS t FROM {orders}"
    assert trace(session, sql(query)) == {"id": "orders.id", "t": "orders.status"}


@pytest.mark.sample
def test_the_plan_of_a_run_follows_the_columns_of_a_sink_through_all_steps(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    for name in SOURCES:
        (tmp_path / name).mkdir()
    sources = {name: Files(f"{tmp_path}/{name}", schema=schema) for name, schema in SOURCES.items()}
    total = sql(
        "SELECT who, region, sum(twice) AS t, count(*) AS n FROM {orders} JOIN {customers} USING (who) GROUP BY 1, 2"
    )
    run = plan_run(
        connect_server,
        tmp_path / "exchange",
        [*(JobVertex(name, has_source=True) for name in SOURCES), JobVertex("total", has_sink=True)],
        [
            JobEdge("orders", "total", "orders", Partitioning.INFERRED),
            JobEdge("customers", "total", "customers", Partitioning.BROADCAST),
        ],
        [
            program_of(
                "orders",
                lambda orders: orders.selectExpr("customer AS who", "amount * 2 AS twice"),
                {},
                sources["orders"],
            ),
            program_of(
                "customers",
                lambda customers: customers.selectExpr("customer AS who", "region"),
                {},
                sources["customers"],
            ),
            program_of("total", total, {}, None, Files(f"{tmp_path}/out")),
        ],
    )
    assert read_plan(run.folder).column_sources == run.plan.column_sources
    assert run.plan.column_sources == {
        "total": {
            "who": (SourceColumn("orders.source", "customer"),),
            "region": (SourceColumn("customers.source", "region"),),
            "t": (SourceColumn("orders.source", "amount"),),
            "n": (),
        }
    }
