-- What spoke against each GPU, a day: XIDs that are more than information, incidents it was the culprit of, rows that
-- were remapped, and the jobs it slowed down or stopped. By the serial number where inventory knows it, whatever the
-- node; a GPU without any sign on a day has no row.
SELECT d.cluster AS cluster, if(s.serial != '', s.serial, d.gpu) AS serial, d.gpu AS gpu, d.day AS day,
    anyLast(d.node) AS node, sum(d.xids) AS xids, sum(d.incidents) AS incidents, sum(d.remaps) AS remaps,
    groupUniqArrayArray(d.jobs) AS jobs
FROM
(
    SELECT cluster, gpu, toDate(ts) AS day, anyLast(node) AS node, count() AS xids, 0 AS incidents, 0 AS remaps,
        CAST([], 'Array(String)') AS jobs
    FROM v_xids
    WHERE kind = 'xid' AND severity != 'info' AND gpu != ''
    GROUP BY cluster, gpu, day
    UNION ALL
    SELECT cluster, culprit_gpu, toDate(onset_at) AS day, anyLast(culprit_node), 0, uniqExact(id), 0,
        groupUniqArrayIf(toString(job), job != '' AND kind IN ('straggler', 'slow_link', 'hang'))
    FROM v_culprits
    WHERE culprit_gpu != '' AND kind IN ('hardware', 'straggler', 'slow_link', 'hang')
    GROUP BY cluster, culprit_gpu, day
    UNION ALL
    SELECT cluster, gpu, day, node, 0, 0, toUInt64(greatest(rows - before, 0)), CAST([], 'Array(String)')
    FROM
    (
        SELECT *, lagInFrame(rows, 1, first) OVER (PARTITION BY cluster, gpu ORDER BY day
            ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS before
        FROM
        (
            SELECT cluster, gpu, toDate(ts) AS day, argMax(node, ts) AS node,
                max(ifNotFinite(remapped_uncorrectable_count_max, 0) + ifNotFinite(remapped_correctable_count_max, 0))
                    AS rows,
                min(ifNotFinite(remapped_uncorrectable_count_min, 0) + ifNotFinite(remapped_correctable_count_min, 0))
                    AS first
            FROM gpu_1h FINAL
            GROUP BY cluster, gpu, day
        )
    )
    WHERE rows > before
) AS d
LEFT JOIN (SELECT cluster, gpu, max(serial) AS serial FROM inventory_gpus WHERE gpu != '' GROUP BY cluster, gpu) AS s
    ON s.cluster = d.cluster AND s.gpu = d.gpu
GROUP BY cluster, serial, gpu, day
