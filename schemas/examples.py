"""One small, complete record of every class: for the wire page, golden files and tests of other rooms."""

from schemas.alert import AlertState, Control, Model, Silence
from schemas.collective import Block, CollectiveFrame, Communicator, Operation, Progress
from schemas.event import Event
from schemas.features import Baselines, Features, GpuFeatures
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import Gpu, NodeFrame, RackFrame
from schemas.health import DeadLetter, Health
from schemas.incident import Incident
from schemas.inventory import GpuDescription, Inventory, JobMembership
from schemas.matrix import Matrix
from schemas.record import Record
from schemas.step import RankStep, StepFrame

_T0 = 1_700_000_000_000
_JOB = "slurm:eos/71/0"
_GPU = "GPU-00000000-0000-0000-0000-000000000007"
_SUBJECT = Subject(scope="rank", job=_JOB, rank=7, node="r01-t02", gpu=_GPU, rack="r01")
_EVIDENCE = Evidence(
    text="power 512 W against 690 W of its own past", metric="power_w", value=512.0, baseline=690.0, unit="W"
)

EXAMPLES: tuple[Record, ...] = (
    NodeFrame(
        cluster="eos",
        ts_ms=_T0,
        node="r01-t02",
        run_id=3,
        seq=41,
        rack="r01",
        tray=2,
        gpus=(Gpu(uuid=_GPU, pci="00000009:01:00.0", slot=1, job=_JOB, rank=7),),
        sections={
            "gpu": Matrix.of([_GPU], ["power_w", "temperature_c"], [[512.0, float("nan")]]),
            "host": Matrix.of(["r01-t02"], ["load_1m"], [[3.5]]),
        },
        missing={"timeout": 1},
    ),
    Event(
        cluster="eos",
        ts_ms=_T0,
        node="r01-t02",
        run_id=3,
        seq=42,
        kind="xid",
        severity="critical",
        code=79,
        gpu=_GPU,
        pci="00000009:01:00.0",
        boot_id="4f0c",
        kmsg_seq=9001,
        text="NVRM: Xid (PCI:0009:01:00): 79, GPU has fallen off the bus.",
    ),
    CollectiveFrame(
        cluster="eos",
        ts_ms=_T0,
        node="r01-t02",
        run_id=3,
        seq=43,
        job=_JOB,
        communicators=(
            Communicator(id="0x2b2c3d4e5f6071", name="DP", size=512, nodes=128, rank=7, comm_rank=7, gpu=_GPU),
        ),
        operations=(Operation(0, "AllReduce", 128, 16_777_216, 2533.0, _T0),),
        blocks=(Block(0, "AllReduce", 24, 3, 15, 8, 20400.0, 2501.0, 2693.0),),
        progress=(Progress(0, "AllReduce", 128, _T0),),
    ),
    StepFrame(
        cluster="eos",
        ts_ms=_T0,
        node="r01-t02",
        run_id=3,
        seq=44,
        job=_JOB,
        steps=(RankStep(rank=7, step=102, step_us=300_000.0, data_us=1600.0, compute_us=66_500.0, end_ms=_T0),),
    ),
    Features.of(
        cluster="eos",
        ts_ms=_T0,
        node="r01-t02",
        run_id=3,
        seq=41,
        job=_JOB,
        model="fleet-1",
        rack="r01",
        gpus=(
            GpuFeatures(
                uuid=_GPU,
                rank=7,
                score=0.71,
                p_value=0.0002,
                strongest=("power_w",),
                z={"power_w": -9.5},
                readings={"power_w": 512.0},
                centres={"power_w": 690.0},
            ),
        ),
    ),
    Baselines(
        cluster="eos",
        ts_ms=_T0,
        node="r01-t02",
        run_id=3,
        seq=41,
        centre=Matrix.of([_GPU], ["power_w"], [[690.0]]),
        spread=Matrix.of([_GPU], ["power_w"], [[6.5]]),
    ),
    RackFrame(
        cluster="eos",
        ts_ms=_T0,
        node="r01-t01",
        run_id=3,
        seq=45,
        rack="r01",
        sections={"loop": Matrix.of(["loop-1"], ["supply_c", "flow_lpm"], [[30.0, 120.0]])},
    ),
    Inventory(
        cluster="eos",
        ts_ms=_T0,
        node="r01-t02",
        run_id=3,
        seq=46,
        rack="r01",
        tray=2,
        gpus=(GpuDescription(uuid=_GPU, pci="00000009:01:00.0", serial="1650023007", name="GB200", slot=1),),
        memberships=(JobMembership(job=_JOB, rank=7, gpu=_GPU, pid=4242),),
    ),
    Finding(
        cluster="eos",
        ts_ms=_T0 + 9000,
        id="f-00000000000000a1",
        revision=0,
        detector="job",
        state="open",
        kind="straggler",
        cause="gpu_degraded",
        subject=_SUBJECT,
        onset_ms=_T0,
        confidence=0.9,
        runner_up="thermal_throttle",
        victims=511,
        slowdown=1.3,
        summary="rank 7 is late in every collective",
        evidence=(_EVIDENCE,),
        onset_step=102,
        detected_step=109,
    ),
    Incident(
        cluster="eos",
        ts_ms=_T0 + 9000,
        id="i-00000000000000b2",
        revision=0,
        change="open",
        state="confirmed",
        kind="straggler",
        scope="rank",
        cause="gpu_degraded",
        confidence=0.9,
        severity="critical",
        job=_JOB,
        culprits=(_SUBJECT,),
        victims=511,
        slowdown=1.3,
        onset_ms=_T0,
        detected_ms=_T0 + 9000,
        summary="rank 7 slows 511 ranks by 30 %",
        evidence=(_EVIDENCE,),
        action="Drain the node.",
        findings=("f-00000000000000a1",),
    ),
    Model(cluster="eos", ts_ms=_T0, name="fleet", model="fleet-1", payload=b"\x00\x01"),
    Control(cluster="eos", ts_ms=_T0, node="*", interval_s=1.0, collectors=("gpu", "host")),
    AlertState(
        cluster="eos",
        ts_ms=_T0,
        receiver="pagerduty",
        incident="i-00000000000000b2",
        revision=0,
        action="trigger",
        status="intent",
        body=b"{}",
    ),
    Silence(
        cluster="eos",
        ts_ms=_T0,
        id="s-00000000000000c3",
        author="mira",
        reason="pump replaced",
        from_ms=_T0,
        until_ms=_T0 + 7_200_000,
        rack="r01",
        cause="coolant_flow",
    ),
    Health(
        cluster="eos",
        ts_ms=_T0,
        process="agent",
        instance="r01-t02",
        run_id=3,
        seq=47,
        counters={"sent": 120.0, "dropped{buffer_full}": 2.0},
        gauges={"lag_s": 0.4},
    ),
    DeadLetter(
        cluster="eos",
        ts_ms=_T0,
        process="writer",
        origin_topic="events",
        origin_partition=1,
        origin_offset=77,
        reason="not_msgpack",
        detail="Input data was truncated",
        payload=b"\xff",
    ),
)
