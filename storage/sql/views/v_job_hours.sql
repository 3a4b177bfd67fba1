-- GPUs and GPU-hours of each job, by the minutes in which a GPU had a sample with it.
SELECT cluster, job, uniqExact(gpu) AS gpus, count() / 60 AS gpu_hours, min(ts) AS from_at, max(ts) AS until_at
FROM gpu_1m FINAL
WHERE job != ''
GROUP BY cluster, job
