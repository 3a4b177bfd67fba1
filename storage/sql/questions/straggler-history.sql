-- Who held jobs up, when, for how long and why?
-- :days = 30 how many days back
-- :at = now back from when (2026-11-30 12:00:00, UTC)
SELECT onset_at, round(dateDiff('second', onset_at, ifNull(resolved_at, ts)) / 60, 1) AS minutes, state, job,
    culprit_rank AS rank, culprit_node AS node, culprit_gpu AS gpu, cause, round(slowdown, 2) AS slowdown,
    round(confidence, 2) AS confidence
FROM v_culprits
WHERE kind IN ('straggler', 'slow_link') AND onset_at > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32}) AND onset_at <= {at:DateTime64(3, 'UTC')}
ORDER BY onset_at, culprit_rank
