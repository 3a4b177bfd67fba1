-- How many GPU-hours did each cause cost a job, and what share was good?
-- :job = '' key of the job; empty: all
SELECT job, cause, incidents, round(lost_gpu_hours, 2) AS lost_gpu_hours,
    round(job_gpu_hours, 2) AS job_gpu_hours,
    round(1 - sum(lost_gpu_hours) OVER (PARTITION BY cluster, job) / job_gpu_hours, 3) AS goodput
FROM v_time_lost
WHERE ({job:String} = '' OR job = {job:String})
ORDER BY job, lost_gpu_hours DESC, cause
