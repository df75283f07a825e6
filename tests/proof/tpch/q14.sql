--- Promotion effect
--- step lines_of_month
SELECT p_type LIKE 'PROMO%' AS is_promoted, l_extendedprice * (1 - l_discount) AS price
FROM {lineitem} JOIN {part} ON l_partkey = p_partkey
WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'
--- step effect one subtask
SELECT 100.0 * CAST(sum(CASE WHEN is_promoted THEN price ELSE 0 END) AS DOUBLE) / CAST(sum(price) AS DOUBLE)
       AS promo_revenue
FROM {lines_of_month}
--- whole
SELECT 100.0 * CAST(sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) AS DOUBLE)
       / CAST(sum(l_extendedprice * (1 - l_discount)) AS DOUBLE) AS promo_revenue
FROM lineitem, part
WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'
