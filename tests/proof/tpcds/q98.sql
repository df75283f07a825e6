--- Each item's share of its class
--- step sold
SELECT i_item_id, i_item_desc, i_category, i_class, i_current_price, ss_ext_sales_price
FROM {store_sales} JOIN {item} ON ss_item_sk = i_item_sk JOIN {date_dim} ON ss_sold_date_sk = d_date_sk
WHERE i_category IN ('Sports', 'Books', 'Home') AND d_date BETWEEN DATE '1999-02-22' AND DATE '1999-03-24'
--- step by_item
SELECT i_item_id, i_item_desc, i_category, i_class, i_current_price, sum(ss_ext_sales_price) AS itemrevenue
FROM {sold}
GROUP BY i_item_id, i_item_desc, i_category, i_class, i_current_price
--- step shares
SELECT *,
       CAST(itemrevenue AS DOUBLE) * 100 / sum(CAST(itemrevenue AS DOUBLE)) OVER (PARTITION BY i_class)
         AS revenueratio
FROM {by_item}
--- whole
SELECT i_item_id, i_item_desc, i_category, i_class, i_current_price, sum(ss_ext_sales_price) AS itemrevenue,
       CAST(sum(ss_ext_sales_price) AS DOUBLE) * 100
         / sum(CAST(sum(ss_ext_sales_price) AS DOUBLE)) OVER (PARTITION BY i_class) AS revenueratio
FROM store_sales, item, date_dim
WHERE ss_item_sk = i_item_sk AND i_category IN ('Sports', 'Books', 'Home') AND ss_sold_date_sk = d_date_sk
  AND d_date BETWEEN DATE '1999-02-22' AND DATE '1999-03-24'
GROUP BY i_item_id, i_item_desc, i_category, i_class, i_current_price
