"""One row in, none, one or several out: safe wherever the rows lie."""

from __future__ import annotations

from pyspark.sql import functions as F

from tests.proof.entries import Family, by, source, spread, whole

FAMILY = Family("row by row")

FAMILY.safe("select_columns", lambda o: o.select("id", "region"), o=spread("orders"))
FAMILY.safe("select_star_of_source", lambda o: o.select("*"), o=source("orders"))
FAMILY.safe("select_expressions", lambda o: o.selectExpr("id", "qty * 2 AS twice", "upper(region) AS r"), o=spread("orders"))
FAMILY.safe("filter_where", lambda o: o.filter("qty > 2").where(F.col("region").isNotNull()), o=source("orders"))
FAMILY.safe("with_column", lambda o: o.withColumn("total", F.col("amount") * F.col("qty")), o=spread("orders"))
FAMILY.safe("with_columns", lambda o: o.withColumns({"a": F.lit(1), "b": F.col("qty") + 1}), o=spread("orders"))
FAMILY.safe("rename_columns", lambda o: o.withColumnRenamed("id", "order_id").withColumnsRenamed({"qty": "n"}), o=spread("orders"))
FAMILY.safe("drop_columns", lambda o: o.drop("attrs", "tags"), o=source("orders"))
FAMILY.safe("to_df_renames_all", lambda c: c.toDF("a", "b", "c", "d", "e", "f"), c=spread("customers"))
