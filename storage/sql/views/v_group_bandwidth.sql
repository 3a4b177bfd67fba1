-- A communicator's true bus bandwidth, a minute: over the shortest time of each collective, which waits for nobody. A
-- collective counts when nine tenths of its ranks (all, up to eight) are there.
SELECT cluster, job, communicator, function, toStartOfMinute(ended) AS ts, count() AS operations,
    sum(bus_bytes) / nullIf(sum(shortest_us), 0) / 1000 AS group_gb_per_s,
    avg(waited_us) AS mean_wait_us
FROM
(
    SELECT cluster, job, communicator, function, sn, min(ts) AS ended, min(exec_time_us) AS shortest_us,
        max(size_bytes * multiIf(function = 'AllReduce', 2 * (communicator_size - 1) / greatest(communicator_size, 1), function IN ('AllGather', 'ReduceScatter', 'AllToAll'), (communicator_size - 1) / greatest(communicator_size, 1), 1)) AS bus_bytes, avg(exec_time_us) - shortest_us AS waited_us,
        uniqExact(rank) AS ranks, max(communicator_size) AS size
    FROM collective_operations FINAL
    GROUP BY cluster, job, communicator, function, sn
    HAVING ranks >= if(size <= 8, size, 0.9 * size)
)
GROUP BY cluster, job, communicator, function, ts
