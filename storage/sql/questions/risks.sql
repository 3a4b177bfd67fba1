-- Which parts drift towards a failure, and when do they reach the limit?
-- :at = now as of when (2026-11-30 12:00:00, UTC)
SELECT since, risk, serial, node, rack, cause, summary
FROM v_risks
WHERE state != 'close' AND since <= {at:DateTime64(3, 'UTC')} AND heard_at > {at:DateTime64(3, 'UTC')} - toIntervalDay(1)
ORDER BY since, serial, risk
