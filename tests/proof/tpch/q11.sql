--- Important stock
--- step stock
SELECT ps_partkey, ps_supplycost * ps_availqty AS value
FROM {partsupp} JOIN {supplier} ON ps_suppkey = s_suppkey JOIN {nation} ON s_nationkey = n_nationkey
WHERE n_name = 'GERMANY'
--- step least one subtask
SELECT sum(value) * 0.005 AS least FROM {stock}
--- step important
SELECT ps_partkey, sum(value) AS value
FROM {stock}
GROUP BY ps_partkey
HAVING sum(value) > (SELECT least FROM {least})
--- whole
SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
GROUP BY ps_partkey
HAVING sum(ps_supplycost * ps_availqty) > (
  SELECT sum(ps_supplycost * ps_availqty) * 0.005
  FROM partsupp, supplier, nation
  WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
)
