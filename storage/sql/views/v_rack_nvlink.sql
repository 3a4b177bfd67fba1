-- NVLink traffic and new errors of each rack, a minute.
SELECT cluster, rack, ts, uniqExact(gpu) AS gpus, sum(nvlink_tx_bytes_per_s) / 1e9 AS tx_gb_per_s,
    sum(nvlink_rx_bytes_per_s) / 1e9 AS rx_gb_per_s,
    sumIf(nvlink_error_count_max - nvlink_error_count_min, isFinite(nvlink_error_count_max)) AS new_errors
FROM gpu_1m FINAL
GROUP BY cluster, rack, ts
