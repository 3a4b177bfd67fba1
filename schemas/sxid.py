"""NVIDIA's SXIDs (errors of NVSwitches): what each means, how bad it is and what to do.

Classes after the Fabric Manager's user guide (DU-09883, appendix D); names and actions are ours. `fatal` stops the
whole fabric of the machine, `potential` stops it or the partition of one GPU, depending on the port, and the line
itself says which; `nonfatal` does neither. Fatal ones reach the GPUs as XID 74, a stalled link as XID 45.
"""

from typing import Literal, NamedTuple

from schemas.event import Severity

SxidClass = Literal["fatal", "potential", "nonfatal"]


class Sxid(NamedTuple):
    """One code."""

    kind: SxidClass
    action: str
    name: str


_CORRECTED = (
    11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065, 19068, 19071,
    24001, 24002, 24003,
)  # fmt: skip

_POTENTIAL = {
    10001: "host privilege error", 10002: "host privilege timeout", 11001: "invalid command at ingress",
    11009: "invalid virtual channel at ingress", 11013: "double-bit error in an ingress header",
    11018: "double-bit error in ingress routing", 11019: "double-bit error in ingress lanes",
    11020: "parity error in ingress control", 12001: "crossbar overflow at egress", 12002: "packet routing at egress",
    12022: "double-bit error at egress input", 12024: "double-bit error at egress output",
    12025: "credit overflow at egress", 12026: "wrong request id at egress", 12027: "wrong response id at egress",
    12030: "parity error in egress control", 12031: "credit parity error at egress", 12032: "flit type at egress",
    14017: "tag state timed out", 15001: "route buffer over- or underflow", 15006: "route done over- or underflow",
    15009: "double-bit error in the route table", 15010: "route parity error", 15012: "double-bit error in routing",
    15013: "route credit parity error", 19047: "double-bit error in a header", 19048: "double-bit error in data",
    19054: "double-bit error in header memory", 19056: "double-bit error in data memory 0",
    19058: "double-bit error in data memory 1", 19060: "double-bit error in request header memory",
    19061: "double-bit error in request data memory", 19063: "double-bit error in response header memory",
    19064: "double-bit error in response data memory", 19066: "double-bit error in common header memory",
    19067: "double-bit error in common data memory", 19069: "double-bit error in response 1 header memory",
    19070: "double-bit error in response 1 data memory", 20034: "link training fault",
    24004: "double-bit error in source tracking 0", 24005: "double-bit error in source tracking data 0",
    24006: "double-bit error in source tracking 1", 24007: "source tracking timed out",
}  # fmt: skip

_FATAL = {
    10003: "unhandled host interrupt", 12020: "sequence id error at egress", 22003: "link controller halted",
    22011: "link controller failed", 23001: "source buffer overflow", 23002: "source buffer underflow",
    23003: "destination credit overflow", 23004: "destination credit underflow", 23005: "packet burst error",
    23006: "packet sticky error", 23007: "bubbles at ingress", 23008: "invalid packet destination",
    23009: "packet parity error", 23010: "source buffer overflow", 23011: "source buffer underflow",
    23012: "destination credit overflow", 23013: "destination credit underflow", 23014: "packet burst error",
    23015: "packet sticky error", 23016: "bubbles at ingress", 23017: "credit parity error",
}  # fmt: skip

SXIDS: dict[int, Sxid] = (
    {code: Sxid("nonfatal", "IGNORE", "corrected single-bit error") for code in _CORRECTED}
    | {code: Sxid("potential", "RESET_FABRIC", name) for code, name in _POTENTIAL.items()}
    | {code: Sxid("fatal", "RESET_FABRIC", name) for code, name in _FATAL.items()}
    | {
        10004: Sxid("potential", "CHECK_COOLING", "the switch is too hot"),
        10005: Sxid("potential", "CHECK_COOLING", "the switch is no longer too hot"),
        11004: Sxid("nonfatal", "RESTART_VM", "access to a partition that is not the GPU's"),
        12028: Sxid("nonfatal", "RESTART_VM", "privilege error of a request at egress"),
        19084: Sxid("nonfatal", "RESET_FABRIC", "heartbeat timed out"),
        20001: Sxid("nonfatal", "IGNORE", "packets sent again"),
        20009: Sxid("nonfatal", "INVESTIGATE_LINK_SI", "errors in short intervals"),
        20012: Sxid("nonfatal", "CHECK_MECHANICALS", "connection broken or not consistent"),
        22012: Sxid("potential", "CHECK_MECHANICALS", "link controller: link not available"),
        22013: Sxid("nonfatal", "IGNORE", "link controller: link request"),
    }
)
"""All codes that the guide describes."""

UNKNOWN = Sxid("potential", "CONTACT_SUPPORT", "")

THERMAL_END = 10005


def sxid_severity(code: int, fatal: bool | None) -> Severity:
    """How bad it is; `fatal` is the word of the line itself (None where it has none), which counts more than the class.

    >>> sxid_severity(20034, True), sxid_severity(12028, False), sxid_severity(22003, None)
    ('critical', 'warning', 'critical')
    """
    known = SXIDS.get(code, UNKNOWN)
    if fatal is None:
        fatal = known.kind == "fatal"
    if code == THERMAL_END or (not fatal and known.action == "IGNORE"):
        return "info"
    return "critical" if fatal else "warning"
