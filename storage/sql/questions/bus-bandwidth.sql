-- What bus bandwidth did each rank see, minute by minute, and what was the group's true one?
-- :job key of the job
-- :rank = -1 one rank, or -1 for all
SELECT b.ts AS ts, b.communicator_name AS communicator, b.function AS function, b.rank AS rank, b.node AS node,
    round(b.own_gb_per_s, 1) AS own_gb_per_s, round(g.group_gb_per_s, 1) AS group_gb_per_s
FROM v_bus_bandwidth AS b
LEFT JOIN (SELECT * FROM v_group_bandwidth WHERE job = {job:String}) AS g
    ON g.cluster = b.cluster AND g.communicator = b.communicator AND g.function = b.function AND g.ts = b.ts
WHERE b.job = {job:String} AND ({rank:Int64} < 0 OR b.rank = {rank:Int64})
ORDER BY ts, communicator, function, rank
