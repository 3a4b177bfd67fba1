-- On what each rank of each job ran; until_at is the first inventory of its node that does not list it any more.
SELECT m.cluster AS cluster, m.job AS job, m.rank AS rank, m.node AS node, m.gpu AS gpu, h.serial AS serial,
    n.rack AS rack, n.tray AS tray, m.from_at AS from_at, m.seen_at AS seen_at,
    if(later.ts > m.seen_at, later.ts, NULL) AS until_at
FROM
(
    SELECT cluster, job, rank, node, gpu, max(ts) AS seen_at,
        min(if(toUnixTimestamp64Milli(since_at) = 0, ts, since_at)) AS from_at
    FROM inventory_memberships FINAL
    GROUP BY cluster, job, rank, node, gpu
) AS m
LEFT JOIN (SELECT cluster, gpu, max(serial) AS serial FROM inventory_gpus GROUP BY cluster, gpu) AS h
    ON h.cluster = m.cluster AND h.gpu = m.gpu
LEFT JOIN (SELECT cluster, node, argMax(rack, ts) AS rack, argMax(tray, ts) AS tray FROM inventory
    GROUP BY cluster, node) AS n ON n.cluster = m.cluster AND n.node = m.node
ASOF LEFT JOIN (SELECT cluster, node, ts FROM inventory FINAL) AS later
    ON later.cluster = m.cluster AND later.node = m.node AND later.ts > m.seen_at
