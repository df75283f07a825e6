"""What an author expects of a vertex's rows, checked in `plan`: Spark can count it, row by row, in every subtask."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.expect.expectations import Expectation
from airflow_abs.spark.compile.contracts import set_conf
from airflow_abs.spark.compile.vertices import CompiledVertex
from airflow_abs.spark.non_repeatable import find_non_repeatable
from airflow_abs.spark.observing import REPEAT_PREFIX, repeat_expression
from airflow_abs.spark.relations import sql_expression

_NO_WORDS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
_QUERY = re.compile(r"\b(select|table)\b", re.IGNORECASE)


def check_expectations(session: Any, compiled: Mapping[str, CompiledVertex]) -> None:
    """Every condition is a BOOLEAN of the vertex's columns, every key can be sorted; one request for each vertex that
    has some, unless one is wrong.

    Raises:
        JobGraphError: names vertex and expectation, what was found and what to write.
    """
    from pyspark.errors import PySparkException

    for vertex in compiled.values():
        counted = [each for each in vertex.expectations if not each.is_row_count]
        if not counted:
            continue
        taken = [name for name in vertex.schema.names if name.lower().startswith(REPEAT_PREFIX)]
        if taken:
            raise JobGraphError(
                f"vertex {vertex.name!r}: its output has a column {taken[0]!r}, and names that begin with "
                f"{REPEAT_PREFIX!r} are reserved; rename it"
            )
        for expectation in counted:
            _check_words(vertex.name, expectation)
        with set_conf(session, vertex.name, vertex.spark_conf):
            rows = session.createDataFrame([], vertex.schema)
            try:
                _analyse(rows, counted)
            except PySparkException:
                for expectation in counted:
                    _check_one(rows, vertex.name, expectation)
                raise


def _analyse(rows: Any, expectations: Sequence[Expectation]) -> Any:
    """A filter takes no aggregates and nothing but BOOLEAN; an aggregate takes nothing that differs by the moment."""
    from pyspark.sql import functions as sf

    for number, each in enumerate(expectations):
        if each.condition is None:
            rows = rows.withColumn(f"{REPEAT_PREFIX}{number}", sf.expr(repeat_expression(each)))
        else:
            rows = rows.where(each.condition)
    conditions = [each.condition for each in expectations if each.condition is not None]
    counts = [sf.count_if(sf.expr(condition)).alias(f"_{number}") for number, condition in enumerate(conditions)]
    return (rows.agg(*counts) if counts else rows).schema


def _check_one(rows: Any, vertex: str, expectation: Expectation) -> None:
    from pyspark.errors import PySparkException

    try:
        _analyse(rows, [expectation])
    except PySparkException as error:
        needs = "a condition of its columns, true or false for each row by itself (no aggregate, no window)"
        if expectation.columns:
            needs = f"columns of its output that can be sorted ({', '.join(rows.schema.names)})"
        raise JobGraphError(
            f"vertex {vertex!r}: expectation {expectation.name!r} ({expectation.what}) cannot be counted; expected "
            f"{needs}. Spark says: {str(error).partition('JVM stacktrace')[0].strip()}"
        ) from error


def _check_words(vertex: str, expectation: Expectation) -> None:
    from airflow_abs.spark.connect.protocol import protos

    if expectation.condition is None:
        return
    if found := _QUERY.search(_NO_WORDS.sub(" ", expectation.condition)):
        raise JobGraphError(
            f"vertex {vertex!r}: expectation {expectation.name!r} ({expectation.what}) holds a query ({found[0]}); "
            "expected a condition of the row alone. Join what it compares with in the transform, as a column (a column "
            "of that name goes in backticks)"
        )
    project = protos().Project(expressions=[sql_expression(expectation.condition)])
    values = find_non_repeatable(protos().Relation(project=project))
    if values:
        raise JobGraphError(
            f"vertex {vertex!r}: expectation {expectation.name!r} ({expectation.what}) uses {values[0].function}(), "
            "which can give another value for the same row; expected a condition of the row alone. "
            "Write the day as a template, such as DATE '{{ ds }}', or make the value a column in the transform"
        )
