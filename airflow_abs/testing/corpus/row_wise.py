"""One row in, none, one or several out: safe wherever the rows lie."""

from __future__ import annotations

from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import Family, by, query, source, spread, whole

FAMILY = Family("row by row")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS = spread("orders")

safe("select_columns", lambda o: o.select("id", "region"), o=ORDERS)
safe("select_star_of_source", lambda o: o.select("*"), o=source("orders"))
safe("select_expressions", lambda o: o.selectExpr("id", "qty * 2 AS twice", "upper(region) AS r"), o=ORDERS)
safe("filter_where", lambda o: o.filter("qty > 2").where(F.col("region").isNotNull()), o=source("orders"))
safe("with_column", lambda o: o.withColumn("total", F.col("amount") * F.col("qty")), o=ORDERS)
safe("with_columns", lambda o: o.withColumns({"a": F.lit(1), "b": F.col("qty") + 1}), o=ORDERS)
safe("rename_columns", lambda o: o.withColumnRenamed("id", "i").withColumnsRenamed({"qty": "n"}), o=ORDERS)
safe("drop_columns", lambda o: o.drop("attrs", "tags"), o=source("orders"))
safe("to_df_renames_all", lambda c: c.toDF("a", "b", "c", "d", "e", "f"), c=spread("customers"))
safe("to_schema", lambda c: c.to(c.select("name", "customer").schema), c=spread("customers"))
safe("alias_and_qualified_columns", lambda o: o.alias("x").select("x.id", "x.region"), o=by("orders", "customer"))
safe("transform_chain", lambda o: o.transform(lambda d: d.where("flag")).transform(lambda d: d.drop("at")), o=ORDERS)
safe("fill_missing", lambda o: o.fillna({"region": "none", "price": 0.0}), o=ORDERS)
safe("fill_missing_by_na", lambda o: o.na.fill(0.0, ["price"]).na.drop(subset=["region"]), o=ORDERS)
safe("drop_missing", lambda o: o.dropna(how="any", subset=["region", "price"]), o=source("orders"))
safe("replace_values", lambda o: o.replace({"north": "N", "south": "S"}, subset=["region"]), o=ORDERS)
safe("unpivot_columns", lambda c: c.unpivot(["customer"], ["name", "home"], "what", "value"), c=spread("customers"))
safe("melt_columns", lambda c: c.melt("customer", ["name", "home"], "what", "value"), c=spread("customers"))
safe("case_when", lambda o: o.withColumn("size", F.when(F.col("qty") > 3, "l").otherwise("s")), o=ORDERS)
safe(
    "cast_types",
    lambda o: o.select("id", F.col("amount").cast("double"), F.col("at").cast("date").alias("d")),
    o=ORDERS,
)
safe("hash_functions", lambda o: o.select("id", F.sha2("body", 256).alias("h"), F.xxhash64("id").alias("x")), o=ORDERS)
safe(
    "date_arithmetic",
    lambda o: o.select("id", F.date_trunc("week", "at").alias("w"), F.date_add("day", 3).alias("d")),
    o=ORDERS,
)
safe("typed_map_result", lambda o: o.select("id", "attrs", F.map_keys("attrs").alias("k")), o=ORDERS)
safe("column_regex", lambda o: o.select(o.colRegex("`(id|qty)`")), o=ORDERS)
safe("add_and_drop_metadata", lambda o: o.withMetadata("region", {"comment": "where"}), o=ORDERS)
safe("hint_without_join", lambda o: o.hint("rebalance").where("qty > 1"), "moves rows, changes none", o=ORDERS)
safe("observe_passes_rows_on", lambda o: o.observe("seen", F.count(F.lit(1)).alias("n")), o=ORDERS)
safe("watermark_in_batch", lambda o: o.withWatermark("at", "1 day"), "no meaning in batch", o=ORDERS)
safe("to_json_column", lambda o: o.select("id", F.to_json(F.struct("region", "qty")).alias("j")), o=ORDERS)
safe("to_json_rows", lambda c: c.toJSON(), c=spread("customers"))
safe("cached_frame", lambda o: o.where("qty > 1").cache(), "caching changes no rows", o=ORDERS)
safe("persisted_frame", lambda o: o.where("qty > 1").persist().unpersist(), "caching changes no rows", o=ORDERS)
safe("empty_filter", lambda o: o.where("false"), o=ORDERS)
safe("union_of_two_filters", lambda o: o.where("flag").union(o.where("NOT flag")), o=ORDERS)
safe("wide_row_of_whole_with_divided", lambda o, c: o.crossJoin(c.select("name")), o=ORDERS, c=whole("customers"))
safe("sql_functions_without_rows", query("SELECT id, nvl(region, '-') AS r, conv(id, 10, 16) AS x FROM {o}"), o=ORDERS)
safe("stack_rows", query("SELECT id, stack(2, 'a', qty, 'b', qty + 1) AS (what, value) FROM {o}"), o=ORDERS)
safe("try_arithmetic", lambda o: o.select("id", F.try_divide("amount", "qty").alias("each")), o=ORDERS)
