"""Python in the plan: functions of values, of batches, of groups."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import Family, by, source, spread, whole

FAMILY = Family("Python functions")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS, ANYWHERE = by("orders", "customer"), spread("orders")
BOTH = {"o": ORDERS, "e": by("events", "customer")}
SUMMED = "customer INT, n BIGINT"


def double(o: Any) -> Any:
    return o.select("id", F.udf(lambda n: n * 2, "int")("qty").alias("twice"))


def double_by_arrow(o: Any) -> Any:
    return o.select("id", F.udf(lambda n: n * 2, "int", useArrow=True)("qty").alias("twice"))


def double_by_pandas(o: Any) -> Any:
    @F.pandas_udf("int")
    def twice(n):  # type: ignore[no-untyped-def]
        return n * 2

    return o.select("id", twice("qty").alias("twice"))


def mean_by_pandas(o: Any, *keys: str) -> Any:
    @F.pandas_udf("double")
    def mean(n: pd.Series) -> float:
        return float(n.mean())

    return o.groupBy(*keys).agg(mean("qty").alias("mean"))


def batches(o: Any) -> Any:
    return o.select("id", "qty").mapInPandas(lambda found: (f[f.qty > 2] for f in found), "id BIGINT, qty INT")


def arrow_batches(o: Any) -> Any:
    return o.select("id", "qty").mapInArrow(lambda found: (b.slice(0) for b in found), "id BIGINT, qty INT")


def count_group(frame: Any) -> Any:
    return pd.DataFrame({"customer": frame["customer"].iloc[:1].astype("Int32"), "n": [len(frame)]})


def count_arrow_group(table: Any) -> Any:
    import pyarrow as pa

    return pa.table({"customer": table["customer"].slice(0, 1), "n": pa.array([table.num_rows], pa.int64())})


def count_both(left: Any, right: Any) -> Any:
    return pd.DataFrame({"left": [len(left)], "right": [len(right)]})


def count_both_arrow(left: Any, right: Any) -> Any:
    import pyarrow as pa

    return pa.table({"left": [left.num_rows], "right": [right.num_rows]})


def numbered(found: Any) -> Any:
    """Counts rows as they come: the planner cannot know."""
    total = 0
    for frame in found:
        total += len(frame)
    yield frame.iloc[:1].assign(n=total)[["n"]]


def table_function(o: Any) -> Any:
    @F.udtf(returnType="part: string")
    class Letters:
        def eval(self, text: str):  # type: ignore[no-untyped-def]
            for letter in text or "":
                yield (letter,)

    return o.select("id", "region").lateralJoin(Letters(F.col("region").outer())).select("id", "part")


safe("udf_of_value", double, o=ANYWHERE)
safe("arrow_udf_of_value", double_by_arrow, o=source("orders"))
safe("pandas_udf_of_value", double_by_pandas, o=ANYWHERE)
safe("pandas_mean_by_key", lambda o: mean_by_pandas(o, "customer"), o=ORDERS)
safe("map_in_pandas", batches, o=ANYWHERE)
safe("map_in_arrow", arrow_batches, o=source("orders"))
safe("apply_in_pandas_by_key", lambda o: o.groupBy("customer").applyInPandas(count_group, SUMMED), o=ORDERS)
safe("apply_in_arrow_by_key", lambda o: o.groupBy("customer").applyInArrow(count_arrow_group, SUMMED), o=ORDERS)
safe(
    "apply_in_pandas_by_key_and_more",
    lambda o: o.groupBy("customer", "region").applyInPandas(count_group, SUMMED),
    o=ORDERS,
)
safe("cogroup_by_key", lambda o, e: o.groupBy("customer").cogroup(e.groupBy("customer")).applyInPandas(count_both, "left BIGINT, right BIGINT"), **BOTH)  # fmt: skip
safe("cogroup_arrow_by_key", lambda o, e: o.groupBy("customer").cogroup(e.groupBy("customer")).applyInArrow(count_both_arrow, "left BIGINT, right BIGINT"), **BOTH)  # fmt: skip
safe("udf_then_group_by_key", lambda o: o.withColumn("b", F.udf(lambda n: n > 2, "boolean")("qty")).groupBy("customer", "b").count(), o=ORDERS)  # fmt: skip
safe("udf_in_join_of_lookup", lambda o, c: o.join(c, F.udf(lambda a, b: a is not None and a == b, "boolean")(o.qty, c.customer)).select("id", "name"), o=ANYWHERE, c=whole("customers"))  # fmt: skip
safe("table_function_by_row", table_function, o=ANYWHERE)

unsafe("pandas_mean_by_other", lambda o: mean_by_pandas(o, "region"), "a region is in several subtasks", o=ORDERS)
unsafe("pandas_mean_of_all", mean_by_pandas, "one row for all", o=ORDERS)
unsafe("apply_in_pandas_by_other", lambda o: o.groupBy("region").applyInPandas(lambda f: f[["customer"]].assign(n=len(f))[:1], SUMMED).select("n"), "a region is in several subtasks", o=ORDERS)  # fmt: skip
unsafe("apply_in_pandas_to_all", lambda o: o.groupBy().applyInPandas(lambda f: f[["customer"]].assign(n=len(f))[:1], SUMMED).select("n"), "one group of all rows", o=ORDERS)  # fmt: skip
unsafe("apply_in_arrow_of_rebalanced", lambda o: o.groupBy("customer").applyInArrow(count_arrow_group, SUMMED), "a customer is in several subtasks", o=ANYWHERE)  # fmt: skip
unsafe("cogroup_by_other", lambda o, p: o.groupBy("region").cogroup(p.groupBy("region")).applyInPandas(count_both, "left BIGINT, right BIGINT"), "a region is in several subtasks", o=ORDERS, p=ORDERS)  # fmt: skip
unsafe("udf_key_grouped", lambda o: o.groupBy(F.udf(lambda n: (n or 0) % 2, "int")("customer").alias("k")).count(), "several customers have one key", o=ORDERS)  # fmt: skip
unsafe("grouped_table_by_key_with_total", lambda o: o.groupBy("customer").applyInPandas(count_group, SUMMED).agg(F.sum("n").alias("n")), "one row for all", o=ORDERS)  # fmt: skip
