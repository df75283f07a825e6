"""Aggregates: safe when rows with equal grouping keys meet."""

from __future__ import annotations

from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import Family, by, query, source, spread, whole

FAMILY = Family("aggregates")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS = by("orders", "customer")
ANYWHERE = spread("orders")
SPLIT = "a group's rows are in several subtasks"

safe("count_by_key", lambda o: o.groupBy("customer").count(), o=ORDERS)
safe("sum_by_key", lambda o: o.groupBy("customer").sum("amount", "qty"), o=ORDERS)
safe(
    "avg_mean_by_key",
    lambda o: o.groupBy("customer").agg(F.avg("price").alias("a"), F.mean("qty").alias("m")),
    o=ORDERS,
)
safe("grouped_avg_method", lambda o: o.groupBy("customer").avg("qty"), o=ORDERS)
safe("grouped_mean_method", lambda o: o.groupby("customer").mean("qty"), o=ORDERS)
safe("grouped_min_method", lambda o: o.groupBy("customer").min("price"), o=ORDERS)
safe("grouped_max_method", lambda o: o.groupBy("customer").max("price"), o=ORDERS)
safe("by_key_and_more", lambda o: o.groupBy("customer", "region").agg(F.sum("amount").alias("s")), o=ORDERS)
safe("by_key_and_expression", lambda o: o.groupBy("customer", F.to_date("at").alias("d")).count(), o=ORDERS)
safe("by_two_of_two_keys", lambda o: o.groupBy("customer", "region").count(), o=by("orders", "customer", "region"))
safe(
    "twice_by_key",
    lambda o: o.groupBy("customer", "region").count().groupBy("customer").agg(F.max("count").alias("m")),
    o=ORDERS,
)
safe("having_filter", lambda o: o.groupBy("customer").count().where("count > 3"), o=ORDERS)
safe("count_distinct_by_key", lambda o: o.groupBy("customer").agg(F.count_distinct("region").alias("n")), o=ORDERS)
safe(
    "sum_distinct_by_key",
    lambda o: o.groupBy("customer").agg(F.sum_distinct("qty").alias("n"), F.sum("qty").alias("s")),
    o=ORDERS,
)
safe("approximate_by_key", lambda o: o.groupBy("customer").agg(F.approx_count_distinct("region").alias("n"), F.percentile_approx("qty", 0.5).alias("p"), F.approx_percentile("qty", 0.9).alias("q")), o=ORDERS)  # fmt: skip
safe("moments_by_key", lambda o: o.groupBy("customer").agg(F.stddev("qty"), F.std("price").alias("std"), F.stddev_pop("qty"), F.stddev_samp("qty").alias("s"), F.variance("qty"), F.var_pop("qty"), F.var_samp("qty").alias("v"), F.skewness("qty"), F.kurtosis("qty")), o=ORDERS)  # fmt: skip
safe("two_columns_by_key", lambda o: o.groupBy("customer").agg(F.corr("qty", "price"), F.covar_pop("qty", "price"), F.covar_samp("qty", "price"), F.max_by("id", "at"), F.min_by("id", "at")), o=ORDERS)  # fmt: skip
safe("regressions_by_key", lambda o: o.groupBy("customer").agg(*(getattr(F, f"regr_{n}")("qty", "id").alias(n) for n in ("avgx", "avgy", "count", "intercept", "r2", "slope", "sxx", "sxy", "syy"))), o=ORDERS)  # fmt: skip
safe("booleans_by_key", lambda o: o.groupBy("customer").agg(F.bool_and("flag").alias("a"), F.bool_or("flag").alias("o"), F.every("flag").alias("e"), F.some("flag").alias("s"), F.count_if("flag").alias("c")), o=ORDERS)  # fmt: skip
safe("bits_by_key", lambda o: o.groupBy("customer").agg(F.bit_and("qty").alias("a"), F.bit_or("qty").alias("o"), F.bit_xor("qty").alias("x")), o=ORDERS)  # fmt: skip
safe("order_statistics_by_key", lambda o: o.groupBy("customer").agg(F.median("qty"), F.percentile("qty", 0.25).alias("p"), F.mode("region", True).alias("m"), F.product("qty"), F.try_sum("qty").alias("t"), F.try_avg("qty").alias("v")), o=ORDERS)  # fmt: skip
safe("lists_by_key", lambda o: o.groupBy("customer").agg(F.sort_array(F.array_agg("id")).alias("a"), F.sort_array(F.collect_list("qty")).alias("l"), F.sort_array(F.collect_set("qty")).alias("s")), o=ORDERS)  # fmt: skip
safe("strings_by_key", query("SELECT customer, listagg(region, ',') WITHIN GROUP (ORDER BY region) AS r, string_agg(DISTINCT region, ',') WITHIN GROUP (ORDER BY region) AS d FROM {o} GROUP BY customer"), o=ORDERS)  # fmt: skip
safe("sketches_by_key", lambda o: o.groupBy("customer").agg(F.hll_sketch_estimate(F.hll_sketch_agg("id")).alias("h"), F.bitmap_count(F.bitmap_construct_agg(F.bitmap_bit_position("id"))).alias("b"), F.size(F.histogram_numeric("qty", F.lit(3))).alias("n")), o=ORDERS)  # fmt: skip
safe("constant_of_group", lambda o: o.groupBy("customer").agg(F.first("customer").alias("f"), F.last("customer").alias("l"), F.any_value("customer").alias("a"), F.first_value("customer").alias("fv"), F.last_value("customer").alias("lv")), o=ORDERS)  # fmt: skip
safe("pivot_with_values", lambda o: o.groupBy("customer").pivot("region", ["north", "south"]).sum("qty"), o=ORDERS)
safe("aggregate_without_functions", query("SELECT customer FROM {o} GROUP BY customer"), o=ORDERS)
safe("grouping_sets_that_hold_the_key", lambda o: o.groupingSets([("customer", "region"), ("customer",)], "customer", "region").agg(F.count(F.lit(1)).alias("n"), F.grouping_id().alias("g")), "every set holds the key", o=ORDERS)  # fmt: skip
unsafe("grouping_sets_of_which_one_lacks_the_key", lambda o: o.groupingSets([("customer", "region"), ("region",)], "customer", "region").agg(F.count(F.lit(1)).alias("n")), "one set is by region alone", o=ORDERS)  # fmt: skip
safe("rows_of_whole_joined_then_summed", lambda o, c: o.join(F.broadcast(c), "customer").groupBy("customer", "home").agg(F.sum("amount").alias("s")), o=ORDERS, c=whole("customers"))  # fmt: skip
safe(
    "filter_aggregate", query("SELECT customer, count(*) FILTER (WHERE flag) AS n FROM {o} GROUP BY customer"), o=ORDERS
)

unsafe("count_by_other", lambda o: o.groupBy("region").count(), SPLIT, o=ORDERS)
unsafe("count_by_expression_of_key", lambda o: o.groupBy((F.col("customer") % 2).alias("odd")).count(), SPLIT, o=ORDERS)
unsafe("count_by_one_of_two_keys", lambda o: o.groupBy("customer").count(), SPLIT, o=by("orders", "customer", "region"))
unsafe("count_by_key_of_rebalanced", lambda o: o.groupBy("customer").count(), SPLIT, o=ANYWHERE)
unsafe(
    "count_by_key_of_source", lambda o: o.groupBy("customer").agg(F.sum("qty").alias("n")), SPLIT, o=source("orders")
)
unsafe("global_count", lambda o: o.agg(F.count(F.lit(1)).alias("n")), "one row for all", o=ORDERS)
unsafe("global_sum_of_source", lambda o: o.select(F.sum("amount").alias("s")), "one row for all", o=source("orders"))
unsafe("global_group_by", lambda o: o.groupBy().agg(F.max("at").alias("m")), "one row for all", o=ANYWHERE)
unsafe("cube_of_key", lambda o: o.cube("customer", "region").count(), "has totals over all customers", o=ORDERS)
unsafe("rollup_of_key", lambda o: o.rollup("customer", "region").agg(F.sum("qty").alias("n"), F.grouping("region")), "has a grand total", o=ORDERS)  # fmt: skip
unsafe("grouping_sets_with_total", query("SELECT customer, sum(qty) AS n FROM {o} GROUP BY GROUPING SETS ((customer), ())"), "has a grand total", o=ORDERS)  # fmt: skip
unsafe("pivot_without_values", lambda o: o.groupBy("customer").pivot("region").sum("qty"), "which columns there are depends on all rows", o=ORDERS)  # fmt: skip
unsafe("pivot_by_other", lambda o: o.groupBy("flag").pivot("region", ["north"]).count(), SPLIT, o=ORDERS)
unsafe("crosstab_counts", lambda o: o.crosstab("customer", "region"), "columns depend on all rows", o=ORDERS)
unsafe("stat_crosstab_counts", lambda o: o.stat.crosstab("region", "flag"), "columns depend on all rows", o=ANYWHERE)
unsafe("frequent_items", lambda o: o.freqItems(["region"], 0.3), "frequent among all rows", o=ORDERS)
unsafe("describe_numbers", lambda o: o.select("qty").describe(), "statistics of all rows", o=ORDERS)
unsafe("summary_numbers", lambda o: o.select("qty").summary("count", "max"), "statistics of all rows", o=ANYWHERE)
unsafe(
    "transpose_rows",
    lambda c: c.select("name", "discount").transpose("name"),
    "rows become columns",
    c=spread("customers"),
)
unsafe(
    "sum_then_total",
    lambda o: o.groupBy("customer").count().agg(F.sum("count").alias("n")),
    "one row for all",
    o=ORDERS,
)
unsafe("count_distinct_of_key", lambda o: o.agg(F.count_distinct("customer").alias("n")), "one row for all", o=ORDERS)
