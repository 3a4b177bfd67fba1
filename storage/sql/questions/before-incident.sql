-- What changed in the hours before an incident, on what it is about?
-- :incident id of the incident
-- :hours = 24 how many hours before it
WITH
    (SELECT (any(cluster), any(onset_at), arrayDistinct(arrayFlatten(groupArray(culprits.node))), any(job))
        FROM v_incidents WHERE id = {incident:String}) AS it,
    it.2 - toIntervalHour({hours:UInt32}) AS since
SELECT at, what, node, text FROM
(
    SELECT ts AS at, if(code IS NULL, kind, concat(kind, ' ', toString(code))) AS what, node, text
    FROM events FINAL WHERE cluster = it.1 AND has(it.3, node) AND ts > since AND ts <= it.2
    UNION ALL
    SELECT from_at, 'hardware', node, concat('GPU ', serial, ' in slot ', toString(slot), ', VBIOS ', vbios,
        ', driver ', driver) FROM v_gpu_history
    WHERE cluster = it.1 AND has(it.3, node) AND from_at > since AND from_at <= it.2
    UNION ALL
    SELECT from_at, 'job', node, concat('rank ', toString(rank), ' of ', job, ' began') FROM v_job_history
    WHERE cluster = it.1 AND has(it.3, node) AND from_at > since AND from_at <= it.2
    UNION ALL
    SELECT ts, 'agent told', node, concat('every ', toString(interval_s), ' s') FROM control FINAL
    WHERE cluster = it.1 AND (node = '*' OR has(it.3, node)) AND ts > since AND ts <= it.2
    UNION ALL
    SELECT onset_at, concat('incident ', cause), culprit_node, summary FROM v_culprits
    WHERE cluster = it.1 AND id != {incident:String} AND onset_at > since AND onset_at <= it.2
        AND (has(it.3, culprit_node) OR (it.4 != '' AND job = it.4))
)
ORDER BY at, what, node, text
