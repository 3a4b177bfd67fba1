-- How unusual each GPU was, a minute: ticks with a p-value below 0.001, which in health is one tick in a thousand.
SELECT cluster, job, rank, node, gpu, toStartOfMinute(ts) AS minute, count() AS ticks,
    countIf(p_value < 0.001) AS unusual_ticks, avg(score) AS mean_score, max(score) AS worst_score,
    topKArray(3)(if(p_value < 0.001, strongest, [])) AS metrics
FROM gpu_scores FINAL
GROUP BY cluster, job, rank, node, gpu, minute
