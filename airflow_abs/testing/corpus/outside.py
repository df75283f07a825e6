"""Rows and settings that do not come from the inputs, and inputs that every subtask sees."""

from __future__ import annotations

import tempfile
from typing import Any

from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import Family, by, spread, whole

FAMILY = Family("outside of the inputs")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS, ANYWHERE, LOOKUP = by("orders", "customer"), spread("orders"), whole("customers")
EVERY = "every subtask returns them"


def of_session(make):  # type: ignore[no-untyped-def]
    return lambda o: make(o.sparkSession, o)


def with_setting(spark: Any, o: Any) -> Any:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    return o.select("id", F.date_format("at", "HH").alias("hour"), F.expr("1 / (qty - qty)").alias("nothing"))


def with_view(spark: Any, o: Any) -> Any:
    o.createOrReplaceTempView("corpus_orders")
    return spark.sql("SELECT id FROM corpus_orders")


def with_sql_view(spark: Any, o: Any) -> Any:
    spark.sql("CREATE OR REPLACE TEMP VIEW corpus_doubles AS SELECT explode(sequence(0, 5)) AS qty")
    return o.join(spark.table("corpus_doubles"), "qty").select("id")


def with_insert(spark: Any, o: Any) -> Any:
    folder = tempfile.mkdtemp()
    spark.sql(f"INSERT OVERWRITE DIRECTORY '{folder}/out' USING parquet SELECT id FROM {{o}}", o=o)
    return o.select("id")


def with_read(spark: Any, o: Any) -> Any:
    (name, *_) = FILES
    return o.select("id").union(spark.read.parquet(name).select("id"))


FILES: list[str] = []

safe("joined_with_local_rows", of_session(lambda s, o: o.join(s.createDataFrame([(1, "one"), (2, "two")], "qty INT, label STRING"), "qty")), o=ANYWHERE)  # fmt: skip
safe("left_joined_with_local_rows", of_session(lambda s, o: o.join(s.createDataFrame([(1, "one")], "qty INT, label STRING"), "qty", "left")), o=ORDERS)  # fmt: skip
safe("crossed_with_range", of_session(lambda s, o: o.select("id").crossJoin(s.range(3).toDF("n"))), "each row meets all numbers once", o=ANYWHERE)  # fmt: skip
safe("joined_with_range", of_session(lambda s, o: o.join(s.range(4).toDF("qty"), "qty", "semi")), o=ANYWHERE)
safe("exploded_table_function", lambda o: o.select("id").lateralJoin(o.sparkSession.tvf.range(2).toDF("n")), "each row meets all numbers once", o=ANYWHERE)  # fmt: skip
safe("local_rows_left_out", of_session(lambda s, o: o.join(s.createDataFrame([(1,)], "customer INT"), "customer", "anti")), o=ORDERS)  # fmt: skip

unsafe("local_rows_returned", of_session(lambda s, o: o.select("qty").union(s.createDataFrame([(100,)], "qty INT"))), EVERY, o=ANYWHERE)  # fmt: skip
unsafe("range_returned", of_session(lambda s, o: o.select("id").union(s.range(1000, 1003))), EVERY, o=ANYWHERE)
unsafe("range_kept_by_join", of_session(lambda s, o: s.range(8).toDF("qty").join(o, "qty", "left").select("qty", "id")), "every subtask gives the numbers that match nothing of its own", o=ANYWHERE)  # fmt: skip
unsafe("local_rows_kept_by_full_join", of_session(lambda s, o: o.join(s.createDataFrame([(77,)], "customer INT"), "customer", "full").select("customer", "id")), "every subtask gives the row", o=ORDERS)  # fmt: skip
unsafe("sequence_returned", lambda o: o.select("qty").union(o.sparkSession.tvf.explode(F.array(F.lit(50), F.lit(51)))), EVERY, o=ANYWHERE)  # fmt: skip
unsafe("header_row_added", of_session(lambda s, o: s.sql("SELECT 'id' AS line").union(o.select(F.col("id").cast("string")))), EVERY, o=ANYWHERE)  # fmt: skip
unsafe(
    "whole_alone_beside_empty",
    lambda o, c: c.select("name").union(o.where("false").select("region")),
    EVERY,
    o=ANYWHERE,
    c=LOOKUP,
)
unsafe("whole_kept_by_cross_join_with_count", lambda o, c: c.crossJoin(o.agg(F.count("*").alias("n"))), "every subtask has a count of its own", o=ANYWHERE, c=LOOKUP)  # fmt: skip
unsafe("whole_alone_in_several_subtasks", lambda c: c.select("name"), EVERY, min_parallelism=2, c=LOOKUP)
unsafe("whole_aggregated_and_added", lambda o, c: o.groupBy("customer").count().unionByName(c.groupBy("customer").count()), EVERY, o=ORDERS, c=LOOKUP)  # fmt: skip
unsafe("whole_filtered_by_existence", lambda o, c: c.where(o.where(F.col("customer") == F.col("customer").outer()).exists()).select("name"), "a customer has orders in several subtasks", o=ANYWHERE, c=LOOKUP)  # fmt: skip
safe("existence_in_whole", lambda o, c: o.where(c.where(F.col("customer") == F.col("customer").outer()).exists()).select("id"), o=ANYWHERE, c=LOOKUP)  # fmt: skip
safe(
    "scalar_of_whole",
    lambda o, c: o.select("id", c.select(F.max("discount")).scalar().alias("m")),
    o=ANYWHERE,
    c=LOOKUP,
)
unsafe("scalar_of_own", lambda o: o.select("id", o.select(F.max("qty").alias("q")).where("q > 0").scalar().alias("m")), "the largest of all rows", o=ORDERS)  # fmt: skip
unsafe("setting_changed", of_session(with_setting), "the subtasks' sessions do not have it", o=ANYWHERE)
unsafe("view_of_input", of_session(with_view), "the view is not in the subtasks' sessions", o=ANYWHERE)
unsafe("view_by_sql", of_session(with_sql_view), "the view is not in the subtasks' sessions", o=ANYWHERE)
unsafe("insert_by_sql", of_session(with_insert), "it runs in plan, on no rows", o=ANYWHERE)
unsafe("action_count", lambda o: o.withColumn("n", F.lit(o.count())), "an action in plan sees no rows", o=ANYWHERE)
unsafe("action_collect", lambda o: o.where(F.col("qty").isin([row.qty for row in o.limit(1).collect()])), "an action in plan sees no rows", o=ANYWHERE)  # fmt: skip
unsafe("checkpointed", lambda o: o.where("qty > 1").localCheckpoint(), "a checkpoint is its session's", o=ANYWHERE)
unsafe(
    "cube_from_lookup",
    lambda o, c: o.join(c, "customer").cube("home").count(),
    "totals are of all rows",
    o=ANYWHERE,
    c=LOOKUP,
)
