"""Frames become features, findings and incidents; what cannot be used is kept and counted and stops nobody."""

from stream_stage import Stage, frame

from schemas import Features, Finding, Incident


def test_frames_become_features_findings_and_incidents(stage: Stage) -> None:
    stage.feed(*(frame(stage, node, tick) for tick in range(5) for node in ("n1", "n2", "n3")))
    stage.worker()
    stage.feed(*(frame(stage, "n2", tick, bad=True) for tick in range(5, 8)))
    stage.feed(*(frame(stage, "n2", tick) for tick in range(8, 10)))
    incidents = stage.until(Incident, lambda seen: len(seen) >= 2)
    assert [incident.change for incident in incidents] == ["open", "resolve"]
    (findings,) = (stage.seen(Finding),)
    assert [(f.state, f.subject.node) for f in findings] == [("open", "n2"), ("close", "n2")]
    features = stage.until(Features, lambda seen: len(seen) >= 20)
    assert len({record.identity for record in features}) == len(features) == 20
