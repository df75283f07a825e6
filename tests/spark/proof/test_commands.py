"""What a transform may not ask of the session while it is compiled; nothing of it is ever run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.spark.transforms.commands import first_word

pytestmark = [pytest.mark.spark, pytest.mark.sample]


def runs(query: str) -> Callable[[Any], Any]:
    def transform(orders: Any) -> Any:
        orders.sparkSession.sql(query, orders=orders) if "{orders}" in query else orders.sparkSession.sql(query)
        return orders

    return transform


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("CREATE TEMP VIEW v AS SELECT 1 AS x", "CREATE"),
        ("  -- first a comment\n/* and (another */ set spark.sql.ansi.enabled=false", "SET"),
        ("DROP TABLE IF EXISTS orders", "DROP"),
        ("SHOW TABLES", "SHOW"),
        ("CACHE TABLE q AS SELECT 1", "CACHE"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "EXECUTE"),
        ("BEGIN SELECT 1; END", "BEGIN"),
        ("INSERT INTO orders VALUES (1)", "INSERT"),
    ],
)
def test_a_command_in_sql_is_refused(refusal: Callable[..., str], query: str, word: str) -> None:
    assert refusal(runs(query)) == (
        f"vertex 'step': its transform runs the command '{word}' in spark.sql; expected a query (SELECT, WITH, "
        "VALUES, FROM, TABLE). A transform only builds a DataFrame: write with its sink, hand DataFrames "
        "to queries as arguments instead of views, and set the session with JobOptions(spark_conf=...)"
    )


@pytest.mark.parametrize(
    "query",
    [
        "WITH broken AS (SELECT no_such_column FROM {{orders}}) INSERT INTO nowhere SELECT * FROM broken",
        "INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT * FROM {{orders}}",
        "WITH t AS (SELECT 1 AS x) INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT * FROM t",
        "FROM {{orders}} INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT id",
    ],
)
def test_a_query_that_writes_is_refused_before_it_does(refusal: Callable[..., str], tmp_path: Path, query: str) -> None:
    folder = tmp_path / "written"
    assert "in spark.sql; expected a query" in refusal(runs(query.format(folder=folder)))
    assert not folder.exists()


@pytest.mark.parametrize(
    "query",
    [
        "WITH t AS (SELECT 1 AS x) SELECT * FROM t",
        "FROM VALUES (1) AS t(x) SELECT x",
        "FROM {orders} |> WHERE id > 3",
        "(SELECT 1)",
        "VALUES (1), (2)",
        "SELECT 'INSERT INTO x' AS text",
        "WITH t AS (SELECT 'INSERT INTO x' AS `delete from y`) SELECT * FROM t -- INSERT INTO x",
        "WITH t AS (SELECT id AS update FROM {orders}) SELECT update FROM t",
    ],
)
def test_queries_of_every_form_pass(prove: Callable[..., Any], query: str) -> None:
    assert prove(runs(query)).exempt is None


def test_the_first_word_stands_after_comments_and_parentheses() -> None:
    assert first_word("/* a */ -- b\n ((select 1))") == "SELECT"
    assert first_word("-- nothing") == ""


@pytest.mark.parametrize("change", ["set", "unset"])
def test_a_setting_of_the_session_is_refused_with_the_way_to_say_it(refusal: Callable[..., str], change: str) -> None:
    def transform(orders: Any) -> Any:
        arguments = ["false"] if change == "set" else []
        getattr(orders.sparkSession.conf, change)("spark.sql.ansi.enabled", *arguments)
        return orders

    assert refusal(transform) == (
        "vertex 'step': its transform sets spark.sql.ansi.enabled in the session of plan, which no subtask shares; "
        "give it where that is declared, in options, as spark_conf={...}"
    )


@pytest.mark.parametrize("pyfile", [True, False])
def test_artifacts_are_refused_because_no_subtask_would_have_them(
    refusal: Callable[..., str], tmp_path: Path, pyfile: bool
) -> None:
    (tmp_path / "prices.py").touch()

    def transform(orders: Any) -> Any:
        orders.sparkSession.addArtifacts(str(tmp_path / "prices.py"), pyfile=pyfile, file=not pyfile)
        return orders

    assert refusal(transform) == (
        "vertex 'step': its transform adds artifacts to the session of plan, which no subtask shares; give Python "
        "files to the job as JobOptions(py_files=[...]), and jars to the Spark server when it starts"
    )


def test_asking_for_a_setting_is_allowed(prove: Callable[..., Any]) -> None:
    def transform(orders: Any) -> Any:
        assert orders.sparkSession.conf.get("spark.sql.ansi.enabled") in ("true", "false")
        return orders

    assert prove(transform).exempt is None


def test_a_cache_is_passed_over(prove: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert prove(lambda orders: orders.cache().where("amount > 1").persist().unpersist()).exempt is None
    assert "persist() has no effect in a transform, whose rows are computed once for all readers" in caplog.text


def test_a_session_of_its_own_is_refused(refusal: Callable[..., str]) -> None:
    def transform(orders: Any) -> Any:
        from pyspark.sql import SparkSession

        return SparkSession.builder.appName("revenue").getOrCreate().range(3).join(orders, "id")

    assert refusal(transform) == (
        "vertex 'step': its transform opens a Spark session (SparkSession.builder.getOrCreate()), and subtasks run in "
        "the session of the job's connection. Remove the call: use the DataFrames that the transform gets, "
        "orders.sparkSession where it needs the session, and source= to read data"
    )
