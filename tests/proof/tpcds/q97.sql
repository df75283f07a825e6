--- Customers of the stores, of the catalog, and of both
--- step of_stores
SELECT ss_customer_sk AS customer_sk, ss_item_sk AS item_sk
FROM {store_sales} JOIN {date_dim} ON ss_sold_date_sk = d_date_sk
WHERE d_year = 2000
GROUP BY ss_customer_sk, ss_item_sk
--- step of_catalog
SELECT cs_bill_customer_sk AS customer_sk, cs_item_sk AS item_sk
FROM {catalog_sales} JOIN {date_dim} ON cs_sold_date_sk = d_date_sk
WHERE d_year = 2000
GROUP BY cs_bill_customer_sk, cs_item_sk
--- step compared
SELECT s.customer_sk IS NOT NULL AND c.customer_sk IS NULL AS store_only,
       s.customer_sk IS NULL AND c.customer_sk IS NOT NULL AS catalog_only,
       s.customer_sk IS NOT NULL AND c.customer_sk IS NOT NULL AS both
FROM {of_stores} s FULL OUTER JOIN {of_catalog} c ON s.customer_sk = c.customer_sk AND s.item_sk = c.item_sk
--- step counts one subtask
SELECT count_if(store_only) AS store_only, count_if(catalog_only) AS catalog_only,
       count_if(both) AS store_and_catalog
FROM {compared}
--- whole
WITH of_stores AS (
  SELECT ss_customer_sk AS customer_sk, ss_item_sk AS item_sk
  FROM store_sales, date_dim
  WHERE ss_sold_date_sk = d_date_sk AND d_year = 2000
  GROUP BY ss_customer_sk, ss_item_sk
), of_catalog AS (
  SELECT cs_bill_customer_sk AS customer_sk, cs_item_sk AS item_sk
  FROM catalog_sales, date_dim
  WHERE cs_sold_date_sk = d_date_sk AND d_year = 2000
  GROUP BY cs_bill_customer_sk, cs_item_sk
)
SELECT sum(CASE WHEN s.customer_sk IS NOT NULL AND c.customer_sk IS NULL THEN 1 ELSE 0 END) AS store_only,
       sum(CASE WHEN s.customer_sk IS NULL AND c.customer_sk IS NOT NULL THEN 1 ELSE 0 END) AS catalog_only,
       sum(CASE WHEN s.customer_sk IS NOT NULL AND c.customer_sk IS NOT NULL THEN 1 ELSE 0 END) AS store_and_catalog
FROM of_stores s FULL OUTER JOIN of_catalog c ON s.customer_sk = c.customer_sk AND s.item_sk = c.item_sk
