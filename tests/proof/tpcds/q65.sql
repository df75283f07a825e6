--- Items that sell badly in a store
--- step by_item
SELECT ss_store_sk, ss_item_sk, sum(ss_sales_price) AS revenue
FROM {store_sales} JOIN {date_dim} ON ss_sold_date_sk = d_date_sk
WHERE d_year = 2000
GROUP BY ss_store_sk, ss_item_sk
--- step bad
SELECT s_store_name, one.ss_item_sk, revenue
FROM {by_item} one
     JOIN (SELECT ss_store_sk, avg(CAST(revenue AS DOUBLE)) AS ave FROM {by_item} GROUP BY ss_store_sk) mean
       ON mean.ss_store_sk = one.ss_store_sk
     JOIN {store} ON s_store_sk = one.ss_store_sk
WHERE CAST(revenue AS DOUBLE) <= 0.1 * ave
--- step described
SELECT s_store_name, i_item_desc, revenue, i_current_price, i_brand
FROM {bad} JOIN {item} ON i_item_sk = ss_item_sk
--- step first one subtask
SELECT * FROM {described} ORDER BY s_store_name, i_item_desc, revenue LIMIT 100
--- whole
WITH by_item AS (
  SELECT ss_store_sk, ss_item_sk, sum(ss_sales_price) AS revenue
  FROM store_sales, date_dim
  WHERE ss_sold_date_sk = d_date_sk AND d_year = 2000
  GROUP BY ss_store_sk, ss_item_sk
)
SELECT s_store_name, i_item_desc, revenue, i_current_price, i_brand
FROM store, item, (SELECT ss_store_sk, avg(revenue) AS ave FROM by_item GROUP BY ss_store_sk) mean, by_item one
WHERE mean.ss_store_sk = one.ss_store_sk AND revenue <= 0.1 * ave AND s_store_sk = one.ss_store_sk
  AND i_item_sk = one.ss_item_sk
ORDER BY s_store_name, i_item_desc, revenue
LIMIT 100
