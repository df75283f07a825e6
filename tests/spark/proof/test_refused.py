"""Transforms that would give other rows in parts: each is refused, with what it needs and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_abs.spark.connect.abilities import release_number
from testbed.environments import server_release
from tests.spark.proof.transforms import count_table, functions, over_batches, same, sql

pytestmark = pytest.mark.spark

REFUSED: dict[str, tuple[Callable[..., Any], str, str]] = {
    "limit": (
        lambda orders: orders.limit(3),
        "limit()/offset() at test_refused.py:",
        "of its own with VertexOptions(parallelism=1)",
    ),
    "limit of a source": (
        lambda source: source.limit(3),
        "limit()/offset() at test_refused.py:",
        "(here the source of step is distributed by files). To fix it, make it a vertex of its own with "
        "VertexOptions(parallelism=1)",
    ),
    "limit of a rebalance input": (
        lambda events: events.limit(3),
        "each would take this many of its own",
        "parallelism=1",
    ),
    "limit of the one side of a join": (
        lambda orders, customers: orders.join(customers.drop("region").limit(3), "customer"),
        "limit()/offset()",
        "parallelism=1",
    ),
    "hinted limit": (
        lambda events, rates: events.limit(3).join(rates.hint("broadcast"), "customer"),
        "limit()/offset()",
        "parallelism=1",
    ),
    "offset": (lambda orders: orders.offset(3), "limit()/offset()", "parallelism=1"),
    "ordered limit": (lambda orders: orders.orderBy("id").limit(3), "limit()/offset()", "parallelism=1"),
    "limit inside": (lambda orders: orders.limit(9).groupBy("customer").count(), "limit()/offset()", "parallelism=1"),
    "limit in SQL": (sql("SELECT * FROM {orders} LIMIT 3"), "limit()/offset() at transforms.py:", "parallelism=1"),
    "limit of a broadcast input": (
        lambda events, rates: events.join(rates.limit(3), "customer"),
        "limit()/offset() of rows that every subtask has",
        "read that with broadcast()",
    ),
    "total": (lambda orders: orders.agg(functions().sum("amount")), "needs all rows in one subtask", "parallelism=1"),
    "aggregate by another column": (
        lambda orders: orders.groupBy("region").count(),
        "an aggregate (groupBy, agg, count, ...) at test_refused.py:",
        "read the input with hash('region')",
    ),
    "aggregate by a part of the keys": (
        lambda pairs: pairs.groupBy("region").count(),
        "(here pairs is hashed by region, customer)",
        "hash('region')",
    ),
    "mapInPandas behind other keys": (
        lambda orders: orders.repartition("region").mapInPandas(same, orders.schema),
        "mapInPandas() after repartition(region) at test_refused.py:",
        "needs all rows with the same value of region in one subtask (here orders is hashed by customer). To fix it, "
        "read the input with hash('region'), or drop repartition(region) if the function treats its rows one by one",
    ),
    "mapInPandas behind the key of a rebalance input": (
        lambda events: events.repartition("customer").mapInPandas(same, events.schema),
        "(here events is spread by no key)",
        "hash('customer')",
    ),
    "mapInArrow behind a part of the keys": (
        lambda pairs: pairs.repartition("region").mapInArrow(same, pairs.schema),
        "mapInArrow() after repartition(region)",
        "hash('region')",
    ),
    "mapInPandas behind a computed key": (
        lambda orders: orders.repartition(functions().col("customer") % 3).mapInPandas(same, orders.schema),
        "mapInPandas() after repartition()",
        "give the vertex before a column with that value, hash() and repartition() by it, or drop repartition()",
    ),
    "mapInPandas of one partition": (
        lambda orders: orders.coalesce(1).mapInPandas(same, orders.schema),
        "mapInPandas() after coalesce(1) at test_refused.py:",
        "needs all rows in one subtask (here orders is hashed by customer). To fix it, make it a vertex of its own "
        "with VertexOptions(parallelism=1), or drop coalesce(1) if the function treats its rows one by one; or set "
        "VertexOptions(per_subtask=True)",
    ),
    "mapInPandas of one shuffled partition": (
        lambda source: source.repartition(1).mapInPandas(same, source.schema),
        "mapInPandas() after repartition(1)",
        "parallelism=1",
    ),
    "mapInPandas of one partition by the key": (
        lambda orders: orders.repartition(1, "customer").mapInPandas(same, orders.schema),
        "mapInPandas() after repartition(1, customer)",
        "parallelism=1",
    ),
    "mapInPandas of one partition, with much in between": (
        lambda orders, rates: (
            orders.coalesce(1)
            .where("amount > 3")
            .sortWithinPartitions("id")
            .join(functions().broadcast(rates), "customer")
            .groupBy("customer")
            .count()
            .mapInPandas(same, "count BIGINT")
        ),
        "mapInPandas() after coalesce(1)",
        "parallelism=1",
    ),
    "mapInPandas of one partition of a union's side": (
        lambda orders, events: orders.coalesce(1).union(events).mapInPandas(same, orders.schema),
        "mapInPandas() after coalesce(1)",
        "parallelism=1",
    ),
    "mapInPandas of partitions by number": (
        lambda orders: orders.repartition(8).mapInPandas(same, orders.schema),
        "mapInPandas() after repartition(8) at test_refused.py:",
        "would see 8 partitions of each subtask's rows, where plain Spark makes 8 partitions of all rows (here orders "
        "is hashed by customer). To fix it, drop repartition(8) if the function treats its rows one by one, or write "
        "repartition() with the columns alone, whose rows it needs together; or set VertexOptions(parallelism=1)",
    ),
    "mapInPandas of partitions by number and key": (
        lambda orders: orders.repartition(8, "customer").mapInPandas(same, orders.schema),
        "mapInPandas() after repartition(8, customer)",
        "write repartition() with the columns alone",
    ),
    "mapInPandas of partitions by the key, made fewer": (
        lambda orders: orders.repartition("customer").coalesce(2).mapInPandas(same, orders.schema),
        "mapInPandas() after coalesce(2)",
        "drop coalesce(2)",
    ),
    "mapInPandas of ranges": (
        lambda orders: orders.repartitionByRange("customer").mapInPandas(same, orders.schema),
        "mapInPandas() after repartitionByRange()",
        "where plain Spark makes partitions of all rows",
    ),
    "mapInPandas of partitions by their number": (
        lambda orders: orders.repartitionById(4, functions().col("customer")).mapInPandas(same, orders.schema),
        "mapInPandas() after repartitionById(4)",
        "drop repartitionById(4)",
    ),
    "mapInPandas behind a hint": (
        lambda orders: orders.hint("coalesce", 1).mapInPandas(same, orders.schema),
        "mapInPandas() after hint('coalesce')",
        "drop hint('coalesce')",
    ),
    "mapInPandas behind a hint in SQL": (
        lambda orders: orders.sparkSession.sql("SELECT /*+ COALESCE(1) */ * FROM {orders}", orders=orders).mapInPandas(
            same, orders.schema
        ),
        "a function over partitions beside the hint COALESCE at",
        "write repartition() or coalesce() of the DataFrame in its place",
    ),
    "mapInPandas behind a sort of all rows": (
        lambda orders: orders.orderBy("id").mapInPandas(same, orders.schema),
        "a sort of all rows (orderBy id",
        "parallelism=1",
    ),
    "mapInPandas whose tasks talk": (
        lambda orders: orders.mapInPandas(same, orders.schema, barrier=True),
        "mapInPandas() with barrier=True at test_refused.py:",
        "needs all rows in one subtask: its tasks communicate (here orders is hashed by customer). To fix it, "
        "drop barrier=True, or make it a vertex of its own with VertexOptions(parallelism=1)",
    ),
    "TRANSFORM of one partition": (
        lambda orders: orders.sparkSession.sql(
            "SELECT TRANSFORM(id) USING 'wc -l' AS (n STRING) FROM {orders}", orders=orders.coalesce(1)
        ),
        "TRANSFORM after coalesce(1) at test_refused.py:",
        "parallelism=1",
    ),
    "a table function of one partition": (
        lambda orders: count_table()(orders.coalesce(1).asTable()),
        "a table function after coalesce(1)",
        "parallelism=1",
    ),
    "a table function of a table as one partition": (
        lambda orders: count_table()(orders.asTable().withSinglePartition()),
        "DISTRIBUTE BY, CLUSTER BY or a repartition (SinglePartition",
        "drop it",
    ),
    "a table function by another key": (
        lambda orders: count_table()(orders.asTable().partitionBy("region")),
        "DISTRIBUTE BY, CLUSTER BY or a repartition (hashpartitioning",
        "drop it",
    ),
    "an iterator of batches of one partition": (
        lambda orders: orders.coalesce(1).select(over_batches()("id")),
        "a Python function of batches (Iterator) after coalesce(1) at test_refused.py:",
        "parallelism=1",
    ),
    "row numbers of one partition": (
        lambda orders: orders.coalesce(1).withColumn("n", functions().monotonically_increasing_id()),
        "monotonically_increasing_id() after coalesce(1) at test_refused.py:",
        "parallelism=1",
    ),
    "aggregate of a source": (
        lambda source: source.groupBy("customer").count(),
        "(here the source of step is distributed by files)",
        "make it a vertex of its own whose input is hashed so",
    ),
    "aggregate of a rebalance input": (
        lambda events: events.groupBy("customer").count(),
        "(here events is spread by no key)",
        "hash('customer')",
    ),
    "aggregate by a derived key": (
        lambda orders: orders.withColumn("customer", functions().col("customer") % 7).groupBy("customer").count(),
        "an aggregate",
        "hash('customer')",
    ),
    "rollup": (lambda orders: orders.rollup("customer", "region").count(), "an aggregate", "hash("),
    "cube": (lambda orders: orders.cube("customer").count(), "an aggregate", "hash("),
    "distinct without the key": (
        lambda orders: orders.select("region").distinct(),
        "distinct()/dropDuplicates()",
        "hash('region')",
    ),
    "dropDuplicates by another column": (
        lambda orders: orders.dropDuplicates(["region"]),
        "needs all rows with the same value of region",
        "hash('region')",
    ),
    "window by another column": (
        sql("SELECT *, row_number() OVER (PARTITION BY region ORDER BY id) AS r FROM {orders}"),
        "a window at transforms.py:",
        "hash('region')",
    ),
    "window over everything": (
        sql("SELECT *, row_number() OVER (ORDER BY id) AS r FROM {orders}"),
        "a window",
        "partitionBy() the window",
    ),
    "global sort, then a column": (
        lambda orders: orders.orderBy("amount").withColumn("twice", functions().col("amount") * 2),
        "orderBy amount ASC NULLS FIRST",
        "sortWithinPartitions()",
    ),
    "global sort": (
        lambda orders: orders.orderBy("amount"),
        "orderBy amount ASC NULLS FIRST",
        "sortWithinPartitions()",
    ),
    "join on another column": (
        lambda orders, customers: orders.join(customers.drop("customer"), "region"),
        "a join on region = region at test_refused.py:",
        "the smaller one with broadcast()",
    ),
    "join of one key of two": (
        lambda pairs, others: pairs.join(others.select("region", "total").withColumnRenamed("total", "t"), "region"),
        "a join on region = region",
        "hash() of these columns",
    ),
    "join with keys crossed": (
        sql(
            "SELECT p.total, o.total AS t FROM {pairs} p JOIN {others} o "
            "ON p.region = o.customer AND p.customer = o.region"
        ),
        "a join on",
        "in the same order",
    ),
    "join with a rebalance input": (
        lambda orders, events: orders.join(events.select("customer", functions().col("id").alias("event")), "customer"),
        "a join on customer = customer",
        "hash()",
    ),
    "join of a source with a hash input": (
        lambda source, customers: source.join(customers.drop("region"), "customer"),
        "the source of step is distributed by files",
        "hash()",
    ),
    "cross join": (
        lambda orders, longs: orders.crossJoin(longs.select("note")),
        "compares no equal columns",
        "broadcast()",
    ),
    "join by inequality": (
        sql("SELECT o.id, c.name FROM {orders} o JOIN {customers} c ON o.customer < c.customer"),
        "compares no equal columns",
        "broadcast()",
    ),
    "NOT IN": (
        sql("SELECT * FROM {orders} WHERE customer NOT IN (SELECT customer FROM {customers})"),
        "NOT IN",
        "NOT EXISTS",
    ),
    "full join of a broadcast input": (
        lambda orders, rates: orders.join(rates, "customer", "full"),
        "a full outer join that keeps rows of a side that every subtask has",
        "keeps the divided side",
    ),
    "right join of a broadcast input": (
        lambda orders, rates: orders.join(rates, "customer", "right"),
        "a right join",
        "hash()",
    ),
    "left join from a broadcast input": (
        lambda orders, rates: rates.join(orders, "customer", "left"),
        "a left join",
        "hash()",
    ),
    "semi join of a broadcast input": (
        lambda pairs, rates: rates.join(pairs, "customer", "left_semi"),
        "a left semi join",
        "hash()",
    ),
    "anti join of a broadcast input": (
        lambda orders, rates: rates.join(orders, "customer", "left_anti"),
        "a left anti join",
        "hash()",
    ),
    "union with a broadcast input": (
        lambda orders, rates: orders.select("customer").union(rates.select("customer")),
        "a union of divided rows with rows that every subtask has",
        "rebalance()",
    ),
    "union with local rows": (
        sql("SELECT customer FROM {orders} UNION ALL SELECT 1"),
        "a union of divided rows",
        "make the rows a source",
    ),
    "a total over all rows in a subquery": (
        sql("SELECT * FROM {orders} WHERE amount > (SELECT avg(amount) FROM {orders})"),
        "an aggregate",
        "parallelism=1",
    ),
    "sample": (lambda orders: orders.sample(0.1), "sample() at test_refused.py:", "pmod(xxhash64("),
    "sample by strata": (lambda orders: orders.sampleBy("customer", {1: 0.5}), "sample()", "pmod(xxhash64("),
    "sample in SQL": (sql("SELECT * FROM {orders} TABLESAMPLE (10 PERCENT)"), "sample()", "pmod(xxhash64("),
    "DISTRIBUTE BY another column": (
        sql("SELECT region, count(*) AS n FROM (SELECT * FROM {orders} DISTRIBUTE BY region) GROUP BY region"),
        "DISTRIBUTE BY, CLUSTER BY or a repartition (hashpartitioning(region",
        "drop it",
    ),
    "repartition by another column": (
        lambda orders: orders.repartition("region").groupBy("region").count(),
        "an aggregate",
        "hash('region')",
    ),
    "DISTRIBUTE BY more than the keys, on both sides": (
        sql(
            "SELECT p.goal, v.seconds FROM (SELECT * FROM {plans} DISTRIBUTE BY customer, day) p "
            "JOIN (SELECT * FROM {visits} DISTRIBUTE BY customer, day) v ON p.customer = v.customer AND p.day = v.day"
        ),
        "a join on",
        "hash()",
    ),
    "applyInPandas by another column": (
        lambda orders: orders.groupBy("region").applyInPandas(same, orders.schema),
        "a function of groups (applyInPandas, cogroup) at test_refused.py:",
        "hash('region')",
    ),
    "cogroup by another column": (
        lambda orders, customers: (
            orders.groupBy("region")
            .cogroup(customers.groupBy("region"))
            .applyInPandas(lambda left, right: left, orders.schema)
        ),
        "a function of groups",
        "hash('region')",
    ),
    "cogroup with a broadcast input": (
        lambda orders, rates: (
            orders.groupBy("customer")
            .cogroup(rates.groupBy("customer"))
            .applyInPandas(lambda left, right: left, orders.schema)
        ),
        "would give the groups of a broadcast input once for each subtask",
        "read both sides with hash()",
    ),
    "describe": (lambda orders: orders.describe(), "needs all rows in one subtask", "parallelism=1"),
    "summary": (lambda orders: orders.summary("count"), "needs all rows in one subtask", "parallelism=1"),
    "freqItems": (lambda orders: orders.freqItems(["region"]), "needs all rows in one subtask", "parallelism=1"),
    "intersect without the key": (
        lambda orders, customers: orders.select("region").intersect(customers.select("region")),
        "region",
        "hash(",
    ),
    "pivot without values": (
        lambda orders: orders.groupBy("customer").pivot("region").sum("amount"),
        "pivot() without values at test_refused.py:",
        "pivot('c', ['a', 'b'])",
    ),
    "crosstab": (lambda orders: orders.crosstab("customer", "region"), "crosstab()", "groupBy('a').pivot"),
    "transpose": (lambda orders: orders.select("region", "amount").transpose("region"), "transpose()", "unpivot()"),
    "number of a Spark partition": (
        lambda orders: orders.withColumn("p", functions().spark_partition_id()),
        "spark_partition_id()",
        "a column of the data",
    ),
    "number of a Spark partition in SQL": (
        sql("SELECT *, spark_partition_id() AS p FROM {orders}"),
        "spark_partition_id()",
        "a column of the data",
    ),
    "file name of an input": (
        lambda orders: orders.withColumn("f", functions().input_file_name()),
        "input_file_name()",
        "that has the source",
    ),
    "last part of one operator is another's": (
        lambda orders, customers: orders.join(customers.drop("region"), "customer").groupBy("region").count(),
        "same value of region",
        "hash('region')",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_transform_that_needs_rows_of_other_subtasks_says_which_operator_and_what_to_write(
    name: str, refusal: Callable[..., str]
) -> None:
    if "by their number" in name and release_number(server_release()) < (4, 1):
        pytest.skip("Spark 4.0 has no repartitionById()")
    transform, found, remedy = REFUSED[name]
    message = refusal(transform)
    assert message.startswith("vertex 'step' cannot run in parts: ")
    assert found in message
    assert remedy in message


def test_an_operator_that_a_release_was_not_tried_with_is_refused_there_by_name(
    session: Any, refusal: Any, prove: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if release_number(server_release()) < (4, 1):
        pytest.skip("Spark 4.0 has no recursive queries")
    numbered = sql(
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) "
        "SELECT e.id FROM {events} e JOIN t ON e.customer = t.n"
    )

    def totals(orders: Any) -> Any:
        return orders.groupBy("customer").sum("amount")

    monkeypatch.setitem(vars(session), "version", "4.2.0")
    assert prove(numbered).exempt is None
    monkeypatch.setitem(vars(session), "version", "4.9.0")
    assert prove(totals).exempt is None
    message = refusal(numbered)
    assert (
        "Spark's operator 'UnionLoop' was not tried on Spark 4.9.0. To fix it, run the server on Spark 4.2, " in message
    )
