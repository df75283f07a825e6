"""Functions whose value is no function of the rows: found wherever they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_abs.spark.non_repeatable import NonRepeatable, Repeatability
from tests.spark.proof.transforms import functions, sql

pytestmark = [pytest.mark.spark, pytest.mark.sample]

UUID = NonRepeatable("uuid", Repeatability.RANDOM)
RAND = NonRepeatable("rand", Repeatability.RANDOM)


@pytest.mark.parametrize(
    ("transform", "found"),
    [
        (lambda orders: orders.withColumn("u", functions().expr("uuid()")), (UUID,)),
        (lambda orders: orders.withColumn("r", functions().rand()), (RAND,)),
        (lambda orders: orders.where(functions().rand(3) < 0.5), (RAND,)),
        (lambda orders: orders.withColumn("t", functions().current_timestamp()), ()),  # fixed by plan
        (sql("SELECT *, CURRENT_TIMESTAMP AS t, Rand() AS r FROM {orders}"), (RAND,)),
        (
            lambda orders: orders.selectExpr("shuffle(array(id, 1)) AS s"),
            (NonRepeatable("shuffle", Repeatability.RANDOM),),
        ),
        (
            lambda orders: orders.withColumn("n", functions().monotonically_increasing_id()),
            (NonRepeatable("monotonically_increasing_id", Repeatability.ROW_NUMBER),),
        ),
        (sql("SELECT unix_timestamp(region) AS t FROM {orders}"), ()),
        (sql("SELECT unix_timestamp() AS t FROM {orders}"), ()),
        (lambda orders: orders.withColumnRenamed("region", "now"), ()),
        (sql("SELECT region AS rand FROM {orders}"), ()),
        (
            lambda source: source.withColumn("f", functions().input_file_name()),
            (NonRepeatable("input_file_name", Repeatability.FILE),),
        ),
    ],
)
def test_what_differs_by_subtask_or_try_is_known_after_a_proof(
    prove: Callable[..., Any], transform: Callable[..., Any], found: tuple[NonRepeatable, ...]
) -> None:
    assert prove(transform).values == found


def test_a_python_function_that_says_so_is_known(prove: Callable[..., Any]) -> None:
    def dice(value):  # type: ignore[no-untyped-def] # hints would choose how pandas calls it
        return value

    def transform(orders: Any) -> Any:
        return orders.withColumn("d", functions().udf(dice, "bigint").asNondeterministic()("id"))

    assert prove(transform).values == (NonRepeatable("dice", Repeatability.PYTHON),)


def test_they_are_known_of_a_vertex_that_needs_no_proof(prove: Callable[..., Any]) -> None:
    proof = prove(lambda orders: orders.withColumn("u", functions().expr("uuid()")), parallelism=1)
    assert (proof.exempt, proof.values) == ("parallelism=1", (UUID,))


def test_the_number_of_a_partition_says_nothing_about_rows(refusal: Callable[..., str]) -> None:
    assert refusal(lambda orders: orders.selectExpr("spark_partition_id() AS p")) == (
        "vertex 'step' cannot run in parts: spark_partition_id() depends on how a subtask's rows lie in Spark's "
        "partitions and files, not on the rows. To fix it, use a column of the data instead; or set "
        "VertexOptions(parallelism=1); or "
        "set VertexOptions(per_subtask=True) if you want a result for each subtask's part"
    )
