-- One row for each culprit of each incident.
SELECT cluster, id, state, kind, cause, confidence, severity, job, victims, slowdown, onset_at, detected_at,
    resolved_at, ts, summary, culprit_scope, culprit_rank, culprit_node, culprit_gpu, culprit_link,
    culprit_rack
FROM v_incidents
LEFT ARRAY JOIN culprits.scope AS culprit_scope, culprits.rank AS culprit_rank,
    culprits.node AS culprit_node, culprits.gpu AS culprit_gpu, culprits.link AS culprit_link,
    culprits.rack AS culprit_rack
