"""Window functions: safe when the rows of a window's partition meet."""

from __future__ import annotations

from pyspark.sql import Window
from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import Family, all_distinct, by, query, source, spread

FAMILY = Family("windows")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS = by("orders", "customer")


def over(*keys, by="id"):  # type: ignore[no-untyped-def]
    return Window.partitionBy(*keys).orderBy(by)


safe("rank_by_key", lambda o: o.select("id", F.rank().over(over("customer", by="qty")).alias("r"), F.dense_rank().over(over("customer", by="qty")).alias("d")), o=ORDERS)  # fmt: skip
safe("row_number_by_key", lambda o: o.withColumn("n", F.row_number().over(over("customer"))), o=ORDERS)
safe("lag_lead_by_key", lambda o: o.select("id", F.lag("qty").over(over("customer")).alias("a"), F.lead("qty", 2).over(over("customer")).alias("b")), o=ORDERS)  # fmt: skip
safe("shares_by_key", lambda o: o.select("id", F.cume_dist().over(over("customer")).alias("c"), F.percent_rank().over(over("customer")).alias("p"), F.ntile(3).over(over("customer")).alias("t"), F.nth_value("qty", 2).over(over("customer")).alias("n")), o=ORDERS)  # fmt: skip
safe("running_total_by_key", lambda o: o.select("id", F.sum("amount").over(over("customer").rowsBetween(Window.unboundedPreceding, 0)).alias("s")), o=ORDERS)  # fmt: skip
safe("range_frame_by_key", lambda o: o.select("id", F.avg("price").over(over("customer", by="qty").rangeBetween(-1, 1)).alias("s")), o=ORDERS)  # fmt: skip
safe("share_of_key_total", lambda o: o.select("id", (F.col("qty") / F.sum("qty").over(Window.partitionBy("customer"))).alias("s")), o=ORDERS)  # fmt: skip
safe("by_key_and_day", lambda o: o.withColumn("n", F.row_number().over(over("customer", "day"))), o=ORDERS)
safe("by_two_of_two_keys_window", lambda o: o.withColumn("n", F.count("*").over(Window.partitionBy("region", "customer"))), o=by("orders", "customer", "region"))  # fmt: skip
safe("latest_row_by_key", lambda o: o.withColumn("n", F.row_number().over(Window.partitionBy("customer").orderBy(F.desc("at"), "id"))).where("n = 1").drop("n"), o=ORDERS)  # fmt: skip
safe("window_then_group_by_key", lambda o: o.withColumn("n", F.row_number().over(over("customer"))).where("n < 4").groupBy("customer").agg(F.sum("qty").alias("q")), o=ORDERS)  # fmt: skip
safe("gap_sessions", lambda e: e.distinct().withColumn("gap", F.col("at").cast("long") - F.lag("at").over(over("customer", by="at")).cast("long")).withColumn("session", F.sum((F.col("gap") > 1800).cast("int")).over(over("customer", by="at"))), e=by("events", "customer"))  # fmt: skip
safe("session_window_by_key", lambda e: e.groupBy("customer", F.session_window("at", "30 minutes")).agg(F.count("*").alias("n")), e=by("events", "customer"))  # fmt: skip
safe("tumbling_window_by_key", lambda e: e.groupBy("customer", F.window("at", "1 hour")).agg(F.sum("value").alias("v")), e=by("events", "customer"))  # fmt: skip
safe("sliding_window_by_key", lambda e: e.groupBy("customer", F.window("at", "2 hours", "1 hour")).count().select("customer", "window.start", "count"), e=by("events", "customer"))  # fmt: skip
safe("window_of_row_only", lambda o: o.select("id", F.window("at", "1 day").alias("w")), "puts a row into its window", o=spread("orders"))  # fmt: skip
safe("named_window_by_key", query("SELECT id, rank() OVER w AS r, sum(qty) OVER w AS s FROM {o} WINDOW w AS (PARTITION BY customer ORDER BY id)"), o=ORDERS)  # fmt: skip
safe(
    "last_known_value_by_key",
    lambda o: o.select("id", F.last("price", True).over(over("customer")).alias("p")),
    o=ORDERS,
)
safe("distinct_windows_of_one_key", lambda o: o.select("id", F.row_number().over(over("customer", by="at")).alias("a"), F.count("*").over(Window.partitionBy("customer", "region")).alias("b")), o=ORDERS)  # fmt: skip

unsafe("window_by_other", lambda o: o.withColumn("n", F.count("*").over(Window.partitionBy("region"))), "a region's rows are in several subtasks", o=ORDERS)  # fmt: skip
unsafe("window_without_partition", lambda o: o.withColumn("n", F.row_number().over(Window.orderBy("id"))), "numbers all rows", o=ORDERS)  # fmt: skip
unsafe(
    "window_over_everything",
    lambda o: o.withColumn("s", F.sum("qty").over(Window.partitionBy())),
    "sums all rows",
    o=ORDERS,
)
unsafe("window_by_key_of_rebalanced", lambda o: o.withColumn("n", F.row_number().over(over("customer"))), "a key's rows are in several subtasks", o=spread("orders"))  # fmt: skip
unsafe("window_by_key_of_source", lambda o: o.withColumn("n", F.rank().over(over("customer"))), "a key's rows are in several files", o=source("orders"))  # fmt: skip
unsafe("window_by_one_of_two_keys", lambda o: o.withColumn("n", F.rank().over(over("customer"))), "a customer is in several subtasks", o=by("orders", "customer", "region"))  # fmt: skip
unsafe("tumbling_window_over_all", lambda e: e.groupBy(F.window("at", "1 hour")).count(), "an hour has rows of many customers", e=by("events", "customer"))  # fmt: skip
unsafe("session_window_over_all", lambda e: e.groupBy(F.session_window("at", "30 minutes")).count(), "sessions over all rows", e=by("events", "customer"))  # fmt: skip
unsafe(
    "global_rank_in_sql", query("SELECT id, rank() OVER (ORDER BY amount) AS r FROM {o}"), "ranks all rows", o=ORDERS
)
unsafe("surrogate_key_by_row_number", lambda o: o.select("id", F.row_number().over(Window.orderBy(F.lit(1))).alias("sk")), "numbers all rows", check=all_distinct("sk"), o=spread("orders"))  # fmt: skip
unsafe("window_by_expression_of_key", lambda o: o.withColumn("n", F.count("*").over(Window.partitionBy(F.col("customer") % 3))), "several keys have one remainder", o=ORDERS)  # fmt: skip
unsafe("share_of_grand_total", query("SELECT id, qty / sum(qty) OVER () AS share FROM {o}"), "sums all rows", o=ORDERS)
