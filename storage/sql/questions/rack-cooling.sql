-- How warm does each rack's coolant get, at which flow, and for how much power?
-- :rack = '' one rack; empty: all
SELECT ts, rack, loop, round(supply_c, 1) AS supply_c, round(rise_c, 1) AS rise_c,
    round(flow_lpm, 1) AS flow_lpm, round(heat_w) AS heat_w, round(gpu_power_w) AS gpu_power_w,
    round(hottest_c) AS hottest_c
FROM v_rack_cooling
WHERE {rack:String} = '' OR rack = {rack:String}
ORDER BY ts, rack, loop
