-- What happened to a job and to everything it ran on, in order?
-- :job key of the job
WITH spells AS (SELECT cluster, node, min(ts) AS begins, max(ts) + 60 AS ends FROM gpu_1m FINAL
    WHERE job = {job:String} GROUP BY cluster, node)
SELECT at, what, node, text FROM
(
    SELECT begins AS at, 'joined' AS what, node, 'first sample with the job' AS text FROM spells
    UNION ALL
    SELECT ends, 'left', node, 'last sample with the job' FROM spells
    UNION ALL
    SELECT e.ts, if(e.code IS NULL, e.kind, concat(e.kind, ' ', toString(e.code))), e.node, e.text
    FROM (SELECT * FROM events FINAL) AS e
    INNER JOIN spells AS s ON s.cluster = e.cluster AND s.node = e.node
    WHERE e.ts >= s.begins AND e.ts <= s.ends
    UNION ALL
    SELECT onset_at, concat('incident ', cause), culprit_node, summary FROM v_culprits
    WHERE job = {job:String} OR (cluster, culprit_node) IN (SELECT cluster, node FROM spells)
    UNION ALL
    SELECT assumeNotNull(resolved_at), concat('resolved ', cause), culprit_node, summary FROM v_culprits
    WHERE resolved_at IS NOT NULL
        AND (job = {job:String} OR (cluster, culprit_node) IN (SELECT cluster, node FROM spells))
)
ORDER BY at, what, node
