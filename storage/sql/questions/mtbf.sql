-- How many GPU-hours pass between hardware faults, by product?
-- :days = 30 how many days back
-- :at = now back from when (2026-11-30 12:00:00, UTC)
SELECT product, uniqExact(h.gpu) AS gpus, round(sum(h.hours), 2) AS gpu_hours, sum(f.faults) AS faults,
    if(faults = 0, NULL, round(sum(h.hours) / faults, 2)) AS mtbf_hours
FROM (SELECT cluster, gpu, count() / 60 AS hours FROM gpu_1m FINAL
    WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} GROUP BY cluster, gpu) AS h
LEFT JOIN (SELECT cluster, gpu, max(product) AS product FROM inventory_gpus GROUP BY cluster, gpu) AS p
    ON p.cluster = h.cluster AND p.gpu = h.gpu
LEFT JOIN (SELECT cluster, culprit_gpu AS gpu, uniqExact(id) AS faults FROM v_culprits
    WHERE cause IN ('gpu_degraded', 'memory_bandwidth', 'gpu_memory_error', 'gpu_lost', 'pcie_degraded', 'nvlink_fault', 'gpu_stuck') AND onset_at > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32}) AND onset_at <= {at:DateTime64(3, 'UTC')} GROUP BY cluster, gpu) AS f
    ON f.cluster = h.cluster AND f.gpu = h.gpu
GROUP BY product
ORDER BY product
