--- Shipping modes and order priority
--- step late
SELECT l_shipmode, o_orderpriority IN ('1-URGENT', '2-HIGH') AS is_high
FROM {orders} JOIN {lineitem} ON o_orderkey = l_orderkey
WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
  AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
--- step by_mode
SELECT l_shipmode, sum(CASE WHEN is_high THEN 1 ELSE 0 END) AS high_line_count,
       sum(CASE WHEN is_high THEN 0 ELSE 1 END) AS low_line_count
FROM {late}
GROUP BY l_shipmode
--- whole
SELECT l_shipmode,
       sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
       sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
  AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
GROUP BY l_shipmode
