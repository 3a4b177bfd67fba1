-- On which GPU, node, rack and tray did each rank of a job run, and when?
-- :job key of the job
SELECT rank, node, rack, tray, gpu, serial, from_at, until_at FROM v_job_history
WHERE job = {job:String}
ORDER BY rank, from_at
