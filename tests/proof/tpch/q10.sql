--- Returned item reporting
--- step returned
SELECT o_custkey, l_extendedprice * (1 - l_discount) AS price
FROM {orders} JOIN {lineitem} ON l_orderkey = o_orderkey
WHERE o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'
--- step lost
SELECT c_custkey, c_name, sum(price) AS revenue, c_acctbal, n_name, c_address, c_phone, c_comment
FROM {customer} JOIN {returned} ON c_custkey = o_custkey JOIN {nation} ON c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
--- step most one subtask
SELECT * FROM {lost} ORDER BY revenue DESC, c_custkey LIMIT 20
--- whole
SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address, c_phone,
       c_comment
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
  AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
ORDER BY revenue DESC, c_custkey
LIMIT 20
