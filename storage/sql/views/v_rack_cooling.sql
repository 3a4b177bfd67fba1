-- Coolant of each loop beside the power and heat of its rack's GPUs, a minute.
SELECT l.cluster AS cluster, l.rack AS rack, l.loop AS loop, l.ts AS ts, l.supply_c AS supply_c,
    l.return_c AS return_c, l.return_c - l.supply_c AS rise_c, l.flow_lpm AS flow_lpm, l.heat_w AS heat_w,
    g.gpu_power_w AS gpu_power_w, g.hottest_c AS hottest_c
FROM loop_1m AS l FINAL
LEFT JOIN
(
    SELECT cluster, rack, ts, sum(power_w) AS gpu_power_w, max(temperature_c_max) AS hottest_c
    FROM gpu_1m FINAL
    GROUP BY cluster, rack, ts
) AS g ON g.cluster = l.cluster AND g.rack = l.rack AND g.ts = l.ts
