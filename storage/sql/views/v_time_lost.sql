-- GPU-hours that incidents cost their jobs. Ranks of a job wait for each other, so a slowdown of s costs all of them
-- 1 - 1/s of its time, and a hang all of it. What is still open counts until its newest revision. Incidents that
-- overlap count each.
SELECT i.cluster AS cluster, i.job AS job, i.cause AS cause, count() AS incidents,
    sum(dateDiff('millisecond', i.onset_at, ifNull(i.resolved_at, i.ts)) / 3600000 * j.gpus *
        multiIf(i.kind = 'hang', 1, i.slowdown > 1, 1 - 1 / i.slowdown, 0)) AS lost_gpu_hours,
    any(j.gpu_hours) AS job_gpu_hours
FROM v_incidents AS i
INNER JOIN v_job_hours AS j ON j.cluster = i.cluster AND j.job = i.job
GROUP BY cluster, job, cause
