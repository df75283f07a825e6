"""What data engineers write: several operators, as one transform."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import Family, by, query, source, spread, whole

FAMILY = Family("whole steps")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS, EVENTS, CUSTOMERS = by("orders", "customer"), by("events", "customer"), by("customers", "customer")


def newest(frame: Any, *keys: str) -> Any:
    window = Window.partitionBy(*keys).orderBy(F.desc("at"), F.desc("id"))
    return frame.withColumn("n", F.row_number().over(window)).where("n = 1").drop("n")


def funnel(e: Any) -> Any:
    kinds = [F.max(F.when(F.col("kind") == kind, F.col("at"))).alias(kind) for kind in ("view", "cart", "buy")]
    return e.groupBy("customer").agg(*kinds).withColumn("bought", F.col("buy") > F.col("cart"))


def sessions(e: Any) -> Any:
    window = Window.partitionBy("customer").orderBy("at")
    began = (F.col("at").cast("long") - F.lag("at").over(window).cast("long") > 3600).cast("int")
    numbered = e.distinct().withColumn("session", F.sum(F.coalesce(began, F.lit(1))).over(window))
    return numbered.groupBy("customer", "session").agg(F.count("*").alias("events"), F.min("at").alias("began"))


def customer_value(o: Any, c: Any) -> Any:
    spent = o.groupBy("customer").agg(F.sum("amount").alias("spent"), F.count_distinct("day").alias("days"))
    return c.join(spent, "customer", "left").fillna({"days": 0}).withColumn("each", F.col("spent") / F.col("days"))


def changes(o: Any, c: Any) -> Any:
    old, new = c.select("customer", "home"), o.groupBy("customer").agg(F.max("region").alias("now"))
    joined = old.join(new, "customer", "full")
    kind = F.when(F.col("home").isNull(), "insert").when(F.col("now").isNull(), "delete").otherwise("update")
    return joined.withColumn("change", kind)


def retention(e: Any) -> Any:
    first = e.groupBy("customer").agg(F.to_date(F.min("at")).alias("first"))
    days = e.join(first, "customer").withColumn("after", F.datediff("at", "first"))
    return days.groupBy("customer", "first", "after").count()


def fill_days(e: Any) -> Any:
    span = e.groupBy("customer").agg(F.to_date(F.min("at")).alias("a"), F.to_date(F.max("at")).alias("b"))
    days = span.select("customer", F.explode(F.sequence("a", "b")).alias("day"))
    per_day = e.groupBy("customer", F.to_date("at").alias("day")).agg(F.sum("value").alias("value"))
    return days.join(per_day, ["customer", "day"], "left").fillna(0.0)


safe("newest_order", lambda o: newest(o, "customer"), o=ORDERS)
safe("newest_order_by_key_and_day", lambda o: newest(o, "customer", "day"), o=ORDERS)
safe("funnel_of_customers", funnel, e=EVENTS)
safe("sessions_of_customers", sessions, e=EVENTS)
safe("value_of_customers", customer_value, o=ORDERS, c=CUSTOMERS)
safe("changes_of_customers", changes, o=ORDERS, c=CUSTOMERS)
safe("retention_of_customers", retention, e=EVENTS)
safe("missing_days_of_customers", fill_days, e=EVENTS)
safe("lines_of_orders_priced", lambda o, c: o.withColumn("line", F.explode(F.from_json("body", "lines ARRAY<STRUCT<n: INT>>")["lines"])).join(F.broadcast(c.select(F.col("long_key").cast("int").alias("n"), "discount")), F.col("line.n") == F.col("n"), "left").select("id", "line.n", "discount"), o=spread("orders"), c=whole("customers"))  # fmt: skip
safe("clean_and_mask", lambda o: o.dropna(subset=["customer"]).withColumn("body", F.sha1("body")).withColumn("region", F.coalesce(F.upper("region"), F.lit("?"))).where("amount > 1"), o=source("orders"))  # fmt: skip
safe("partial_sums_for_next_step", lambda o: o.where("qty > 0").groupBy("customer", "region").agg(F.sum("amount").alias("s")).where("s > 10"), o=by("orders", "customer", "region"))  # fmt: skip
safe("merged_events_and_orders", lambda o, e: o.selectExpr("customer", "'order' AS kind", "at").union(e.select("customer", "kind", "at")).groupBy("customer").agg(F.min("at").alias("first"), F.sort_array(F.collect_set("kind")).alias("kinds")), o=ORDERS, e=EVENTS)  # fmt: skip
safe("orders_without_events", query("SELECT o.id FROM {o} o LEFT JOIN {e} e ON o.customer = e.customer AND e.kind = 'buy' WHERE e.customer IS NULL"), o=ORDERS, e=EVENTS)  # fmt: skip
safe("top_three_of_each_customer", query("SELECT id, customer FROM (SELECT *, row_number() OVER (PARTITION BY customer ORDER BY amount DESC, id) n FROM {o}) WHERE n <= 3"), o=ORDERS)  # fmt: skip
safe("upsert_of_customers", lambda c, o: c.join(o.select("customer").distinct(), "customer", "anti").select("customer", "name").unionByName(o.select("customer", F.lit("new").alias("name")).distinct()), c=CUSTOMERS, o=ORDERS)  # fmt: skip
safe("weekly_by_customer", lambda o: o.groupBy("customer", F.date_trunc("week", "at").alias("week")).pivot("flag", [True, False]).agg(F.sum("qty").alias("q")), o=ORDERS)  # fmt: skip
safe("lookup_deduplicated_in_step", lambda o, h: o.join(F.broadcast(h.withColumn("n", F.row_number().over(Window.partitionBy("customer").orderBy(F.desc("valid_from")))).where("n = 1").select("customer", "tier")), "customer", "left"), o=spread("orders"), h=whole("history"))  # fmt: skip

unsafe("newest_order_of_region", lambda o: newest(o, "region"), "a region is in several subtasks", o=ORDERS)
unsafe("share_of_revenue", lambda o: o.groupBy("customer").agg(F.sum("amount").alias("s")).withColumn("share", F.col("s") / F.sum("s").over(Window.partitionBy())), "the revenue is of all rows", o=ORDERS)  # fmt: skip
unsafe("top_customers", lambda o: o.groupBy("customer").agg(F.sum("amount").alias("s")).orderBy(F.desc("s"), "customer").limit(3), "each subtask has its own top", o=ORDERS)  # fmt: skip
unsafe("percent_of_total", query("SELECT customer, sum(amount) / (SELECT sum(amount) FROM {o}) AS share FROM {o} GROUP BY customer"), "the total is of all rows", o=ORDERS)  # fmt: skip
unsafe("customers_by_home", lambda o, c: o.join(c, "customer").groupBy("home").agg(F.sum("amount").alias("s")), "a home is in several subtasks", o=ORDERS, c=CUSTOMERS)  # fmt: skip
unsafe("daily_totals", lambda o: o.groupBy(F.to_date("at").alias("day")).agg(F.sum("amount").alias("s")), "a day is in several subtasks", o=ORDERS)  # fmt: skip
unsafe("normalised_by_all", lambda o: o.select("id", ((F.col("qty") - F.avg("qty").over(Window.partitionBy())) / F.stddev("qty").over(Window.partitionBy())).alias("z")), "mean and deviation are of all rows", o=ORDERS)  # fmt: skip
unsafe("sessions_of_rebalanced", sessions, "a customer is in several subtasks", e=spread("events"))
unsafe("deduplicated_source", lambda e: e.dropDuplicates(), "duplicates are in different files", e=source("events"))
unsafe("value_of_all_customers_by_lookup", customer_value, "every subtask gives the customers without orders of its own", o=ORDERS, c=whole("customers"))  # fmt: skip
