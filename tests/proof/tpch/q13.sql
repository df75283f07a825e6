--- Customer distribution
--- step orders_of_customers
SELECT c_custkey, count(o_orderkey) AS c_count
FROM {customer} LEFT JOIN {orders} ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
GROUP BY c_custkey
--- step distribution
SELECT c_count, count(*) AS custdist FROM {orders_of_customers} GROUP BY c_count
--- whole
SELECT c_count, count(*) AS custdist
FROM (
  SELECT c_custkey, count(o_orderkey) AS c_count
  FROM customer LEFT JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
  GROUP BY c_custkey
)
GROUP BY c_count
