"""The steps of the workloads, the same functions for every peer: DataFrames in, one DataFrame out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def valid_orders(orders: DataFrame) -> DataFrame:
    return orders.where("o_orderdate < DATE'1998-01-01'").select("o_orderkey", "o_custkey", "o_orderdate")


def priced_items(lineitem: DataFrame) -> DataFrame:
    price = "CAST(l_extendedprice * (1 - l_discount) AS DECIMAL(18,4)) AS price"
    return lineitem.where("l_shipdate > DATE'1992-06-01'").selectExpr("l_orderkey", price)


def segments(customer: DataFrame) -> DataFrame:
    return customer.select("c_custkey", "c_mktsegment", "c_nationkey")


def revenue_of_orders(orders: DataFrame, items: DataFrame, customers: DataFrame) -> DataFrame:
    joined = items.join(orders, items["l_orderkey"] == orders["o_orderkey"])
    joined = joined.join(customers, joined["o_custkey"] == customers["c_custkey"])
    return (
        joined.groupBy("o_orderkey", "o_orderdate", "c_mktsegment")
        .agg({"price": "sum"})
        .selectExpr(
            "c_mktsegment", "trunc(o_orderdate, 'month') AS month", "CAST(`sum(price)` AS DECIMAL(28,4)) AS revenue"
        )
    )


def revenue_by_segment(revenue: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return revenue.groupBy("c_mktsegment", "month").agg(
        sf.count("revenue").alias("orders"),
        sf.sum("revenue").cast("decimal(38,4)").alias("revenue"),
        sf.max("revenue").cast("decimal(28,4)").alias("largest"),
    )


def quantities(lineitem: DataFrame) -> DataFrame:
    return lineitem.select("l_orderkey", "l_quantity")


def large_orders(items: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    total = items.groupBy("l_orderkey").agg(sf.sum("l_quantity").cast("decimal(25,2)").alias("quantity"))
    return total.where("quantity > 200")


def keyed_orders(orders: DataFrame) -> DataFrame:
    return orders.select("o_orderkey", "o_custkey", "o_totalprice")


def picked_orders(orders: DataFrame, large: DataFrame) -> DataFrame:
    joined = orders.join(large, orders["o_orderkey"] == large["l_orderkey"])
    return joined.select("o_custkey", "o_totalprice", "quantity")


def large_customers(picked: DataFrame, customers: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    joined = picked.join(customers, picked["o_custkey"] == customers["c_custkey"])
    return joined.groupBy("c_custkey", "c_mktsegment").agg(
        sf.count("quantity").alias("orders"),
        sf.sum("quantity").cast("decimal(35,2)").alias("quantity"),
        sf.sum("o_totalprice").cast("decimal(25,2)").alias("spend"),
    )


def paid_sales(sales: DataFrame) -> DataFrame:
    return sales.where("amount > 0").select("customer_id", "amount", "quantity")


def sales_of_customers(sales: DataFrame, customers: DataFrame) -> DataFrame:
    joined = sales.join(customers, sales["customer_id"] == customers["c_custkey"])
    return joined.select("c_nationkey", "c_mktsegment", "amount", "quantity")


def all_sales(sales: DataFrame, customers: DataFrame) -> DataFrame:
    """A left join keeps the sales that have no customer."""
    joined = sales.join(customers, sales["customer_id"] == customers["c_custkey"], "left")
    return joined.select("c_nationkey", "c_mktsegment", "amount", "quantity")


def sales_by_nation(sales: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return sales.groupBy("c_nationkey", "c_mktsegment").agg(
        sf.count("amount").alias("sales"),
        sf.sum("amount").cast("decimal(25,2)").alias("amount"),
        sf.max("quantity").alias("largest"),
    )


def shipped_orders(orders: DataFrame) -> DataFrame:
    return orders.where("o_orderdate < DATE'1998-01-01'")


def shipped_items(lineitem: DataFrame) -> DataFrame:
    return lineitem.where("l_shipdate > DATE'1992-06-01'")


def solvent_customers(customer: DataFrame) -> DataFrame:
    return customer.where("c_acctbal > 0")


def orders_with_all(orders: DataFrame, items: DataFrame, customers: DataFrame) -> DataFrame:
    joined = items.join(orders, items["l_orderkey"] == orders["o_orderkey"])
    return joined.join(customers, joined["o_custkey"] == customers["c_custkey"])


def spend_by_segment(joined: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return joined.groupBy("c_mktsegment", "o_orderpriority").agg(
        sf.count("l_orderkey").alias("items"),
        sf.sum("l_extendedprice").cast("decimal(38,2)").alias("price"),
        sf.max("l_quantity").alias("largest"),
    )


def paid_store_sales(store_sales: DataFrame) -> DataFrame:
    return store_sales.where("ss_net_paid > 50")


def working_days(date_dim: DataFrame) -> DataFrame:
    return date_dim.where("d_dow BETWEEN 1 AND 5")


def dated_sales(sales: DataFrame, customers: DataFrame, dates: DataFrame) -> DataFrame:
    joined = sales.join(customers, sales["ss_customer_sk"] == customers["c_custkey"])
    return joined.join(dates, joined["ss_sold_date_sk"] == dates["d_date_sk"])


def sales_by_month(joined: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return joined.groupBy("c_mktsegment", "d_year", "d_moy").agg(
        sf.count("*").alias("sales"),
        sf.sum("ss_net_paid").alias("paid"),
        sf.sum("ss_net_profit").alias("profit"),
        sf.max("ss_quantity").alias("largest"),
    )
