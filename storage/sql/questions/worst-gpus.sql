-- Which GPUs of a job were most unusual, and in which metrics?
-- :job key of the job
-- :limit = 10 how many
SELECT rank, node, gpu, sum(ticks) AS all_ticks, sum(unusual_ticks) AS unusual,
    round(sum(mean_score * ticks) / all_ticks, 3) AS mean_score, round(max(worst_score), 3) AS worst,
    arraySlice(arrayDistinct(arrayFlatten(groupArray(metrics))), 1, 3) AS metrics
FROM v_gpu_scores
WHERE job = {job:String}
GROUP BY rank, node, gpu
ORDER BY unusual DESC, mean_score DESC, rank
LIMIT {limit:UInt32}
