--- Local supplier volume
--- step orders_of_year
SELECT o_orderkey, c_nationkey
FROM {customer} JOIN {orders} ON c_custkey = o_custkey
WHERE o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
--- step local_lines
SELECT n_name, l_extendedprice * (1 - l_discount) AS revenue
FROM {orders_of_year}, {lineitem}, {supplier}, {nation}, {region}
WHERE l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
--- step by_nation
SELECT n_name, sum(revenue) AS revenue FROM {local_lines} GROUP BY n_name
--- whole
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
  AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
GROUP BY n_name
