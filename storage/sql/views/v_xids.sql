-- XIDs and SXIDs with the serial number of their GPU: by UUID where the event has it, else by node and PCI address,
-- of which only domain:bus:device are compared, because kernel and NVML write different zeros.
SELECT e.cluster AS cluster, e.ts AS ts, e.node AS node, e.kind AS kind, e.code AS code,
    e.severity AS severity, if(e.gpu != '', e.gpu, p.gpu) AS gpu,
    if(u.serial != '', u.serial, p.serial) AS serial, e.job AS job, e.rank AS rank, e.text AS text
FROM (SELECT *, replaceRegexpOne(lower(pci), '^0*([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}).*$', '\\1') AS place FROM events FINAL WHERE kind IN ('xid', 'sxid')) AS e
LEFT JOIN (SELECT cluster, gpu, max(serial) AS serial FROM inventory_gpus GROUP BY cluster, gpu) AS u
    ON u.cluster = e.cluster AND u.gpu = e.gpu
LEFT JOIN (SELECT cluster, node, replaceRegexpOne(lower(pci), '^0*([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}).*$', '\\1') AS place, argMax(gpu, ts) AS gpu,
    argMax(serial, ts) AS serial FROM inventory_gpus WHERE pci != '' GROUP BY cluster, node, place) AS p
    ON p.cluster = e.cluster AND p.node = e.node AND p.place = e.place
