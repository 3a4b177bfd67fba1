-- What is every GPU doing now?
SELECT node, slot, gpu, job, rank, round(power_w) AS power_w, temperature_c, sm_clock_mhz,
    gpu_utilization_pct AS busy_pct, dateDiff('second', stored_at, now64(3)) < 60 AS fresh
FROM v_fleet_now
ORDER BY cluster, node, slot
