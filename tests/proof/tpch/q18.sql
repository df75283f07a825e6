--- Large volume customer
--- step large_orders
SELECT o_orderkey, o_custkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
FROM {orders} JOIN {lineitem} ON o_orderkey = l_orderkey
WHERE o_orderkey IN (SELECT l_orderkey FROM {lineitem} GROUP BY l_orderkey HAVING sum(l_quantity) > 250)
GROUP BY o_orderkey, o_custkey, o_orderdate, o_totalprice
--- step with_customer
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, quantity
FROM {customer} JOIN {large_orders} ON c_custkey = o_custkey
--- step largest one subtask
SELECT * FROM {with_customer} ORDER BY o_totalprice DESC, o_orderdate, o_orderkey LIMIT 100
--- whole
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
FROM customer, orders, lineitem
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 250)
  AND c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate, o_orderkey
LIMIT 100
