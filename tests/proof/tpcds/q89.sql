--- Months in which a brand sells otherwise than on average
--- step sold
SELECT i_category, i_class, i_brand, s_store_name, s_company_name, d_moy, ss_sales_price
FROM {item} JOIN {store_sales} ON ss_item_sk = i_item_sk JOIN {date_dim} ON ss_sold_date_sk = d_date_sk
     JOIN {store} ON ss_store_sk = s_store_sk
WHERE d_year = 1999 AND (
  (i_category IN ('Books', 'Electronics', 'Sports') AND i_class IN ('computers', 'stereo', 'football'))
  OR (i_category IN ('Men', 'Jewelry', 'Women') AND i_class IN ('shirts', 'birdal', 'dresses'))
)
--- step by_month
SELECT i_category, i_class, i_brand, s_store_name, s_company_name, d_moy, sum(ss_sales_price) AS sum_sales
FROM {sold}
GROUP BY i_category, i_class, i_brand, s_store_name, s_company_name, d_moy
--- step unusual
SELECT *
FROM (
  SELECT *, avg(CAST(sum_sales AS DOUBLE)) OVER (
    PARTITION BY i_category, i_brand, s_store_name, s_company_name
  ) AS avg_monthly_sales
  FROM {by_month}
)
WHERE CASE WHEN avg_monthly_sales <> 0 THEN abs(sum_sales - avg_monthly_sales) / avg_monthly_sales END > 0.1
--- step first one subtask
SELECT *
FROM {unusual}
ORDER BY sum_sales, i_category, i_class, i_brand, s_store_name, d_moy
LIMIT 100
--- whole
SELECT *
FROM (
  SELECT *, avg(sum_sales) OVER (PARTITION BY i_category, i_brand, s_store_name, s_company_name) AS avg_monthly_sales
  FROM (
    SELECT i_category, i_class, i_brand, s_store_name, s_company_name, d_moy, sum(ss_sales_price) AS sum_sales
    FROM item, store_sales, date_dim, store
    WHERE ss_item_sk = i_item_sk AND ss_sold_date_sk = d_date_sk AND ss_store_sk = s_store_sk AND d_year = 1999 AND (
      (i_category IN ('Books', 'Electronics', 'Sports') AND i_class IN ('computers', 'stereo', 'football'))
      OR (i_category IN ('Men', 'Jewelry', 'Women') AND i_class IN ('shirts', 'birdal', 'dresses'))
    )
    GROUP BY i_category, i_class, i_brand, s_store_name, s_company_name, d_moy
  )
)
WHERE CASE WHEN avg_monthly_sales <> 0 THEN abs(sum_sales - avg_monthly_sales) / avg_monthly_sales END > 0.1
ORDER BY sum_sales, i_category, i_class, i_brand, s_store_name, d_moy
LIMIT 100
