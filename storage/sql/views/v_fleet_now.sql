-- The last sample of every GPU of which one was stored in the last ten minutes; last by the agent's own
-- numbering, because a clock may step back.
SELECT * FROM gpu_samples
WHERE stored_at > now() - INTERVAL 10 MINUTE AND (cluster, node, gpu, run_id, seq) IN
(
    SELECT cluster, node, gpu, tupleElement(max((run_id, seq)) AS last, 1), tupleElement(last, 2)
    FROM gpu_samples
    WHERE stored_at > now() - INTERVAL 10 MINUTE
    GROUP BY cluster, node, gpu
)
LIMIT 1 BY cluster, node, gpu
