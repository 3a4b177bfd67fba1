-- The last sample of every GPU of which one was stored in the last ten minutes; last by the agent's own
-- numbering, because a clock may step back.
SELECT * FROM gpu_samples
WHERE stored_at > now() - INTERVAL 10 MINUTE
ORDER BY run_id DESC, seq DESC
LIMIT 1 BY cluster, node, gpu
