-- Parts that drift towards a failure: the newest word on each risk, with the serial number of a GPU. A risk that is over
-- has the state close; one that was not heard for a day has lost its node.
SELECT f.cluster AS cluster, f.id AS id, substring(f.detector, 6) AS risk, f.state AS state, f.cause AS cause,
    s.serial AS serial, f.gpu AS gpu, f.node AS node, f.rack AS rack, f.onset_at AS since, f.ts AS heard_at,
    f.summary AS summary, f.`evidence.text` AS evidence
FROM
(
    SELECT * FROM findings FINAL
    WHERE startsWith(detector, 'risk.')
    ORDER BY revision DESC
    LIMIT 1 BY cluster, id
) AS f
LEFT JOIN (SELECT cluster, gpu, max(serial) AS serial FROM inventory_gpus WHERE gpu != '' GROUP BY cluster, gpu) AS s
    ON s.cluster = f.cluster AND s.gpu = f.gpu
