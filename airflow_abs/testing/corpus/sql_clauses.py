"""SQL over DataFrame arguments, clause by clause."""

from __future__ import annotations

from airflow_abs.testing.corpus_bench.entries import (
    Family,
    all_distinct,
    as_many_rows,
    by,
    in_order,
    query,
    source,
    spread,
    whole,
)

FAMILY = Family("SQL clauses")
safe, unsafe = FAMILY.safe, FAMILY.unsafe
ORDERS, ANYWHERE = by("orders", "customer"), spread("orders")
BOTH = {"o": ORDERS, "c": by("customers", "customer")}
LOOKUP = {"o": ANYWHERE, "c": whole("customers")}
EVENTS = {"o": ORDERS, "e": by("events", "customer")}

safe(
    "sql_where", query("SELECT id, amount FROM {o} WHERE qty BETWEEN 1 AND 3 AND region LIKE 'n%'"), o=source("orders")
)
safe("sql_case", query("SELECT id, CASE WHEN qty > 2 THEN 'l' ELSE 's' END AS size FROM {o}"), o=ANYWHERE)
safe("sql_group_by", query("SELECT customer, sum(amount) AS s FROM {o} GROUP BY customer"), o=ORDERS)
safe("sql_group_by_all", query("SELECT customer, region, max(qty) AS q FROM {o} GROUP BY ALL"), o=ORDERS)
safe("sql_having", query("SELECT customer, count(*) AS n FROM {o} GROUP BY customer HAVING count(*) > 2"), o=ORDERS)
safe("sql_join_using", query("SELECT id, name FROM {o} LEFT JOIN {c} USING (customer)"), **BOTH)
safe("sql_join_on", query("SELECT o.id, c.name FROM {o} o JOIN {c} c ON o.customer = c.customer AND o.qty > 1"), **BOTH)
safe(
    "sql_broadcast_hint",
    query("SELECT /*+ BROADCAST(c) */ o.id, c.name FROM {o} o LEFT JOIN {c} c USING (customer)"),
    **LOOKUP,
)
safe("sql_common_table_expression", query("WITH t AS (SELECT customer, sum(qty) AS q FROM {o} GROUP BY customer) SELECT * FROM t WHERE q > 3"), o=ORDERS)  # fmt: skip
safe("sql_cte_used_twice", query("WITH t AS (SELECT customer, sum(qty) AS q FROM {o} GROUP BY customer) SELECT a.customer, a.q, b.q AS again FROM t a JOIN t b USING (customer)"), o=ORDERS)  # fmt: skip
safe("sql_derived_table", query("SELECT customer, q FROM (SELECT customer, avg(qty) AS q FROM {o} GROUP BY customer) WHERE q > 1"), o=ORDERS)  # fmt: skip
safe("sql_exists_by_key", query("SELECT id FROM {o} o WHERE EXISTS (SELECT 1 FROM {e} e WHERE e.customer = o.customer AND e.kind = 'buy')"), **EVENTS)  # fmt: skip
safe("sql_not_exists_by_key", query("SELECT id FROM {o} o WHERE NOT EXISTS (SELECT 1 FROM {e} e WHERE e.customer = o.customer)"), **EVENTS)  # fmt: skip
safe(
    "sql_in_by_key",
    query("SELECT id FROM {o} WHERE customer IN (SELECT customer FROM {e} WHERE kind = 'cart')"),
    **EVENTS,
)
safe("sql_correlated_scalar_by_key", query("SELECT id, (SELECT max(value) FROM {e} e WHERE e.customer = o.customer) AS m FROM {o} o"), **EVENTS)  # fmt: skip
safe(
    "sql_exists_in_lookup",
    query("SELECT id FROM {o} o WHERE EXISTS (SELECT 1 FROM {c} c WHERE c.customer = o.qty)"),
    **LOOKUP,
)
safe(
    "sql_not_in_lookup",
    query("SELECT id FROM {o} WHERE qty NOT IN (SELECT customer FROM {c} WHERE customer IS NOT NULL)"),
    **LOOKUP,
)
safe("sql_scalar_of_lookup", query("SELECT id, (SELECT max(discount) FROM {c}) AS m FROM {o}"), **LOOKUP)
safe("sql_in_values", query("SELECT id FROM {o} WHERE customer IN (1, 2, 3)"), o=ANYWHERE)
safe("sql_join_of_values", query("SELECT id, label FROM {o} JOIN VALUES (1, 'one'), (2, 'two') AS v(qty, label) USING (qty)"), o=ANYWHERE)  # fmt: skip
safe("sql_window_by_key", query("SELECT id, sum(qty) OVER (PARTITION BY customer ORDER BY id) AS s FROM {o}"), o=ORDERS)
safe("sql_dedupe_by_key", query("SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY customer ORDER BY at DESC, id) AS n FROM {o}) WHERE n = 1"), o=ORDERS)  # fmt: skip
safe("sql_pivot_by_key", query("SELECT * FROM (SELECT customer, region, qty FROM {o}) PIVOT (sum(qty) FOR region IN ('north', 'south'))"), o=ORDERS)  # fmt: skip
safe("sql_unpivot", query("SELECT * FROM (SELECT customer, name, home FROM {c}) UNPIVOT (value FOR what IN (name, home))"), c=spread("customers"))  # fmt: skip
safe("sql_distribute_by", query("SELECT id FROM {o} DISTRIBUTE BY region"), "moves rows, changes none", o=ANYWHERE)
safe(
    "sql_cluster_by", query("SELECT id, region FROM {o} CLUSTER BY region"), "orders within partitions only", o=ANYWHERE
)
unsafe("sql_distribute_by_then_grouped", query("SELECT region, count(*) AS n FROM (SELECT * FROM {o} DISTRIBUTE BY region) GROUP BY region"), "a region's rows are in several subtasks", o=ANYWHERE)  # fmt: skip
safe("sql_sort_by", query("SELECT id FROM {o} SORT BY at"), "orders within partitions only", o=ANYWHERE)
safe("sql_union_all", query("SELECT customer FROM {o} UNION ALL SELECT customer FROM {e}"), **EVENTS)
safe("sql_intersect_by_key", query("SELECT customer FROM {o} INTERSECT SELECT customer FROM {e}"), **EVENTS)
safe("sql_minus_by_key", query("SELECT customer FROM {o} MINUS SELECT customer FROM {e}"), **EVENTS)
safe("sql_distinct_by_key", query("SELECT DISTINCT customer, day FROM {o}"), o=ORDERS)
unsafe("sql_tablesample", query("SELECT id FROM {o} TABLESAMPLE (50 PERCENT) REPEATABLE (1)"), "which rows depends on how they are distributed", o=ANYWHERE)  # fmt: skip
safe("sql_pipe_syntax", query("FROM {o} |> WHERE qty > 1 |> AGGREGATE sum(amount) AS s GROUP BY customer"), o=ORDERS)
safe("sql_lateral_column_alias", query("SELECT id, qty * 2 AS twice, twice + 1 AS more FROM {o}"), o=ANYWHERE)
safe("sql_lateral_subquery", query("SELECT id, s FROM {o} o, LATERAL (SELECT o.qty + 1 AS s)"), o=ANYWHERE)
safe("sql_select_except", query("SELECT * EXCEPT (body, attrs) FROM {o}"), o=ANYWHERE)
safe("sql_transform_script_free", query("SELECT transform(tags, t -> upper(t)) AS t, id FROM {o}"), o=ANYWHERE)
safe("sql_semi_join", query("SELECT id FROM {o} LEFT SEMI JOIN {e} USING (customer)"), **EVENTS)
safe("sql_anti_join", query("SELECT id FROM {o} LEFT ANTI JOIN {e} USING (customer)"), **EVENTS)
safe(
    "sql_parameters",
    lambda o: o.sparkSession.sql("SELECT id FROM {o} WHERE qty > :least", {"least": 2}, o=o),
    o=ANYWHERE,
)
safe("sql_cross_join_of_values", query("SELECT id, n FROM {o} CROSS JOIN VALUES (1), (2) AS v(n)"), o=ANYWHERE)
safe(
    "sql_recursion_inside_row",
    query("SELECT id, aggregate(sequence(0, qty), 0, (a, x) -> a + x) AS s FROM {o}"),
    o=ANYWHERE,
)

unsafe("sql_count", query("SELECT count(*) AS n FROM {o}"), "one row for all", o=ORDERS)
unsafe("sql_group_by_other", query("SELECT region, sum(amount) AS s FROM {o} GROUP BY region"), "a region is in several subtasks", o=ORDERS)  # fmt: skip
unsafe("sql_distinct", query("SELECT DISTINCT region FROM {o}"), "a region is in several subtasks", o=ORDERS)
unsafe("sql_order_by", query("SELECT id FROM {o} ORDER BY id"), "each subtask orders its own rows", check=in_order("id"), o=ANYWHERE)  # fmt: skip
unsafe("sql_limit", query("SELECT id FROM {o} LIMIT 5"), "each subtask takes its own", check=as_many_rows, o=ANYWHERE)
unsafe(
    "sql_offset",
    query("SELECT id FROM {o} OFFSET 50"),
    "each subtask leaves out its own",
    check=as_many_rows,
    o=ANYWHERE,
)
unsafe("sql_tablesample_rows", query("SELECT id FROM {o} TABLESAMPLE (5 ROWS)"), "each subtask takes its own", check=as_many_rows, o=ANYWHERE)  # fmt: skip
unsafe("sql_scalar_total", query("SELECT id, (SELECT sum(qty) FROM {o}) AS total FROM {o}"), "the total is of all rows", o=ORDERS)  # fmt: skip
unsafe(
    "sql_above_average",
    query("SELECT id FROM {o} WHERE qty > (SELECT avg(qty) FROM {o})"),
    "the mean is of all rows",
    o=ORDERS,
)
unsafe(
    "sql_in_other", query("SELECT id FROM {o} WHERE region IN (SELECT home FROM {c})"), "homes lie by customer", **BOTH
)
unsafe("sql_exists_uncorrelated", query("SELECT id FROM {o} WHERE EXISTS (SELECT 1 FROM {c} WHERE name = 'customer 3')"), "one subtask alone has that customer", **BOTH)  # fmt: skip
unsafe("sql_not_in_by_key", query("SELECT id FROM {o} WHERE qty NOT IN (SELECT customer FROM {e} WHERE kind = 'buy')"), "one NULL anywhere leaves no row", **EVENTS)  # fmt: skip
unsafe("sql_right_join_of_lookup", query("SELECT o.id, c.name FROM {o} o RIGHT JOIN {c} c USING (customer)"), "every subtask gives the customers without a match", **LOOKUP)  # fmt: skip
unsafe("sql_union_with_lookup", query("SELECT customer FROM {o} UNION ALL SELECT customer FROM {c}"), "every subtask gives all customers", **LOOKUP)  # fmt: skip
unsafe("sql_cube", query("SELECT customer, region, count(*) AS n FROM {o} GROUP BY CUBE (customer, region)"), "has totals", o=ORDERS)  # fmt: skip
unsafe(
    "sql_rollup", query("SELECT customer, count(*) AS n FROM {o} GROUP BY ROLLUP (customer)"), "has a total", o=ORDERS
)
unsafe("sql_pivot_by_other", query("SELECT * FROM (SELECT flag, region, qty FROM {o}) PIVOT (sum(qty) FOR region IN ('north'))"), "a flag is in several subtasks", o=ORDERS)  # fmt: skip
unsafe("sql_global_row_number", query("SELECT id, row_number() OVER (ORDER BY id) AS n FROM {o}"), "numbers all rows", check=all_distinct("n"), o=ORDERS)  # fmt: skip
unsafe("sql_values_returned", query("SELECT customer FROM {o} UNION ALL VALUES (100), (101)"), "every subtask returns the literal rows", o=ORDERS)  # fmt: skip
unsafe("sql_recursive_closure", query("WITH RECURSIVE r(a, b, depth) AS (SELECT CAST(qty AS BIGINT), id, 0 FROM {o} WHERE qty = 1 UNION ALL SELECT r.b, o.id, depth + 1 FROM r JOIN {o} o ON o.qty = r.b WHERE depth < 2) SELECT a, b, depth FROM r"), "walks over rows of all subtasks", o=ORDERS)  # fmt: skip
