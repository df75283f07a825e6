--- Customers who return more than others of their store
--- step returned
SELECT sr_customer_sk AS customer_sk, sr_store_sk AS store_sk, sum(sr_return_amt) AS total_return
FROM {store_returns} JOIN {date_dim} ON sr_returned_date_sk = d_date_sk
WHERE d_year = 2000
GROUP BY sr_customer_sk, sr_store_sk
--- step unusual
SELECT customer_sk
FROM {returned} r JOIN {store} ON s_store_sk = r.store_sk
WHERE s_state = 'TN' AND CAST(total_return AS DOUBLE) > (
  SELECT avg(CAST(total_return AS DOUBLE)) * 1.2 FROM {returned} o WHERE o.store_sk = r.store_sk
)
--- step customers
SELECT c_customer_id FROM {unusual} JOIN {customer} ON customer_sk = c_customer_sk
--- step first one subtask
SELECT c_customer_id FROM {customers} ORDER BY c_customer_id LIMIT 100
--- whole
WITH returned AS (
  SELECT sr_customer_sk AS customer_sk, sr_store_sk AS store_sk, sum(sr_return_amt) AS total_return
  FROM store_returns, date_dim
  WHERE sr_returned_date_sk = d_date_sk AND d_year = 2000
  GROUP BY sr_customer_sk, sr_store_sk
)
SELECT c_customer_id
FROM returned r, store, customer
WHERE total_return > (SELECT avg(total_return) * 1.2 FROM returned o WHERE r.store_sk = o.store_sk)
  AND s_store_sk = r.store_sk AND s_state = 'TN' AND r.customer_sk = c_customer_sk
ORDER BY c_customer_id
LIMIT 100
