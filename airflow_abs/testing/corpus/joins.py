"""Joins: safe when every pair of rows that can match meets exactly once, and so does every row that matches nothing."""

from __future__ import annotations

from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import Family, by, query, source, spread, whole

FAMILY = Family("joins")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
BOTH = {"o": by("orders", "customer"), "c": by("customers", "customer")}
LOOKUP = {"o": spread("orders"), "c": whole("customers")}
KEYED_LOOKUP = {"o": by("orders", "customer"), "c": whole("customers")}
APART = "matching rows are in different subtasks"
TWICE = "every subtask gives the rows of the whole input that match nothing of its own"

for kind in ("inner", "left", "right", "full", "semi", "anti"):
    safe(f"{kind}_join_by_key", lambda o, c, kind=kind: o.join(c, "customer", kind), **BOTH)
for kind in ("inner", "left", "semi", "anti"):
    safe(f"{kind}_join_of_lookup", lambda o, c, kind=kind: o.join(F.broadcast(c), "customer", kind), **LOOKUP)
for kind in ("right", "full"):
    unsafe(f"{kind}_join_of_lookup", lambda o, c, kind=kind: o.join(c, "customer", kind), TWICE, **LOOKUP)
    unsafe(
        f"{kind}_join_of_lookup_to_keyed", lambda o, c, kind=kind: o.join(c, "customer", kind), TWICE, **KEYED_LOOKUP
    )

safe("join_of_lookup_without_hint", lambda o, c: o.join(c, "customer"), o=source("orders"), c=whole("customers"))
safe("left_join_of_lookup_without_hint", lambda o, c: o.join(c, "customer", "left"), **LOOKUP)
safe("right_join_from_lookup", lambda o, c: c.join(o, "customer", "right"), "keeps the rows that are divided", **LOOKUP)
safe("inner_join_from_lookup", lambda o, c: c.join(o, "customer"), **LOOKUP)
unsafe("left_join_from_lookup", lambda o, c: c.join(o, "customer", "left"), TWICE, **LOOKUP)
unsafe(
    "semi_join_from_lookup",
    lambda o, c: c.join(o, "customer", "semi"),
    "a customer has orders in several subtasks",
    **LOOKUP,
)
unsafe("anti_join_from_lookup", lambda o, c: c.join(o, "customer", "anti"), TWICE, **LOOKUP)
unsafe("anti_join_from_lookup_to_keyed", lambda o, c: c.join(o, "customer", "anti"), TWICE, **KEYED_LOOKUP)
unsafe("semi_join_from_lookup_to_other", lambda o, c: c.join(o.withColumnRenamed("qty", "long_key").select("long_key"), "long_key", "semi"), "a customer's number is in several subtasks", **KEYED_LOOKUP)  # fmt: skip
safe(
    "semi_join_from_lookup_to_keyed",
    lambda o, c: c.join(o, "customer", "semi"),
    "all orders of a customer meet",
    **KEYED_LOOKUP,
)
safe("cross_join_of_lookup", lambda o, c: o.select("id").crossJoin(c.select("name")), **LOOKUP)
unsafe("cross_join_of_both", lambda o, c: o.select("id").crossJoin(c.select("name")), APART, **BOTH)
safe(
    "range_join_of_lookup",
    lambda o, c: o.join(c, F.col("at").cast("date") > F.col("since"), "inner").select("id", "name"),
    **LOOKUP,
)
safe(
    "left_range_join_of_lookup",
    lambda o, c: o.join(F.broadcast(c), o.qty == c.long_key, "left").select("id", "name"),
    **LOOKUP,
)
safe("join_by_condition_on_keys", lambda o, c: o.join(c, o.customer == c.customer, "left").drop(c.customer), **BOTH)
safe("join_by_key_and_condition", lambda o, c: o.join(c, (o.customer == c.customer) & (o.qty > c.discount), "left").drop(c.customer), **BOTH)  # fmt: skip
safe("null_safe_join_by_key", lambda o, c: o.join(c, o.customer.eqNullSafe(c.customer)).drop(c.customer), "NULL keys meet, too", **BOTH)  # fmt: skip
safe("join_by_more_than_the_key", lambda o, e: o.join(e.distinct().drop("at"), ["customer"], "inner").where("kind = 'buy'"), o=by("orders", "customer"), e=by("events", "customer"))  # fmt: skip
safe("join_by_key_and_day", lambda o, e: o.join(e.withColumn("day", F.to_date("at")).drop("at"), ["customer", "day"]), o=by("orders", "customer"), e=by("events", "customer"))  # fmt: skip
safe("join_by_two_keys", lambda o, e: o.join(e.select("customer", "region", F.col("qty").alias("other")), ["customer", "region"], "full"), o=by("orders", "customer", "region"), e=by("orders", "customer", "region"))  # fmt: skip
safe("self_join_by_key", lambda o: o.alias("a").join(o.alias("b"), F.expr("a.customer = b.customer AND a.id < b.id")).selectExpr("a.id AS first", "b.id AS second"), o=by("orders", "customer"))  # fmt: skip
safe("aggregate_joined_back_by_key", lambda o: o.join(o.groupBy("customer").agg(F.avg("qty").alias("mean")), "customer", "left"), o=by("orders", "customer"))  # fmt: skip
safe("three_joins_by_key", lambda o, c, e: o.join(c, "customer", "left").join(e.groupBy("customer").count(), "customer", "left").join(e.select("customer").distinct(), "customer", "semi"), e=by("events", "customer"), **BOTH)  # fmt: skip
safe("join_then_group_by_key", lambda o, c: o.join(c, "customer").groupBy("customer", "name").agg(F.sum("amount").alias("s")), **BOTH)  # fmt: skip
safe("join_hints_by_key", lambda o, c: o.hint("merge").join(c.hint("shuffle_hash"), "customer"), **BOTH)
safe("two_lookups", lambda o, c, h: o.join(c, "customer", "left").join(h.where("valid_to IS NULL").select("customer", "tier"), "customer", "left"), h=whole("history"), **LOOKUP)  # fmt: skip
safe("lookup_of_aggregated_whole", lambda o, h: o.join(h.groupBy("customer").agg(F.count("*").alias("n")), "customer", "left"), o=spread("orders"), h=whole("history"))  # fmt: skip
safe("lookup_of_distinct_whole", lambda o, c: o.join(c.select(F.col("home").alias("region")).distinct(), "region", "semi"), **LOOKUP)  # fmt: skip
safe("lookup_of_limited_whole", lambda o, c: o.join(c.orderBy("long_key").limit(3).select("customer", "name"), "customer", "left"), "all subtasks see the same first rows", **LOOKUP)  # fmt: skip
safe("lookup_against_grand_total_of_whole", lambda o, c: o.crossJoin(c.agg(F.max("discount").alias("m"))).where("price > m").select("id", "m"), **LOOKUP)  # fmt: skip
safe("lateral_join_of_lookup", lambda o, c: o.lateralJoin(c.where(F.col("customer") == F.col("customer").outer()).select("name")).select("id", "name"), **LOOKUP)  # fmt: skip
safe("lateral_top_of_lookup", query("SELECT id, l.name FROM {o} o, LATERAL (SELECT name FROM {c} c WHERE c.customer <= o.qty ORDER BY c.customer DESC LIMIT 1) l"), **LOOKUP)  # fmt: skip
safe("nearest_rows_of_lookup", lambda o, c: o.select("id", "qty").nearestByJoin(c.select("name", "long_key"), -F.abs(F.col("qty") - F.col("long_key") + F.lit(0.25)), 1, "exact", "similarity"), **LOOKUP)  # fmt: skip
safe("natural_join_by_key", query("SELECT id, name FROM {o} NATURAL JOIN {c}"), **BOTH)
safe("as_of_join_by_key", lambda o, e: o.select("customer", "id", "at", F.lit(None).cast("double").alias("value")).unionByName(e.distinct().select("customer", F.lit(None).cast("bigint").alias("id"), "at", "value")).selectExpr("customer", "id", "last(value, true) OVER (PARTITION BY customer ORDER BY at, id NULLS FIRST, value ROWS UNBOUNDED PRECEDING) AS known").where("id IS NOT NULL"), o=by("orders", "customer"), e=by("events", "customer"))  # fmt: skip
safe("slowly_changing_join", lambda o, h: o.join(h, (o.customer == h.customer) & (o.day >= h.valid_from) & (o.day < F.coalesce(h.valid_to, F.lit("9999-01-01").cast("date"))), "left").select("id", "tier"), o=by("orders", "customer"), h=by("history", "customer"))  # fmt: skip
safe("slowly_changing_lookup", lambda o, h: o.join(h, (o.customer == h.customer) & o.day.between(h.valid_from, F.coalesce(h.valid_to, o.day)), "left").select("id", "tier"), o=spread("orders"), h=whole("history"))  # fmt: skip

unsafe("join_by_other_column", lambda o, c: o.join(c, o.region == c.home).select("id", "name"), APART, **BOTH)
unsafe("join_of_rebalanced", lambda o, c: o.join(c, "customer"), APART, o=spread("orders"), c=spread("customers"))
unsafe(
    "join_of_hashed_and_rebalanced",
    lambda o, c: o.join(c, "customer"),
    APART,
    o=by("orders", "customer"),
    c=spread("customers"),
)
unsafe("join_of_source_and_hashed", lambda o, c: o.join(c, "customer"), "files are distributed without regard to keys", o=source("orders"), c=by("customers", "customer"))  # fmt: skip
unsafe(
    "join_hashed_by_other_column",
    lambda o, c: o.join(c, "customer"),
    APART,
    o=by("orders", "region"),
    c=by("customers", "home"),
)
unsafe("join_hashed_by_two_keys_on_one", lambda o, e: o.join(e.drop("at"), "customer"), APART, o=by("orders", "customer", "region"), e=by("events", "customer", "kind"))  # fmt: skip
unsafe("self_join_by_other", lambda o: o.alias("a").join(o.alias("b"), F.expr("a.region = b.region AND a.id < b.id")).selectExpr("a.id AS x", "b.id AS y"), APART, o=by("orders", "customer"))  # fmt: skip
unsafe("range_join_of_both", lambda o, c: o.join(c, o.qty > c.discount).select("id", "name"), APART, **BOTH)
unsafe("total_joined_back", lambda o: o.crossJoin(o.agg(F.sum("qty").alias("t"))).select("id", "t"), "the total is of all rows", o=by("orders", "customer"))  # fmt: skip
