--- Items of which the web has sold more up to a day than the stores
--- step on_web
SELECT ws_item_sk AS item_sk, d_date,
       sum(sum(ws_sales_price)) OVER (PARTITION BY ws_item_sk ORDER BY d_date) AS cume_sales
FROM {web_sales} JOIN {date_dim} ON ws_sold_date_sk = d_date_sk
WHERE d_year = 2000
GROUP BY ws_item_sk, d_date
--- step in_store
SELECT ss_item_sk AS item_sk, d_date,
       sum(sum(ss_sales_price)) OVER (PARTITION BY ss_item_sk ORDER BY d_date) AS cume_sales
FROM {store_sales} JOIN {date_dim} ON ss_sold_date_sk = d_date_sk
WHERE d_year = 2000
GROUP BY ss_item_sk, d_date
--- step ahead
SELECT item_sk, d_date, web_sales, store_sales, web_cumulative, store_cumulative
FROM (
  SELECT item_sk, d_date, web_sales, store_sales,
         max(web_sales) OVER (PARTITION BY item_sk ORDER BY d_date) AS web_cumulative,
         max(store_sales) OVER (PARTITION BY item_sk ORDER BY d_date) AS store_cumulative
  FROM (
    SELECT coalesce(web.item_sk, store.item_sk) AS item_sk, coalesce(web.d_date, store.d_date) AS d_date,
           web.cume_sales AS web_sales, store.cume_sales AS store_sales
    FROM {on_web} web FULL OUTER JOIN {in_store} store ON web.item_sk = store.item_sk AND web.d_date = store.d_date
  )
)
WHERE web_cumulative > store_cumulative
--- step first one subtask
SELECT * FROM {ahead} ORDER BY item_sk, d_date LIMIT 100
--- whole
WITH web AS (
  SELECT ws_item_sk AS item_sk, d_date,
         sum(sum(ws_sales_price)) OVER (PARTITION BY ws_item_sk ORDER BY d_date) AS cume_sales
  FROM web_sales, date_dim
  WHERE ws_sold_date_sk = d_date_sk AND d_year = 2000
  GROUP BY ws_item_sk, d_date
), store AS (
  SELECT ss_item_sk AS item_sk, d_date,
         sum(sum(ss_sales_price)) OVER (PARTITION BY ss_item_sk ORDER BY d_date) AS cume_sales
  FROM store_sales, date_dim
  WHERE ss_sold_date_sk = d_date_sk AND d_year = 2000
  GROUP BY ss_item_sk, d_date
)
SELECT item_sk, d_date, web_sales, store_sales, web_cumulative, store_cumulative
FROM (
  SELECT item_sk, d_date, web_sales, store_sales,
         max(web_sales) OVER (PARTITION BY item_sk ORDER BY d_date) AS web_cumulative,
         max(store_sales) OVER (PARTITION BY item_sk ORDER BY d_date) AS store_cumulative
  FROM (
    SELECT coalesce(web.item_sk, store.item_sk) AS item_sk, coalesce(web.d_date, store.d_date) AS d_date,
           web.cume_sales AS web_sales, store.cume_sales AS store_sales
    FROM web FULL OUTER JOIN store ON web.item_sk = store.item_sk AND web.d_date = store.d_date
  )
)
WHERE web_cumulative > store_cumulative
ORDER BY item_sk, d_date
LIMIT 100
