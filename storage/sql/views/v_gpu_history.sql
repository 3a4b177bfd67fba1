-- Where each GPU was, and with which firmware: one row for each spell in which none of it changed.
SELECT cluster, gpu, serial, product, node, rack, tray, slot, pci, vbios, driver, from_at, seen_at,
    if(leadInFrame(from_at, 1, from_at) OVER later > from_at, leadInFrame(from_at) OVER later, NULL) AS until_at
FROM
(
    SELECT cluster, gpu, any(serial) AS serial, any(product) AS product, any(node) AS node, any(rack) AS rack,
        any(tray) AS tray, any(slot) AS slot, any(pci) AS pci, any(vbios) AS vbios, any(driver) AS driver,
        min(ts) AS from_at, max(ts) AS seen_at
    FROM
    (
        SELECT *, sum(what != before) OVER (PARTITION BY cluster, gpu ORDER BY ts, node, run_id, seq) AS spell
        FROM
        (
            SELECT g.*, i.rack AS rack, i.tray AS tray, i.driver AS driver,
                cityHash64(serial, node, rack, ifNull(toString(tray), ''), slot, pci, vbios, driver) AS what,
                lagInFrame(what) OVER (PARTITION BY cluster, gpu ORDER BY ts, node, run_id, seq) AS before
            FROM (SELECT * FROM inventory_gpus FINAL) AS g
            INNER JOIN (SELECT * FROM inventory FINAL) AS i ON i.cluster = g.cluster AND i.node = g.node
                AND i.run_id = g.run_id AND i.seq = g.seq
        )
    )
    GROUP BY cluster, gpu, spell
)
WINDOW later AS (PARTITION BY cluster, gpu ORDER BY from_at ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)
