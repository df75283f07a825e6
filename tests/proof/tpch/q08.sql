--- National market share (of all economy parts: at this scale few lines are of one type)
--- step orders_of_region
SELECT o_orderkey, year(o_orderdate) AS o_year
FROM {customer} JOIN {orders} ON c_custkey = o_custkey JOIN {nation} ON c_nationkey = n_nationkey
     JOIN {region} ON n_regionkey = r_regionkey
WHERE r_name = 'AMERICA' AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
--- step lines_of_type
SELECT l_orderkey, n_name AS nation, l_extendedprice * (1 - l_discount) AS volume
FROM {lineitem} JOIN {part} ON l_partkey = p_partkey JOIN {supplier} ON l_suppkey = s_suppkey
     JOIN {nation} ON s_nationkey = n_nationkey
WHERE p_type LIKE 'ECONOMY%'
--- step volumes
SELECT o_year, nation, volume FROM {orders_of_region} JOIN {lines_of_type} ON o_orderkey = l_orderkey
--- step share
SELECT o_year, CAST(sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) AS DOUBLE) / CAST(sum(volume) AS DOUBLE)
       AS mkt_share
FROM {volumes}
GROUP BY o_year
--- whole
SELECT o_year, CAST(sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) AS DOUBLE) / CAST(sum(volume) AS DOUBLE)
       AS mkt_share
FROM (
  SELECT year(o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation
  FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
  WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
    AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
    AND s_nationkey = n2.n_nationkey AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
    AND p_type LIKE 'ECONOMY%'
)
GROUP BY o_year
