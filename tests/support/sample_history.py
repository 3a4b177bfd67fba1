"""Four minutes of a small fleet with one slow GPU: what the examples of docs/sql.md are asked of."""

from collections.abc import Iterator

from schemas import (
    CollectiveFrame,
    Control,
    Event,
    Features,
    Finding,
    Incident,
    Inventory,
    NodeFrame,
    RackFrame,
    Record,
)
from schemas.collective import Communicator, Operation
from schemas.features import GpuFeatures
from schemas.finding import Evidence, Subject
from schemas.frame import Gpu
from schemas.inventory import GpuDescription, JobMembership
from schemas.matrix import Matrix

BEGAN = 1_793_534_400_000  # 2026-11-01 12:00:00
JOB = "slurm:eos/71/0"
NODES = ("r01-t01", "r01-t02", "r02-t01", "r02-t02")
SECONDS = 240
SLOW_RANK, SLOW_FROM = 3, 90
INCIDENT = "i-3f21c0"
_METRICS = (
    "power_w", "temperature_c", "sm_clock_mhz", "gpu_utilization_pct", "nvlink_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s", "nvlink_error_count", "ecc_dbe_count", "remap_pending",
)  # fmt: skip


def history() -> Iterator[Record]:
    """Everything, in no particular order."""
    for place, node in enumerate(NODES):
        yield from _inventories(place, node)
        for second in range(SECONDS):
            yield _frame(place, node, second)
            if second % 5 == 0:
                yield _features(place, node, second)
            if second % 10 == 0:
                yield _collectives(place, node, second)
    for rack in ("r01", "r02"):
        for second in range(0, SECONDS, 10):
            yield _rack(rack, second)
    yield from _events()
    yield from _incidents()
    yield _risk()
    yield Control(cluster="eos", ts_ms=BEGAN - 3_600_000, node="*", interval_s=1.0)


def uuid(rank: int) -> str:
    return f"GPU-{rank:08x}"


def _pci(slot: int) -> str:
    return f"0000000{9 - slot}:01:00.0"


def _stamp(node: str, second: int, seq: int) -> dict[str, object]:
    return {"cluster": "eos", "ts_ms": BEGAN + 1000 * second, "node": node, "run_id": 7, "seq": seq}


def _inventories(place: int, node: str) -> Iterator[Inventory]:
    def made(ts_ms: int, seq: int, vbios: str, ranks: bool) -> Inventory:
        gpus = tuple(
            GpuDescription(
                uuid=uuid(2 * place + slot), pci=_pci(slot), slot=slot, serial=f"16500230{2 * place + slot:02}",
                name="GB200", vbios=vbios,
            )
            for slot in range(2)
        )  # fmt: skip
        memberships = tuple(
            JobMembership(job=JOB, rank=2 * place + slot, gpu=uuid(2 * place + slot), pid=4000 + slot, since_ms=ts_ms)
            for slot in range(2)
        )
        return Inventory(
            cluster="eos", ts_ms=ts_ms, node=node, run_id=7, seq=seq, rack=node[:3], tray=int(node[-2:]),
            driver="580.65.06", gpus=gpus, memberships=memberships if ranks else (),
        )  # fmt: skip

    # Node r01-t02 got new firmware nine hours before the job began.
    yield made(BEGAN - 86_400_000, 1, "97.00.82.00.2B", False)
    yield made(BEGAN - 32_400_000, 2, "97.00.88.00.0F" if node == "r01-t02" else "97.00.82.00.2B", False)
    yield made(BEGAN, 3, "97.00.88.00.0F" if node == "r01-t02" else "97.00.82.00.2B", True)
    yield made(BEGAN + 1000 * SECONDS, 4, "97.00.88.00.0F" if node == "r01-t02" else "97.00.82.00.2B", False)


def _slow(rank: int, second: int) -> bool:
    return rank == SLOW_RANK and second >= SLOW_FROM


def _frame(place: int, node: str, second: int) -> NodeFrame:
    ranks = [2 * place, 2 * place + 1]
    rows = [
        [
            640.0 if _slow(rank, second) else 900.0 + second % 7,
            71.0 if _slow(rank, second) else 58.0 + rank % 3,
            1400.0 if _slow(rank, second) else 1965.0,
            99.0,
            3.0e11,
            3.0e11,
            float(max(0, second - SLOW_FROM) // 30) if rank == SLOW_RANK else 0.0,
            0.0,
            float(_slow(rank, second)),
        ]
        for rank in ranks
    ]
    gpus = tuple(Gpu(uuid=uuid(rank), pci=_pci(slot), slot=slot, job=JOB, rank=rank) for slot, rank in enumerate(ranks))
    return NodeFrame(
        **_stamp(node, second, second + 10),
        rack=node[:3],
        tray=int(node[-2:]),
        gpus=gpus,
        sections={"gpu": Matrix.of([uuid(rank) for rank in ranks], _METRICS, rows)},
    )


def _features(place: int, node: str, second: int) -> Features:
    gpus = tuple(
        GpuFeatures(
            uuid=uuid(rank), rank=rank, score=0.84 if _slow(rank, second) else 0.48 + rank / 1000,
            p_value=0.0001 if _slow(rank, second) else 0.4,
            strongest=("sm_clock_mhz", "power_w") if _slow(rank, second) else (),
        )
        for rank in (2 * place, 2 * place + 1)
    )  # fmt: skip
    return Features.of(**_stamp(node, second, second + 10), job=JOB, model="fleet-1", rack=node[:3], gpus=gpus)


def _collectives(place: int, node: str, second: int) -> CollectiveFrame:
    ranks = (2 * place, 2 * place + 1)
    members = tuple(
        Communicator(id="8f03aa1", name="DP", size=8, nodes=4, rank=rank, comm_rank=rank, gpu=uuid(rank))
        for rank in ranks
    )
    late = 1.4 if second >= SLOW_FROM else 1.0
    # The slow rank is last to come: it waits for nobody, its peers wait for it.
    operations = tuple(
        Operation(
            member, "AllReduce", second // 10, 1 << 30, 45_000.0 * (1.0 if rank == SLOW_RANK else late),
            BEGAN + 1000 * second,
        )
        for member, rank in enumerate(ranks)
    )  # fmt: skip
    return CollectiveFrame(**_stamp(node, second, second + 10), job=JOB, communicators=members, operations=operations)


def _rack(rack: str, second: int) -> RackFrame:
    loop = Matrix.of(["loop-1"], ["supply_c", "return_c", "flow_lpm", "heat_w"], [[30.0, 39.5, 128.0, 84_000.0]])
    return RackFrame(**_stamp(f"{rack}-t01", second, second + 10), rack=rack, sections={"loop": loop})


def _events() -> Iterator[Event]:
    for number, second in enumerate((95, 140)):
        yield Event(
            **_stamp("r01-t02", second, 900 + number), kind="xid", severity="critical", code=63, boot_id="4f0c",
            kmsg_seq=9001 + number, pci="0000:08:01:00".replace("0000:08", "0008"),
            text="NVRM: Xid (PCI:0008:01:00): 63, row remapping event",
        )  # fmt: skip
    yield Event(**_stamp("r01-t02", -1800, 890), kind="agent_started", text="agent started")


def _risk() -> Finding:
    moved = f"row remaps of GPU {uuid(5)} 3 -> 6 in 5 days"
    return Finding(
        cluster="eos", ts_ms=BEGAN + 200_000, id="f-77a0c2", revision=140, detector="risk.row_remaps",
        state="heartbeat", kind="degradation", cause="gpu_memory_error", onset_ms=BEGAN - 40_000_000, confidence=0.7,
        subject=Subject(scope="gpu", node="r02-t01", gpu=uuid(5)),
        summary=f"{moved}; 512 is the limit, at this pace in 3.5 years",
        evidence=(Evidence(text=f"{moved}, at 3 times; 512 is the limit: at this pace in 3.5 years"),),
    )  # fmt: skip


def _incidents() -> Iterator[Incident]:
    subject = Subject(scope="rank", job=JOB, rank=SLOW_RANK, node="r01-t02", gpu=uuid(SLOW_RANK), rack="r01")
    summary = "rank 3 (GPU-00000003 on r01-t02) computes 1.4 times slower; 7 ranks wait for it"
    for revision, (change, state, second) in enumerate(
        (("open", "suspect", 99), ("update", "confirmed", 120), ("resolve", "resolved", 239))
    ):
        yield Incident(
            cluster="eos", ts_ms=BEGAN + 1000 * second, id=INCIDENT, revision=revision, change=change, state=state,
            kind="straggler", scope="rank", cause="gpu_degraded", confidence=0.93, severity="critical", job=JOB,
            culprits=(subject,), victims=7, slowdown=1.4, onset_ms=BEGAN + 1000 * SLOW_FROM,
            detected_ms=BEGAN + 99_000, resolved_ms=BEGAN + 239_000 if change == "resolve" else None,
            summary=summary, evidence=(Evidence(text="its peers wait 18 ms for it in each collective"),),
            action="Drain the node.",
        )  # fmt: skip
