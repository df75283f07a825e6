"""Values that are not a function of a row: random, unique, of the clock, of the place."""

from __future__ import annotations

from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import (
    Family,
    all_distinct,
    as_many_rows,
    by,
    one_value,
    query,
    source,
    spread,
    whole,
)

FAMILY = Family("values of their own")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS, ANYWHERE = by("orders", "customer"), spread("orders")
LOT = "each row draws for itself"
UNIQUE = "each row has its own"
ONCE = "the run has one clock"

safe("random_number", lambda o: o.select("id", F.rand().alias("v")), LOT, check=all_distinct("v"), o=ANYWHERE)
safe(
    "random_number_of_source",
    lambda o: o.select("id", F.rand().alias("v")),
    LOT,
    check=all_distinct("v"),
    o=source("orders"),
)
safe(
    "random_number_with_seed", lambda o: o.select("id", F.rand(7).alias("v")), LOT, check=all_distinct("v"), o=ANYWHERE
)
safe("random_normal_number", lambda o: o.select("id", F.randn(5).alias("v")), LOT, check=all_distinct("v"), o=ANYWHERE)
safe("random_in_sql", query("SELECT id, rand() AS v FROM {o}"), LOT, check=all_distinct("v"), o=ANYWHERE)
safe("random_uniform", lambda o: o.select("id", F.uniform(F.lit(0.0), F.lit(1.0), F.lit(3)).cast("double").alias("v")), LOT, check=all_distinct("v"), o=ANYWHERE)  # fmt: skip
safe(
    "random_string", lambda o: o.select("id", F.randstr(F.lit(12)).alias("v")), LOT, check=all_distinct("v"), o=ANYWHERE
)
safe("unique_id", lambda o: o.select("id", F.expr("uuid()").alias("v")), UNIQUE, check=all_distinct("v"), o=ANYWHERE)
safe(
    "unique_id_function",
    lambda o: o.select("id", F.uuid().alias("v")),
    UNIQUE,
    check=all_distinct("v"),
    o=source("orders"),
)
safe("unique_id_in_sql", query("SELECT id, uuid() AS v FROM {o}"), UNIQUE, check=all_distinct("v"), o=ORDERS)
safe("unique_id_by_key", lambda o: o.groupBy("customer").count().withColumn("v", F.uuid()), UNIQUE, check=all_distinct("v"), o=ORDERS)  # fmt: skip
safe("growing_id", lambda o: o.select("id", F.monotonically_increasing_id().alias("v")), UNIQUE, check=all_distinct("v"), o=ANYWHERE)  # fmt: skip
safe("growing_id_of_source", lambda o: o.select("id", F.monotonically_increasing_id().alias("v")), UNIQUE, check=all_distinct("v"), o=source("orders"))  # fmt: skip
safe("growing_id_in_sql", query("SELECT id, monotonically_increasing_id() AS v FROM {o}"), UNIQUE, check=all_distinct("v"), o=ORDERS)  # fmt: skip
safe(
    "shuffled_array",
    lambda o: o.select("id", F.size(F.shuffle("tags")).alias("n")),
    "its size is the array's",
    o=ANYWHERE,
)
safe(
    "salted_rows",
    lambda o: o.withColumn("salt", (F.rand() * 4).cast("int")).select("id"),
    "the salt is dropped",
    o=ANYWHERE,
)
safe("current_time", lambda o: o.select("id", F.current_timestamp().alias("v")), ONCE, check=one_value("v"), o=ANYWHERE)
safe(
    "current_time_by_now", lambda o: o.select("id", F.now().alias("v")), ONCE, check=one_value("v"), o=source("orders")
)
safe("current_time_in_sql", query("SELECT id, current_timestamp() AS v FROM {o}"), ONCE, check=one_value("v"), o=ORDERS)
safe("local_time", lambda o: o.select("id", F.localtimestamp().alias("v")), ONCE, check=one_value("v"), o=ANYWHERE)
safe("unix_time", lambda o: o.select("id", F.unix_micros(F.now()).alias("v")), ONCE, check=one_value("v"), o=ANYWHERE)
safe("today", lambda o: o.select("id", F.current_date().alias("v")), ONCE, check=one_value("v"), o=ANYWHERE)
safe("current_user_name", lambda o: o.select("id", F.current_user().alias("v")), check=one_value("v"), o=ANYWHERE)
safe(
    "constants_of_session",
    lambda o: o.select("id", F.current_timezone().alias("z"), F.version().alias("v")),
    o=ANYWHERE,
)
safe("random_filter", lambda o: o.where(F.rand(3) < 0.5).select("id"), LOT, check=lambda found, _: None if found.num_rows < 60 else "no row is left out", o=ANYWHERE)  # fmt: skip

unsafe("partition_number", lambda o: o.select("id", F.spark_partition_id().alias("v")), "where a row lies is no property of it", check=lambda found, expected: None if set(found["v"].to_pylist()) != {0} or set(expected["v"].to_pylist()) == {0} else "all rows say partition 0", o=ANYWHERE)  # fmt: skip
unsafe("exchange_file_name", lambda o: o.select("id", F.input_file_name().alias("v")), "the files are the exchange's", check=lambda found, _: "names files of the exchange" if any("/exchange/" in value for value in found["v"].to_pylist()) else None, o=ANYWHERE)  # fmt: skip
unsafe(
    "random_order_limit",
    lambda o: o.orderBy(F.rand()).limit(3),
    "each subtask takes its own",
    check=as_many_rows,
    o=ANYWHERE,
)
safe("source_file_name", lambda o: o.select("id", F.input_file_name().alias("v")), "the files are the source's", o=source("orders"))  # fmt: skip
unsafe("source_file_blocks", lambda o: o.select("id", F.input_file_block_start().alias("b"), F.input_file_block_length().alias("n")), "a subtask cuts files into blocks as its size asks for", o=source("orders"))  # fmt: skip
safe("source_metadata", lambda o: o.select("id", o.metadataColumn("_metadata").getField("file_name").alias("f")), "the files are the source's", o=source("orders"))  # fmt: skip
safe("source_metadata_filtered", lambda o: o.where(F.col("_metadata.file_size") > 0).select("id", "_metadata.file_modification_time", "_metadata.file_path"), "the files are the source's", o=source("orders"))  # fmt: skip
safe("source_metadata_joined", lambda o, c: o.select("id", "customer", "_metadata.file_size").join(c, "customer").select("id", "file_size", "name"), "the files are the source's", o=source("orders"), c=whole("customers"))  # fmt: skip
unsafe("source_metadata_counted", lambda o: o.groupBy("_metadata.file_name").count(), "totals are of all rows", o=source("orders"))  # fmt: skip
safe("random_of_lookup", lambda o, c: o.join(c.withColumn("v", F.rand(1)), "customer").select("id"), "the draw is dropped", o=ANYWHERE, c=whole("customers"))  # fmt: skip
