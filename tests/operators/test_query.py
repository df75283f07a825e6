"""The query of a vertex, as its DAG file is parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files
from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.sql_names import escape_repetitions
from airflow_abs.operators.query import check_query, is_file
from tests.task_groups.test_adaptive_spark import new_dag, new_job


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM {orders} WHERE code RLIKE '^[A-Z]{2}[0-9]{4,}x{1,3}$'",
        "SELECT {orders.amount}, {orders[id]} FROM {orders}",
        "SELECT '{{ ds }}', {{ params['limit'] }} FROM {orders} {# a {comment} #} {% if x %} LIMIT 1 {% endif %}",
        """SELECT '{% raw %}{{"a": 1}}{% endraw %}' FROM {orders}""",
    ],
)
def test_braces_of_inputs_repetitions_and_templates_pass(sql: str) -> None:
    check_query("v", sql, ["orders"], [])


@pytest.mark.parametrize(
    ("sql", "inputs", "arguments", "message"),
    [
        ("SELECT * FROM orders", ["orders"], [], "vertex 'v': its sql does not read orders; name each input in braces"),
        ("FROM {a} JOIN {b}", ["a"], [], "vertex 'v': its sql reads b, which is not an input; its inputs are a"),
        ("FROM {a}", [], [], "vertex 'v': its sql reads a, which is not an input; it has neither inputs= nor source="),
        (
            """SELECT '{"a": 1}' FROM {orders}""",
            ["orders"],
            [],
            """vertex 'v': its sql contains {"a": 1}, and a brace begins the name of an input, such as {orders}. """
            "Write braces that are text twice, inside {% raw %} and {% endraw %}, such as "
            """{% raw %}{{"a": 1}}{% endraw %}""",
        ),
        (
            "FROM {a} WHERE d = :day",
            ["a"],
            ["dya", "day"],
            "vertex 'v': its sql does not use dya of its transform_kwargs; name each with a colon, as in WHERE day = "
            ":dya, or drop it",
        ),
    ],
)
def test_what_does_not_fit_its_vertex_is_refused(
    sql: str, inputs: list[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(JobGraphError) as refused:
        check_query("v", sql, inputs, arguments)
    assert str(refused.value).startswith(message)


def test_repetitions_reach_spark_in_double_braces_and_inputs_in_single_ones() -> None:
    assert escape_repetitions("FROM {orders} WHERE x RLIKE 'a{4}b{2,}' AND y = '{{5}}'") == (
        "FROM {orders} WHERE x RLIKE 'a{{4}}b{{2,}}' AND y = '{{5}}'"
    )


def test_a_file_is_told_from_a_query() -> None:
    assert is_file("sql/revenue.sql")
    assert not is_file("SELECT * FROM {source} -- as in revenue.sql")


def test_a_query_is_read_from_a_file_where_airflow_looks_for_templates(tmp_path: Path) -> None:
    query = "SELECT * FROM {source} WHERE day = '{{ ds }}'"
    (tmp_path / "day.sql").write_text(query + "\n")
    with new_dag(template_searchpath=[str(tmp_path)]) as dag, new_job():
        AdaptiveSparkOperator(task_id="orders", source=Files("/lake"), sql="day.sql")
    (vertex,) = dag.get_task("revenue.plan").declared
    assert vertex.sql == query + "\n"


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("month.sql", "vertex 'orders': its sql is the file 'month.sql', which is not in "),
        ("other.sql", "vertex 'orders': its sql reads orders, which is not an input; its inputs are source"),
    ],
)
def test_a_file_that_is_missing_or_wrong_is_refused_as_the_dag_is_parsed(
    tmp_path: Path, file: str, message: str
) -> None:
    (tmp_path / "other.sql").write_text("SELECT * FROM {source} JOIN {orders} USING (id)")
    with new_dag(template_searchpath=[str(tmp_path)]), pytest.raises(JobGraphError) as refused:
        with AdaptiveSparkJob("revenue", exchange="file:///exchange"):
            AdaptiveSparkOperator(task_id="orders", source=Files("/lake"), sql=file)
    assert str(refused.value).startswith(message)
    if file == "month.sql":
        assert str(tmp_path) in str(refused.value)
        assert str(refused.value).endswith("add its folder to the DAG's template_searchpath")
