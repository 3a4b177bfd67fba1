"""The product's own detectors in a worker: a lost GPU and a leak become incidents."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from stream_stage import START_MS, Stage, frame

from runtime.errors import UserError
from schemas import Event, Features, Incident, RackFrame
from schemas.frame import Gpu
from schemas.matrix import Matrix
from schemas.metrics import names
from streams.plan import detection, load_model


def test_a_lost_gpu_and_a_leak_become_incidents(embedded_stage: Stage) -> None:
    stage, model = embedded_stage, load_model("")
    stage.worker(detection(model))
    readings = Matrix.of(["GPU-1"], names("gpu"), np.full((1, len(names("gpu"))), np.nan))
    wet = Matrix.of(["floor"], ["leak_detected"], [[1.0]])
    for tick in range(4):
        node = frame(stage, "r01-t01", tick)
        rack = RackFrame(
            cluster=stage.cluster,
            ts_ms=node.ts_ms,
            node="r02-t01",
            run_id=1,
            seq=tick,
            rack="r02",
            sections={"leak": wet},
        )
        stage.feed(replace(node, gpus=(Gpu(uuid="GPU-1"),), sections={"gpu": readings}), rack)
    lost = Event(
        cluster=stage.cluster,
        ts_ms=START_MS + 3500,
        node="r01-t01",
        run_id=1,
        seq=100,
        kind="xid",
        code=79,
        severity="critical",
        gpu="GPU-1",
    )
    stage.feed(lost)
    incidents = stage.until(Incident, lambda seen: len({incident.id for incident in seen}) >= 2)
    assert {incident.cause for incident in incidents} == {"gpu_lost", "leak"}
    assert all(incident.culprits for incident in incidents)
    features = stage.until(Features, lambda seen: len(seen) >= 4)
    assert {record.model for record in features} == {model.name}


def test_a_file_that_is_no_model_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"pickle")
    with pytest.raises(UserError, match=r"forest model .*: not a Lockstep forest model.*--model-path"):
        load_model(str(path))
    with pytest.raises(UserError, match=r"forest model /nowhere/model: .*; give another"):
        load_model("/nowhere/model")


def test_the_model_in_a_file_is_the_one_used(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(load_model("").to_bytes())
    assert load_model(str(path)).name == load_model("").name
