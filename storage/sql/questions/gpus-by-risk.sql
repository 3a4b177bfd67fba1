-- Which GPUs have the most signs against them? (six signs, each counted once)
-- :days = 30 how many days back
-- :at = now back from when (2026-11-30 12:00:00, UTC)
-- :limit = 10 how many
SELECT s.serial AS serial, g.node AS node, g.gpu AS gpu,
    row_remap + uncorrectable + critical_xid + culprit + nvlink_errors + unusual AS signs,
    row_remap, uncorrectable, critical_xid, culprit, nvlink_errors, unusual
FROM
(
    SELECT cluster, gpu, argMax(node, ts) AS node,
        max(ifNotFinite(remap_pending_max, 0) > 0 OR ifNotFinite(remap_failed_max, 0) > 0) AS row_remap,
        max(ifNotFinite(ecc_dbe_count_max, 0)) > min(ifNotFinite(ecc_dbe_count_min, 0)) AS uncorrectable,
        max(ifNotFinite(nvlink_error_count_max, 0)) > min(ifNotFinite(nvlink_error_count_min, 0))
            AS nvlink_errors
    FROM gpu_1h FINAL
    WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')}
    GROUP BY cluster, gpu
) AS g
LEFT JOIN (SELECT cluster, gpu, max(serial) AS serial FROM inventory_gpus GROUP BY cluster, gpu) AS s
    ON s.cluster = g.cluster AND s.gpu = g.gpu
LEFT JOIN (SELECT cluster, gpu, 1 AS critical_xid FROM v_xids
    WHERE severity = 'critical' AND ts > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} GROUP BY cluster, gpu) AS x
    ON x.cluster = g.cluster AND x.gpu = g.gpu
LEFT JOIN (SELECT cluster, culprit_gpu AS gpu, 1 AS culprit FROM v_culprits
    WHERE cause IN ('gpu_degraded', 'memory_bandwidth', 'gpu_memory_error', 'gpu_lost', 'pcie_degraded', 'nvlink_fault', 'gpu_stuck') AND onset_at > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32}) AND onset_at <= {at:DateTime64(3, 'UTC')}
    GROUP BY cluster, gpu) AS c ON c.cluster = g.cluster AND c.gpu = g.gpu
LEFT JOIN (SELECT cluster, gpu, sum(unusual_ticks) > 0.1 * sum(ticks) AS unusual FROM v_gpu_scores
    WHERE minute > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32}) AND minute <= {at:DateTime64(3, 'UTC')} GROUP BY cluster, gpu) AS u
    ON u.cluster = g.cluster AND u.gpu = g.gpu
ORDER BY signs DESC, g.cluster, g.node, g.gpu
LIMIT {limit:UInt32}
