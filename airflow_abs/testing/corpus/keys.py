"""What becomes of a key on its way: renamed, derived, overwritten, cast, of another type."""

from __future__ import annotations

from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import Family, by, spread

FAMILY = Family("keys")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS, CUSTOMERS = by("orders", "customer"), by("customers", "customer")
LONG = by("customers", "long_key")
APART = "rows with equal values of it are in several subtasks"

safe("renamed_key_grouped", lambda o: o.withColumnRenamed("customer", "who").groupBy("who").count(), o=ORDERS)
safe(
    "aliased_key_grouped", lambda o: o.select(F.col("customer").alias("who"), "qty").groupBy("who").sum("qty"), o=ORDERS
)
safe("renamed_key_joined", lambda o, c: o.withColumnRenamed("customer", "k").join(c.withColumnRenamed("customer", "k"), "k", "left"), o=ORDERS, c=CUSTOMERS)  # fmt: skip
safe("key_twice_grouped", lambda o: o.withColumn("again", F.col("customer")).groupBy("again").count(), o=ORDERS)
safe("key_in_struct_grouped", lambda o: o.groupBy(F.struct("customer", "region").alias("k")).count(), "the struct holds the key", o=ORDERS)  # fmt: skip
safe("key_cast_wider_grouped", lambda o: o.groupBy(F.col("customer").cast("bigint").alias("k")).count(), "a wider integer is as good as the key", o=ORDERS)  # fmt: skip
safe("int_and_bigint_keys_joined", lambda o, c: o.join(c, o.customer == c.long_key).select("id", "name"), "edges hash both as BIGINT", o=ORDERS, c=LONG)  # fmt: skip
safe("int_and_bigint_keys_left_joined", lambda o, c: o.join(c.drop("customer"), F.col("customer") == F.col("long_key"), "left"), "edges hash both as BIGINT", o=ORDERS, c=LONG)  # fmt: skip
safe("cast_before_edge_joined", lambda o, c: o.withColumn("k", F.col("customer").cast("bigint")).join(c.withColumnRenamed("long_key", "k").drop("customer"), "k"), "edges hash both as BIGINT", o=ORDERS, c=LONG)  # fmt: skip
safe(
    "double_keys_grouped",
    lambda k: k.groupBy("real").agg(F.sum("n").alias("s")),
    "0.0 and -0.0 meet, and NaN",
    k=by("keys", "real"),
)
safe("double_keys_joined", lambda k, m: k.join(m.select("real", F.col("n").alias("m")), "real"), k=by("keys", "real"), m=by("keys", "real"))  # fmt: skip
safe("decimal_keys_grouped", lambda k: k.groupBy("exact").count(), k=by("keys", "exact"))
safe("decimal_keys_joined", lambda k, m: k.join(m.groupBy("exact").agg(F.max("n").alias("m")), "exact", "full"), k=by("keys", "exact"), m=by("keys", "exact"))  # fmt: skip
safe("text_keys_grouped", lambda k: k.groupBy("text").agg(F.collect_set("big").alias("b")).select("text", F.sort_array("b")), k=by("keys", "text"))  # fmt: skip
safe("date_keys_grouped", lambda o: o.groupBy("day").agg(F.sum("amount").alias("s")), o=by("orders", "day"))
safe("timestamp_keys_joined", lambda e, o: e.distinct().join(o.select("at", "id"), "at", "left"), e=by("events", "at"), o=by("orders", "at"))  # fmt: skip
safe("struct_key_grouped", lambda o: o.groupBy("address").count(), o=by("orders", "address"))
safe(
    "keys_in_other_order_grouped",
    lambda o: o.groupBy("region", "customer").count(),
    o=by("orders", "customer", "region"),
)
safe("keys_in_other_order_joined", lambda o, p: o.join(p.select("region", "customer", F.col("id").alias("other")), ["region", "customer"]), o=by("orders", "customer", "region"), p=by("orders", "customer", "region"))  # fmt: skip
safe("filtered_key_grouped", lambda o: o.where("customer = 1").groupBy("customer").count(), o=ORDERS)
safe("coalesced_other_with_key_grouped", lambda o: o.groupBy("customer", F.coalesce("region", F.lit("-")).alias("r")).count(), o=ORDERS)  # fmt: skip
safe("left_key_after_left_join_grouped", lambda o, c: o.join(c, o.customer == c.customer, "left").select(o.customer, c.home).groupBy("customer", "home").count(), o=ORDERS, c=CUSTOMERS)  # fmt: skip
safe("full_join_key_grouped", lambda o, c: o.join(c, "customer", "full").groupBy("customer").count(), "the merged key is the one or the other's", o=ORDERS, c=CUSTOMERS)  # fmt: skip
unsafe("nulls_of_left_join_grouped", lambda o, h: o.join(h.where("tier = 'gold'").select(F.col("customer").alias("who")), F.col("customer") == F.col("who"), "left").groupBy("who").count(), "it is NULL in several subtasks", o=by("orders", "id"), h=by("history", "customer"))  # fmt: skip
unsafe("nulled_key_grouped", lambda o, e: o.join(e.where("kind = 'buy'").select(F.col("customer").alias("who")).distinct(), F.col("customer") == F.col("who"), "left").groupBy("who").count(), "who is NULL for customers of several subtasks", o=ORDERS, e=by("events", "customer"))  # fmt: skip

unsafe("derived_key_grouped", lambda o: o.withColumn("k", F.col("customer") % 3).groupBy("k").count(), APART, o=ORDERS)
unsafe("overwritten_key_grouped", lambda o: o.withColumn("customer", F.col("customer") % 2).groupBy("customer").count(), APART, o=ORDERS)  # fmt: skip
unsafe("swapped_key_grouped", lambda o: o.select(F.col("qty").alias("customer"), F.col("customer").alias("qty")).groupBy("customer").count(), APART, o=ORDERS)  # fmt: skip
unsafe("narrowed_key_grouped", lambda k: k.groupBy(F.col("exact").cast("int").alias("i")).count(), "several decimals are one integer", k=by("keys", "exact"))  # fmt: skip
unsafe("lower_key_grouped", lambda k: k.groupBy(F.lower("text").alias("t")).count(), "x and X are in different subtasks", k=by("keys", "text"))  # fmt: skip
unsafe("trimmed_key_joined", lambda k, m: k.withColumn("text", F.trim("text")).join(m.groupBy("text").count(), "text"), APART, k=by("keys", "text"), m=by("keys", "text"))  # fmt: skip
unsafe("defaulted_key_grouped", lambda o: o.fillna({"customer": 1}).groupBy("customer").count(), "NULL and 1 are in different subtasks", o=ORDERS)  # fmt: skip
unsafe("collated_key_grouped", lambda k: k.groupBy(F.collate("text", "UTF8_LCASE").alias("t")).agg(F.count("*").alias("c")).select("c"), "x and X are in different subtasks", k=by("keys", "text"))  # fmt: skip
unsafe(
    "day_of_timestamp_key_grouped", lambda e: e.groupBy(F.to_date("at").alias("d")).count(), APART, e=by("events", "at")
)
unsafe("field_of_struct_key_grouped", lambda o: o.groupBy("address.zip").count(), APART, o=by("orders", "address"))
unsafe("keys_in_different_order_of_edges_joined", lambda o, p: o.join(p.select("region", "customer", F.col("id").alias("other")), ["region", "customer"]), "the edges hash different columns", o=by("orders", "customer"), p=by("orders", "region"))  # fmt: skip
unsafe("exploded_key_grouped", lambda o: o.withColumn("customer", F.explode(F.array("qty", "customer"))).groupBy("customer").count(), APART, o=ORDERS)  # fmt: skip
unsafe("union_of_differently_keyed_grouped", lambda o, c: o.select("customer").union(c.select("long_key")).groupBy("customer").count(), "INT is hashed here and BIGINT there, and one side lies by another column", o=ORDERS, c=by("customers", "name"))  # fmt: skip
unsafe("union_shifts_key_grouped", lambda o: o.select("customer").union(o.select("qty")).groupBy("customer").count(), "quantities do not lie by customer", o=ORDERS)  # fmt: skip
safe("key_cast_to_text_grouped", lambda o: o.groupBy(F.col("customer").cast("string").alias("k")).count(), "every number has a text of its own", o=ORDERS)  # fmt: skip
safe("rebalanced_filter_by_key", lambda o: o.where("customer IN (1, 2)"), o=spread("orders"))
