--- Buyers of large tickets
--- step tickets
SELECT ss_ticket_number, ss_customer_sk, count(*) AS cnt
FROM {store_sales} JOIN {date_dim} ON ss_sold_date_sk = d_date_sk JOIN {store} ON ss_store_sk = s_store_sk
     JOIN {household_demographics} ON ss_hdemo_sk = hd_demo_sk
WHERE (d_dom BETWEEN 1 AND 3 OR d_dom BETWEEN 25 AND 28) AND hd_vehicle_count > 0
  AND hd_buy_potential IN ('>10000', 'Unknown') AND d_year IN (1999, 2000, 2001) AND s_state = 'TN'
GROUP BY ss_ticket_number, ss_customer_sk
--- step large
SELECT c_last_name, c_first_name, ss_ticket_number, cnt
FROM {tickets} JOIN {customer} ON ss_customer_sk = c_customer_sk
WHERE cnt BETWEEN 4 AND 20
--- whole
SELECT c_last_name, c_first_name, ss_ticket_number, cnt
FROM (
  SELECT ss_ticket_number, ss_customer_sk, count(*) AS cnt
  FROM store_sales, date_dim, store, household_demographics
  WHERE ss_sold_date_sk = d_date_sk AND ss_store_sk = s_store_sk AND ss_hdemo_sk = hd_demo_sk
    AND (d_dom BETWEEN 1 AND 3 OR d_dom BETWEEN 25 AND 28) AND hd_vehicle_count > 0
    AND hd_buy_potential IN ('>10000', 'Unknown') AND d_year IN (1999, 2000, 2001) AND s_state = 'TN'
  GROUP BY ss_ticket_number, ss_customer_sk
), customer
WHERE ss_customer_sk = c_customer_sk AND cnt BETWEEN 4 AND 20
