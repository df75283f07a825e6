--- Small quantity orders (of all containers of medium size: at this scale a brand has few boxes)
--- step small_lines
SELECT l_extendedprice
FROM {lineitem} JOIN {part} ON p_partkey = l_partkey
WHERE p_brand = 'Brand#23' AND p_container LIKE 'MED%'
  AND CAST(l_quantity AS DOUBLE) < (
    SELECT 0.2 * avg(CAST(l_quantity AS DOUBLE)) FROM {lineitem} WHERE l_partkey = p_partkey
  )
--- step total one subtask
SELECT CAST(sum(l_extendedprice) AS DOUBLE) / 7.0 AS avg_yearly FROM {small_lines}
--- whole
SELECT CAST(sum(l_extendedprice) AS DOUBLE) / 7.0 AS avg_yearly
FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container LIKE 'MED%'
  AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)
