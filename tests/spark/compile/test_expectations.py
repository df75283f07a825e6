"""What `plan` says of conditions that cannot be counted."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.expect.expectations import Expect, Expectation, Unique, read_expectations
from airflow_abs.core.graph.job_graph import JobVertex, build_job_graph
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.expectations import check_expectations
from airflow_abs.spark.compile.vertices import compile_vertices
from tests.job_runner import program_of

pytestmark = [pytest.mark.spark, pytest.mark.sample]

SCHEMA = "id BIGINT, amount DOUBLE, name STRING, tags MAP<STRING, INT>, `select` INT"


def check(session: Any, *expectations: Expectation, schema: str = SCHEMA, **program: Any) -> None:
    graph = build_job_graph([JobVertex("orders", has_source=True, has_sink=True)], [], 8)
    source = Files("/nowhere", schema=schema)
    orders = program_of("orders", None, {}, source, Files("/out"), expectations=expectations, **program)
    check_expectations(session, compile_vertices(session, graph, {"orders": orders}))


def test_conditions_of_the_row_alone_pass(session: Any) -> None:
    declared = {
        "positive": "amount > 0",
        "commented": "amount > 0 -- and no less",
        "lambda": "exists(map_values(tags), tag -> tag > 1)",
        "words in texts": "name <> 'select' AND `select` > 1",
        "constant": "true",
        "one": Unique("id", "name"),
    }
    check(session, *read_expectations("orders", declared))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("nothing > 0", "cannot be counted; expected a condition of its columns, .* Spark says: .*UNRESOLVED_COLUMN"),
        ("amount", "cannot be counted; .* Spark says: .*FILTER_NOT_BOOLEAN"),
        ("amount >", "cannot be counted; .* Spark says: .*PARSE_SYNTAX_ERROR"),
        ("sum(amount) > 0", "cannot be counted; .* Spark says: .*INVALID_WHERE_CONDITION"),
        ("row_number() OVER (ORDER BY id) > 1", "cannot be counted; .* Spark says: .*WINDOW.FUNCTION"),
        ("amount > (SELECT 1)", "holds a query \\(SELECT\\); expected a condition of the row alone. Join"),
        ("rand() > 0.5", "uses rand\\(\\), which can give another value for the same row"),
        ("current_date() > DATE '2026-01-01'", "uses current_date\\(\\), .* Write the day as a template"),
        ("reflect('java.util.UUID', 'randomUUID') = name", "cannot be counted; .* Spark says: .*NON"),
    ],
)
def test_all_others_are_refused_with_what_was_expected(session: Any, condition: str, message: str) -> None:
    good = Expectation("good", "fail", 0.0, condition="id > 0")
    with pytest.raises(JobGraphError, match=f"(?si)vertex 'orders': expectation 'bad' .*{message}"):
        check(session, good, *read_expectations("orders", {"bad": Expect(condition)}))


@pytest.mark.parametrize("column", ["nothing", "tags"])
def test_a_key_is_of_columns_that_can_be_sorted(session: Any, column: str) -> None:
    expected = "expected columns of its output that can be sorted \\(id, amount, name, tags, select\\)"
    with pytest.raises(JobGraphError, match=expected):
        check(session, *read_expectations("orders", {"one": Unique(column)}))


def test_settings_of_the_vertex_are_in_force(session: Any) -> None:
    declared = read_expectations("orders", {"aliased": 'name <> "x"'})
    check(session, *declared)
    conf = {"spark.sql.ansi.doubleQuotedIdentifiers": "true", "spark.sql.ansi.enabled": "true"}
    with pytest.raises(JobGraphError, match="UNRESOLVED_COLUMN"):
        check(session, *declared, spark_conf=conf)


def test_names_of_the_columns_that_mark_repeats_are_reserved(session: Any) -> None:
    with pytest.raises(JobGraphError, match="its output has a column '__airflow_abs_repeats_0', and names that begin"):
        check(
            session, *read_expectations("orders", {"one": Unique("id")}), schema="id INT, __airflow_abs_repeats_0 INT"
        )
