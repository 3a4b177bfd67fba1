CREATE OR REPLACE VIEW v_risks AS
SELECT f.cluster AS cluster, f.id AS id, substring(f.detector, 6) AS risk, f.state AS state, f.cause AS cause,
    s.serial AS serial, f.gpu AS gpu, f.node AS node, f.rack AS rack, f.onset_at AS since, f.ts AS heard_at,
    f.summary AS summary, f.`evidence.text` AS evidence
FROM
(
    SELECT * FROM findings FINAL
    WHERE startsWith(detector, 'risk.')
    ORDER BY revision DESC
    LIMIT 1 BY cluster, id
) AS f
LEFT JOIN (SELECT cluster, gpu, max(serial) AS serial FROM inventory_gpus WHERE gpu != '' GROUP BY cluster, gpu) AS s
    ON s.cluster = f.cluster AND s.gpu = f.gpu;

CREATE OR REPLACE VIEW v_gpu_days AS
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
GROUP BY cluster, serial, gpu, day;

