--- Brands that are bought away from home
--- step sold
SELECT ss_customer_sk, ss_store_sk, i_brand_id, i_brand, i_manufact_id, ss_ext_sales_price
FROM {date_dim}, {store_sales}, {item}
WHERE d_date_sk = ss_sold_date_sk AND ss_item_sk = i_item_sk AND i_manager_id = 8 AND d_moy = 11 AND d_year = 1999
--- step buyers
SELECT c_customer_sk, substring(ca_zip, 1, 5) AS home
FROM {customer} JOIN {customer_address} ON c_current_addr_sk = ca_address_sk
--- step away
SELECT i_brand_id, i_brand, i_manufact_id, ss_ext_sales_price
FROM {sold} JOIN {buyers} ON ss_customer_sk = c_customer_sk JOIN {store} ON ss_store_sk = s_store_sk
WHERE home <> substring(s_zip, 1, 5)
--- step by_brand
SELECT i_brand_id AS brand_id, i_brand AS brand, i_manufact_id, sum(ss_ext_sales_price) AS ext_price
FROM {away}
GROUP BY i_brand, i_brand_id, i_manufact_id
--- step first one subtask
SELECT * FROM {by_brand} ORDER BY ext_price DESC, brand, brand_id, i_manufact_id LIMIT 100
--- whole
SELECT i_brand_id AS brand_id, i_brand AS brand, i_manufact_id, sum(ss_ext_sales_price) AS ext_price
FROM date_dim, store_sales, item, customer, customer_address, store
WHERE d_date_sk = ss_sold_date_sk AND ss_item_sk = i_item_sk AND i_manager_id = 8 AND d_moy = 11 AND d_year = 1999
  AND ss_customer_sk = c_customer_sk AND c_current_addr_sk = ca_address_sk
  AND substring(ca_zip, 1, 5) <> substring(s_zip, 1, 5) AND ss_store_sk = s_store_sk
GROUP BY i_brand, i_brand_id, i_manufact_id
ORDER BY ext_price DESC, brand, brand_id, i_manufact_id
LIMIT 100
