-- Which GPUs, by serial number, keep coming back with errors, wherever they sit? (the last 30 days beside all of them)
-- :days = 90 how many days back
-- :at = now back from when (2026-11-30 12:00:00, UTC)
-- :limit = 10 how many
SELECT serial, argMax(node, day) AS last_node, uniqExact(node) AS nodes, uniqExact(day) AS bad_days,
    sumIf(xids, late) AS xids_30d, sum(xids) AS all_xids,
    sumIf(incidents, late) AS incidents_30d, sum(incidents) AS all_incidents,
    sumIf(remaps, late) AS remaps_30d, sum(remaps) AS all_remaps,
    length(groupUniqArrayArrayIf(jobs, late)) AS jobs_slowed_30d, length(groupUniqArrayArray(jobs)) AS all_jobs_slowed
FROM
(
    SELECT *, day > toDate({at:DateTime64(3, 'UTC')}) - 30 AS late
    FROM v_gpu_days
    WHERE day > toDate({at:DateTime64(3, 'UTC')}) - toIntervalDay({days:UInt32})
        AND day <= toDate({at:DateTime64(3, 'UTC')})
)
GROUP BY cluster, serial
ORDER BY bad_days DESC, all_incidents DESC, all_xids DESC, all_remaps DESC, serial
LIMIT {limit:UInt32}
