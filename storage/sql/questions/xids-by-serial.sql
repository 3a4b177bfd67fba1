-- Which GPUs, by serial number, reported which XIDs, and where did they sit then?
-- :serial = '' one serial number; empty: all
SELECT serial, kind, code, count() AS times, min(ts) AS first_at, max(ts) AS last_at,
    arraySort(groupUniqArray(node)) AS nodes, anyLast(text) AS last_text
FROM v_xids
WHERE {serial:String} = '' OR serial = {serial:String}
GROUP BY cluster, serial, kind, code
ORDER BY times DESC, serial, code
