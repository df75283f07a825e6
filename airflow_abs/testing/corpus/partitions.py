"""Functions that see a whole Spark partition, behind everything by which an author makes partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from airflow_abs.testing.corpus_bench.entries import Family, all_distinct, by, query, source, spread, whole

FAMILY = Family("functions over partitions")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS, ANYWHERE, LOOKUP = by("orders", "customer"), spread("orders"), whole("customers")
COUNTED, TOTAL = "customer BIGINT, n BIGINT", "n BIGINT"
APART, ALL, NUMBER = "a customer is in several subtasks", "one partition of all rows", "so many partitions of all rows"


def count_each(column: str) -> Callable[[Any], Iterator[Any]]:
    """How many rows of a partition have each value of a column."""

    def count(found: Any) -> Any:
        counts = Counter(value for frame in found for value in frame[column].dropna())
        yield pd.DataFrame({"customer": [int(each) for each in counts], "n": list(counts.values())}, dtype="int64")

    return count


counted = count_each("customer")


def counted_by_arrow(found: Any) -> Any:
    import pyarrow as pa

    counts = Counter(value for batch in found for value in batch["customer"].drop_null().to_pylist())
    rows = {"customer": pa.array(counts.keys(), pa.int64()), "n": pa.array(counts.values(), pa.int64())}
    yield pa.RecordBatch.from_pydict(rows)


def total(found: Any) -> Any:
    """One row for each partition, whether it has rows or not."""
    yield pd.DataFrame({"n": [sum(map(len, found))]})


def same(found: Any) -> Any:
    yield from found


def newest_of_each(found: Any) -> Any:
    """The first row of each run of equal customers, for which the partition is sorted."""
    before = object()
    for frame in found:
        for customer, number in zip(frame["customer"], frame["id"], strict=True):
            if not pd.isna(customer) and customer != before:
                yield pd.DataFrame({"customer": [int(customer)], "n": [number]})
                before = customer


def numbered(o: Any) -> Any:
    @F.pandas_udf("bigint")
    def number(found: Iterator[pd.Series]) -> Iterator[pd.Series]:
        begin = 0
        for series in found:
            yield pd.Series(range(begin, begin + len(series)))
            begin += len(series)

    return o.select(number("id").alias("n"))


def rows_of_table(o: Any, arrange: Callable[[Any], Any] = lambda table: table) -> Any:
    """A table function that counts its rows, and says so when it has had all of a partition."""

    @F.udtf(returnType="customer: bigint, n: bigint")
    class Count:
        def __init__(self) -> None:
            self.counts: Counter[int] = Counter()

        def eval(self, row: Any) -> None:
            if row["customer"] is not None:
                self.counts[row["customer"]] += 1

        def terminate(self) -> Iterator[tuple[int, int]]:
            yield from self.counts.items()

    return Count(arrange(o.select("customer").asTable()))


safe("counted_behind_keys", lambda o: o.repartition("customer").mapInPandas(counted, COUNTED), o=ORDERS)
safe("newest_behind_keys_and_sort", lambda o: o.repartition("customer").sortWithinPartitions("customer", F.desc("id")).mapInPandas(newest_of_each, COUNTED), o=ORDERS)  # fmt: skip
safe("counted_table_by_keys", lambda o: rows_of_table(o, lambda table: table.partitionBy("customer")), o=ORDERS)
safe("lookup_in_one_partition", lambda o, c: o.select("id").crossJoin(c.coalesce(1).mapInPandas(total, TOTAL)), "every subtask has all of it", o=ANYWHERE, c=LOOKUP)  # fmt: skip
safe("growing_id_behind_keys", lambda o: o.repartition("customer").select("id", F.monotonically_increasing_id().alias("v")), "distinct, no more is promised", check=all_distinct("v"), o=ORDERS)  # fmt: skip

unsafe("counted_behind_keys_of_rebalanced", lambda o: o.repartition("customer").mapInPandas(counted, COUNTED), APART, o=ANYWHERE)  # fmt: skip
unsafe("counted_by_arrow_behind_keys_of_source", lambda o: o.repartition("customer").mapInArrow(counted_by_arrow, COUNTED), APART, o=source("orders"))  # fmt: skip
unsafe("counted_behind_other_keys", lambda o: o.repartition("qty").mapInPandas(count_each("qty"), COUNTED), "a quantity is in several subtasks", o=ORDERS)  # fmt: skip
unsafe("counted_behind_fewer_keys", lambda o: o.repartition("customer").mapInPandas(counted, COUNTED), APART, o=by("orders", "customer", "qty"))  # fmt: skip
unsafe("counted_behind_computed_keys", lambda o: o.repartition(F.col("customer") % 3).mapInPandas(lambda found: count_each("customer")(frame.assign(customer=frame["customer"] % 3) for frame in found), COUNTED), "several customers have one key", o=ORDERS)  # fmt: skip
unsafe("total_of_one_partition", lambda o: o.coalesce(1).mapInPandas(total, TOTAL), ALL, o=ORDERS)
unsafe("total_of_one_shuffled_partition", lambda o: o.repartition(1).mapInPandas(total, TOTAL), ALL, o=ANYWHERE)
unsafe("total_of_grouped_partition", lambda o: o.repartition(1).groupBy("customer").count().mapInPandas(total, TOTAL), ALL, o=ORDERS)  # fmt: skip
unsafe("total_of_joined_partition", lambda o, c: o.coalesce(1).join(F.broadcast(c), "customer").mapInPandas(total, TOTAL), ALL, o=ORDERS, c=LOOKUP)  # fmt: skip
unsafe("total_of_partition_hinted_in_sql", lambda o: o.sparkSession.sql("SELECT /*+ COALESCE(1) */ id FROM {o}", o=o).mapInPandas(total, TOTAL), ALL, o=ORDERS)  # fmt: skip
unsafe("total_of_table_as_one_partition", lambda o: rows_of_table(o, lambda table: table.withSinglePartition()), ALL, o=ANYWHERE)  # fmt: skip
unsafe("transformed_partition", lambda o: query("SELECT TRANSFORM(id) USING 'wc -l' AS (n STRING) FROM {o}")(o=o.coalesce(1)), ALL, o=ORDERS)  # fmt: skip
unsafe("numbered_partition", lambda o: numbered(o.coalesce(1)), ALL, o=ORDERS)
unsafe("growing_id_of_one_partition", lambda o: o.coalesce(1).select(F.monotonically_increasing_id().alias("v")), "consecutive in plain Spark", o=ORDERS)  # fmt: skip
unsafe("total_of_partitions", lambda o: o.repartition(3).mapInPandas(total, TOTAL).select(F.lit(1).alias("one")), NUMBER, o=ORDERS)  # fmt: skip
unsafe("total_of_keyed_partitions", lambda o: o.repartition(3, "customer").mapInPandas(total, TOTAL).select(F.lit(1).alias("one")), NUMBER, o=ORDERS)  # fmt: skip
unsafe("total_of_numbered_partitions", lambda o: o.repartitionById(2, F.col("qty") % 2).mapInPandas(total, TOTAL), NUMBER, o=ORDERS)  # fmt: skip
unsafe("total_of_ranges", lambda o: o.repartitionByRange(2, "id").mapInPandas(total, TOTAL).select(F.lit(1).alias("one")), "ranges of all rows", o=ORDERS)  # fmt: skip
unsafe("total_behind_order", lambda o: o.orderBy("id").mapInPandas(total, TOTAL), "a sort of all rows", o=ORDERS)
unsafe("barrier_of_partitions", lambda o: o.select("id").repartition(1).mapInPandas(total, TOTAL, barrier=True), "tasks of all rows talk with each other", o=ORDERS)  # fmt: skip
unsafe("counted_table_of_one_partition", lambda o: rows_of_table(o.coalesce(1)), ALL, o=ANYWHERE)
