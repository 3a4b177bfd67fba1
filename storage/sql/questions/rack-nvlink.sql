-- How much goes over each rack's NVLinks, and do errors grow?
-- :rack = '' one rack; empty: all
SELECT ts, rack, gpus, round(tx_gb_per_s, 1) AS tx_gb_per_s, round(rx_gb_per_s, 1) AS rx_gb_per_s, new_errors
FROM v_rack_nvlink
WHERE {rack:String} = '' OR rack = {rack:String}
ORDER BY ts, rack
