"""Views for people: the questions that everybody asks first.

`v_incidents`: the newest revision of each incident. `v_fleet_now`: the last sample of every GPU of which one was
stored in the last ten minutes; last by the agent's own numbering, because a clock may step back.
"""

VIEWS = {
    "v_incidents": "SELECT * FROM incidents FINAL\nORDER BY revision DESC\nLIMIT 1 BY cluster, id",
    "v_fleet_now": (
        "SELECT * FROM gpu_samples\n"
        "WHERE stored_at > now() - INTERVAL 10 MINUTE\n"
        "ORDER BY run_id DESC, seq DESC\n"
        "LIMIT 1 BY cluster, node, gpu"
    ),
}
