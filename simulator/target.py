"""Where a fault sits: the target a person names, and the truth about it."""

from dataclasses import dataclass

import msgspec
import numpy as np

from runtime.errors import UserError
from schemas.causes import Cause, Scope
from simulator.topology import GPUS_PER_TRAY, Indices, Topology


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """What was put in, for comparison with the verdict; None where it does not apply. `fault` "" is a healthy run."""

    fault: str = ""
    rank: int | None = None
    node: str | None = None
    gpu: str | None = None
    rack: str | None = None
    link: str | None = None
    onset_ms: int | None = None


@dataclass(frozen=True)
class Site:
    """The GPUs (indices), ranks, node, rack and slot that a fault acts on; `slot` and `pid` of the first GPU."""

    gpus: Indices
    ranks: tuple[int, ...]
    node: int
    rack: int
    slot: int
    pid: int


def resolve(topology: Topology, fault: Cause, scope: Scope, target: str, onset_ms: int) -> tuple[Site, Truth]:
    """The site and truth of `fault` at `target`; raises UserError where the target is none of this scope.

    `target` may name something finer than the scope (a rank for a node's fault means the rank's node); "" takes a
    rank from the topology's seed.
    """
    if scope in ("job", "cluster"):
        if target:
            raise UserError(f"--target {target}: {fault} meets the whole {scope}; leave --target out")
        return _site(topology, topology.gpu_of_rank), Truth(fault=fault, onset_ms=onset_ms)
    gpu, precision = _find(topology, target)
    if precision == "rank" and scope in ("rank", "link") and gpu not in topology.rank_of_gpu:
        raise UserError(f"--target {target}: no rank of the job runs there; {_wanted(topology, fault, scope)}")
    if _PRECISION.index(precision) > _PRECISION.index("rank" if scope == "link" else scope):
        raise UserError(f"--target {target}: {_wanted(topology, fault, scope)}")
    node, rack = int(topology.node_of_gpu[gpu]), int(topology.rack_of_gpu[gpu])
    truth = Truth(fault=fault, rack=topology.rack_names[rack], onset_ms=onset_ms)
    if scope == "rack":
        return _site(topology, np.flatnonzero(topology.rack_of_gpu == rack)), truth
    truth = msgspec.structs.replace(truth, node=topology.nodes[node])
    if scope == "node":
        return _site(topology, np.flatnonzero(topology.node_of_gpu == node)), truth
    link = topology.ports(node)[gpu % GPUS_PER_TRAY] if scope == "link" else None
    truth = msgspec.structs.replace(truth, rank=topology.rank_of_gpu[gpu], gpu=topology.uuids[gpu], link=link)
    return _site(topology, np.array([gpu])), truth


_PRECISION = ("rank", "node", "rack")


def _find(topology: Topology, target: str) -> tuple[int, str]:
    """The first GPU of what `target` names, and how precise the name is."""
    if not target:
        rank = int(np.random.default_rng([topology.seed, 1]).integers(topology.job_size))
        return int(topology.gpu_of_rank[rank]), "rank"
    if target.isdecimal():
        if len(target) > 9 or int(target) >= topology.job_size:
            raise UserError(f"--target {target}: the job has ranks 0 to {topology.job_size - 1}")
        return int(topology.gpu_of_rank[int(target)]), "rank"
    if target in topology.uuids:
        return topology.uuids.index(target), "rank"
    if target in topology.rack_names:
        return topology.rack_names.index(target) * topology.trays * GPUS_PER_TRAY, "rack"
    name, _, port = target.partition("/")
    if name in topology.nodes:
        node = topology.nodes.index(name)
        slots = [slot for slot, link in enumerate(topology.ports(node)) if target in (link, link.rpartition("/")[0])]
        if slots:
            return node * GPUS_PER_TRAY + slots[0], "rank"
        if not port:
            return node * GPUS_PER_TRAY, "node"
    raise UserError(
        f"--target {target}: nothing of that name; name a rank (0 to {topology.job_size - 1}), a node "
        f"({topology.nodes[0]}), a rack ({topology.rack_names[0]}) or a link ({topology.ports(0)[0]})"
    )


def _wanted(topology: Topology, fault: str, scope: str) -> str:
    example = {"rank": f"a rank (0 to {topology.job_size - 1})", "link": f"a link ({topology.ports(0)[0]}) or a rank"}
    return f"{fault} wants {example.get(scope, f'a {scope}')}"


def _site(topology: Topology, gpus: Indices) -> Site:
    first = int(gpus[0])
    ranks = tuple(topology.rank_of_gpu[int(gpu)] for gpu in gpus if int(gpu) in topology.rank_of_gpu)
    return Site(
        gpus=gpus,
        ranks=ranks,
        node=int(topology.node_of_gpu[first]),
        rack=int(topology.rack_of_gpu[first]),
        slot=first % GPUS_PER_TRAY,
        pid=topology.pid(ranks[0]) if ranks else 0,
    )
