-- A rank's own bus bandwidth, a minute: what the bus carried for its sampled collectives, over their time. Waiting
-- for peers is in that time.
SELECT cluster, job, communicator_name, communicator, function, rank, node, gpu, ts, samples,
    bus_bytes_sum / nullIf(exec_time_us_sum, 0) / 1000 AS own_gb_per_s
FROM operations_1m FINAL
