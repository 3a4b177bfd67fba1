-- Where was a GPU, and with which firmware, over time?
-- :gpu = '' UUID or serial number; empty: all
SELECT serial, gpu, node, rack, tray, slot, vbios, driver, from_at, until_at FROM v_gpu_history
WHERE {gpu:String} IN ('', gpu, serial)
ORDER BY serial, gpu, from_at
