"""Arrays, maps, structs, JSON, and the rows that come out of them."""

from __future__ import annotations

from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import Family, by, query, source, spread

FAMILY = Family("nested and generated")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS = spread("orders")
LINES = "sku STRING, lines ARRAY<STRUCT<n: INT>>"

safe("explode_tags", lambda o: o.select("id", F.explode("tags").alias("tag")), o=ORDERS)
safe("explode_outer_tags", lambda o: o.select("id", F.explode_outer("tags").alias("tag")), o=source("orders"))
safe("posexplode_tags", lambda o: o.select("id", F.posexplode("tags")), o=ORDERS)
safe("posexplode_outer_tags", lambda o: o.select("id", F.posexplode_outer("tags")), o=ORDERS)
safe("explode_map", lambda o: o.select("id", F.explode("attrs")), o=ORDERS)
safe("inline_structs", lambda o: o.select("id", F.inline(F.array("address"))), o=ORDERS)
safe("inline_outer_structs", lambda o: o.select("id", F.inline_outer(F.array("address"))), o=ORDERS)
safe("stack_function", lambda o: o.select("id", F.stack(F.lit(2), F.lit("a"), "qty", F.lit("b"), "qty")), o=ORDERS)
safe("lateral_view", query("SELECT id, tag FROM {o} LATERAL VIEW explode(tags) t AS tag"), o=ORDERS)
safe("lateral_view_outer", query("SELECT id, tag FROM {o} LATERAL VIEW OUTER explode(tags) t AS tag"), o=ORDERS)
safe("json_to_struct", lambda o: o.select("id", F.from_json("body", LINES).alias("b")).select("id", "b.*"), o=ORDERS)
safe(
    "json_lines_exploded",
    lambda o: o.select("id", F.explode(F.from_json("body", LINES)["lines"]).alias("l")).select("id", "l.n"),
    o=source("orders"),
)
safe("json_path", lambda o: o.select("id", F.get_json_object("body", "$.sku").alias("sku")), o=ORDERS)
safe("json_tuple_of_body", lambda o: o.select("id", F.json_tuple("body", "sku").alias("sku")), o=ORDERS)
safe(
    "parse_variant",
    lambda o: o.select("id", F.variant_get(F.parse_json("body"), "$.sku", "string").alias("s")),
    o=ORDERS,
)
safe("struct_field_set", lambda o: o.withColumn("address", F.col("address").withField("x", F.lit(1))), o=ORDERS)
safe("struct_fields_spread", lambda o: o.select("id", "address.*"), o=ORDERS)
safe(
    "higher_order_functions",
    lambda o: o.select("id", F.transform("tags", lambda t: F.upper(F.trim(t))).alias("t")),
    o=ORDERS,
)
safe(
    "array_aggregate",
    lambda o: o.select("id", F.aggregate(F.sequence(F.lit(0), "qty"), F.lit(0), lambda a, x: a + x).alias("s")),
    o=ORDERS,
)
safe("map_filter_entries", lambda o: o.select("id", F.map_filter("attrs", lambda k, v: v > 1).alias("m")), o=ORDERS)
safe(
    "explode_then_group_by_key",
    lambda o: o.select("customer", F.explode("tags").alias("tag")).groupBy("customer", "tag").count(),
    o=by("orders", "customer"),
)
unsafe(
    "explode_then_group_by_element",
    lambda o: o.select("customer", F.explode("tags").alias("tag")).groupBy("tag").count(),
    "a tag is in the orders of many customers",
    o=by("orders", "customer"),
)
unsafe(
    "group_by_struct_field_of_other",
    lambda o: o.groupBy("address.city").agg(F.sum("qty").alias("n")),
    "a city is in many customers' orders",
    o=by("orders", "customer"),
)
safe(
    "collect_structs_by_key",
    lambda o: o.groupBy("customer").agg(F.sort_array(F.collect_list(F.struct("id", "qty"))).alias("orders")),
    o=by("orders", "customer"),
)
safe(
    "collect_then_explode_by_key",
    lambda o: o.groupBy("customer").agg(F.collect_set("region").alias("r")).select("customer", F.explode("r")),
    o=by("orders", "customer"),
)
safe("table_function_of_columns", query("SELECT id, x FROM {o}, LATERAL explode(sequence(0, qty)) AS t(x)"), o=ORDERS)
safe(
    "rows_of_sequence", lambda o: o.select("id", F.explode(F.sequence(F.lit(1), F.col("qty") + 1)).alias("n")), o=ORDERS
)
