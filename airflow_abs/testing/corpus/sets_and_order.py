"""Unions, differences, duplicates, order, limits, samples and partitions."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import (
    Family,
    all_distinct,
    as_many_rows,
    by,
    in_order,
    query,
    some_of,
    source,
    spread,
    whole,
)

FAMILY = Family("sets, order and limits")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS, EVENTS, ANYWHERE = by("orders", "customer"), by("events", "customer"), spread("orders")
TWICE = "every subtask returns the rows of the whole input"
ORDER = "each subtask orders its own rows, and files have no order"
FIRST = "each subtask takes its own first rows"

safe(
    "union_all_rows",
    lambda o, e: o.select("customer", "at").union(e.select("customer", "at")),
    o=ANYWHERE,
    e=spread("events"),
)
safe("union_all_alias", lambda o, e: o.select("customer").unionAll(e.select("customer")), o=ORDERS, e=EVENTS)
safe("union_by_name", lambda o, e: o.unionByName(e, allowMissingColumns=True), o=ORDERS, e=EVENTS)
safe(
    "union_of_source_and_input",
    lambda o, e: o.select("customer").union(e.select("customer")),
    o=source("orders"),
    e=EVENTS,
)
safe("union_then_group_by_key", lambda o, e: o.select("customer").union(e.select("customer")).groupBy("customer").count(), o=ORDERS, e=EVENTS)  # fmt: skip
safe("union_with_joined_whole", lambda o, c: o.select("id", "region").union(o.join(c, "customer").select("id", "home")), o=ANYWHERE, c=whole("customers"))  # fmt: skip
safe("except_all_by_key", lambda o, e: o.select("customer").exceptAll(e.select("customer")), o=ORDERS, e=EVENTS)
safe("subtract_by_key", lambda o, e: o.select("customer").subtract(e.select("customer")), o=ORDERS, e=EVENTS)
safe("intersect_by_key", lambda o, e: o.select("customer").intersect(e.select("customer")), o=ORDERS, e=EVENTS)
safe("intersect_all_by_key", lambda o, e: o.select("customer").intersectAll(e.select("customer")), o=ORDERS, e=EVENTS)
safe("distinct_with_key", lambda o: o.select("customer", "region").distinct(), o=ORDERS)
safe("distinct_rows_with_key", lambda e: e.distinct(), e=EVENTS)
safe("drop_duplicates_with_key", lambda e: e.dropDuplicates(["customer", "kind", "at", "value"]), e=EVENTS)
safe("drop_duplicates_of_key", lambda o: o.select("customer").drop_duplicates(), o=ORDERS)
safe("drop_duplicates_by_key_keeps_one", lambda o: o.dropDuplicates(["customer"]).select("customer", "id"), "which row stays is open", check=as_many_rows, o=ORDERS)  # fmt: skip
safe("sort_within_partitions", lambda o: o.sortWithinPartitions("at"), o=ANYWHERE)
unsafe(
    "seeded_sample",
    lambda o: o.sample(0.5, seed=3).select("id"),
    "which rows depends on how they are distributed",
    check=some_of("id"),
    o=ANYWHERE,
)
unsafe("sample_by_key", lambda o: o.sampleBy("qty", {1: 0.5, 2: 1.0}, seed=1).select("id"), "which rows depends on how they are distributed", check=some_of("id"), o=ANYWHERE)  # fmt: skip
unsafe("random_split", lambda o: o.randomSplit([0.5, 0.5], seed=2)[0].select("id"), "which rows depends on how they are distributed", check=some_of("id"), o=ANYWHERE)  # fmt: skip
safe("coalesce_partitions", lambda o: o.coalesce(1).where("qty > 1"), "moves rows, changes none", o=ANYWHERE)
safe("repartition_by_number", lambda o: o.repartition(3).where("qty > 1"), "moves rows, changes none", o=ANYWHERE)
safe("repartition_by_column", lambda o: o.repartition(2, "region"), "moves rows, changes none", o=ORDERS)
safe("repartition_by_range", lambda o: o.repartitionByRange(2, "id"), "moves rows, changes none", o=ANYWHERE)
safe("repartition_by_id", lambda o: o.repartitionById(2, F.col("qty")), "moves rows, changes none", o=ANYWHERE)
safe(
    "top_of_each_key",
    lambda o: o.groupBy("customer").agg(F.max_by("id", F.struct("amount", "id")).alias("top")),
    o=ORDERS,
)

unsafe(
    "union_with_whole",
    lambda o, c: o.select("customer").union(c.select("customer")),
    TWICE,
    o=ANYWHERE,
    c=whole("customers"),
)
unsafe(
    "union_by_name_with_whole",
    lambda o, c: o.unionByName(c, allowMissingColumns=True),
    TWICE,
    o=ORDERS,
    c=whole("customers"),
)
unsafe("intersect_from_whole", lambda o, c: c.select("customer").intersect(o.select("customer")), "a customer is in several subtasks", o=ANYWHERE, c=whole("customers"))  # fmt: skip
unsafe("subtract_from_whole", lambda o, c: c.select("customer").subtract(o.select("customer")), TWICE, o=ORDERS, c=whole("customers"))  # fmt: skip
unsafe("subtract_of_rebalanced", lambda o, e: o.select("customer").subtract(e.select("customer")), "equal rows are in different subtasks", o=ANYWHERE, e=spread("events"))  # fmt: skip
unsafe("intersect_of_rebalanced", lambda o, e: o.select("customer").intersect(e.select("customer")), "equal rows are in different subtasks", o=ANYWHERE, e=spread("events"))  # fmt: skip
unsafe("except_all_without_key", lambda o, p: o.select("qty").exceptAll(p.select("qty")), "equal rows are in different subtasks", o=ORDERS, p=by("orders", "id"))  # fmt: skip
unsafe(
    "distinct_without_key", lambda o: o.select("region").distinct(), "equal rows are in different subtasks", o=ORDERS
)
unsafe(
    "distinct_of_source",
    lambda o: o.select("customer").distinct(),
    "equal rows are in different files",
    o=source("orders"),
)
unsafe("drop_duplicates_of_other", lambda o: o.dropDuplicates(["region"]).select("region"), "one row for each subtask and region", o=ORDERS)  # fmt: skip
unsafe("sql_union_distinct", query("SELECT region FROM {o} UNION SELECT home FROM {c}"), "equal rows are in different subtasks", o=ORDERS, c=by("customers", "customer"))  # fmt: skip
unsafe("limit_rows", lambda o: o.limit(5), FIRST, check=as_many_rows, o=ANYWHERE)
unsafe("limit_of_source", lambda o: o.select("id").limit(7), FIRST, check=as_many_rows, o=source("orders"))
unsafe("limit_then_filter", lambda o: o.limit(1000).where("qty > 2").limit(3), FIRST, check=as_many_rows, o=ORDERS)
unsafe("top_ten", lambda o: o.orderBy(F.desc("amount"), "id").limit(10), FIRST, o=ORDERS)
unsafe("offset_rows", lambda o: o.orderBy("id").offset(10), "each subtask leaves out its own first rows", o=ANYWHERE)
unsafe("limit_and_offset", query("SELECT id FROM {o} ORDER BY id LIMIT 10 OFFSET 5"), FIRST, o=ORDERS)
unsafe("sample_with_replacement_to_fixed_size", lambda o: o.orderBy(F.rand(1)).limit(4).select("id"), FIRST, check=as_many_rows, o=ANYWHERE)  # fmt: skip
unsafe("order_by_column", lambda o: o.orderBy("at"), ORDER, check=in_order("at"), o=ANYWHERE)
unsafe("sort_by_column", lambda o: o.sort(F.col("id")), ORDER, check=in_order("id"), o=ORDERS)
if hasattr(DataFrame, "zipWithIndex"):  # since Spark 4.2
    unsafe("zip_with_index", lambda o: o.select("id").zipWithIndex(), "each subtask counts from 0", check=all_distinct("index"), o=ANYWHERE)  # fmt: skip
unsafe("limit_inside_union", lambda o, e: o.select("customer").limit(2).union(e.select("customer")), FIRST, check=as_many_rows, o=ORDERS, e=EVENTS)  # fmt: skip
unsafe("limit_before_join", lambda o, c: o.orderBy("id").limit(4).join(c, "customer", "left"), FIRST, o=ANYWHERE, c=whole("customers"))  # fmt: skip
