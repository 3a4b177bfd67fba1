"""NVLink 5 XIDs (144 to 150): what unit, sub-code and error status together mean.

After the decoding rules of NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors). Most units have one bit of the
status for each error; the link controller (NETIR) tells the reason of a lost link as a sub-code, bits 20 to 25 of the
first word.
"""

from typing import NamedTuple


class Outcome(NamedTuple):
    """What one error means. `side`: HW, SW, FW, or both."""

    fatal: bool
    action: str
    then: str
    side: str


class Unit(NamedTuple):
    """One reporting unit. `key` says what tells its errors apart: one bit of the status each, the whole status, or the
    sub-code (with status 0). Bits and statuses come with sub-code 0."""

    name: str
    code: int
    key: str
    outcomes: dict[int, Outcome]


_CORRECTED = Outcome(False, "IGNORE", "IGNORE", "HW")
_COUNTED = Outcome(False, "IGNORE", "CONTACT_SUPPORT", "HW")
_MISUSE = Outcome(False, "IGNORE", "CONTACT_SUPPORT", "SW")
_MIXED = Outcome(False, "IGNORE", "CONTACT_SUPPORT", "HW/SW")
_LOST = Outcome(True, "RESET_GPU", "CONTACT_SUPPORT", "HW")
_ENDED = Outcome(False, "XID_154_EVAL", "CONTACT_SUPPORT", "SW")
_ENDED_BY_LINK = Outcome(False, "XID_154_EVAL", "CHECK_NVLINK_FAILURE_FLOW", "SW")
_ENDED_HERE = Outcome(False, "XID_154_EVAL", "IGNORE", "HW/SW")
_SIGNAL_WARNING = Outcome(False, "IGNORE", "INVESTIGATE_LINK_SI_AND_CABLES", "HW")
_BROKEN = Outcome(True, "RESET_GPU", "CONTACT_SUPPORT", "HW/SW")
_SYMPATHETIC = Outcome(True, "RESET_GPU", "SYMPATHETIC_REPORT_SOLO", "HW/SW")
_PEER = Outcome(True, "RESET_GPU", "INVESTIGATE_PEER_DEVICE", "HW/SW")

_TOP = 0x80000000

_TLW_PIPE = {1: _CORRECTED, 2: _COUNTED, 4: _LOST, _TOP: _MISUSE}

_LINK_DOWN = {
    0: _SYMPATHETIC,
    1: Outcome(True, "RESET_GPU", "REPORT_ISSUE (if seen >1 per day)", "HW/SW"),
    2: Outcome(True, "RESET_GPU", "INVESTIGATE_LINK_SI", "HW/SW"),
    4: Outcome(True, "RESET_GPU", "INVESTIGATE_LINK_SI", "HW"),
    10: Outcome(True, "RESET_GPU", "INVESTIGATE_LINK_SI", "HW"),
    15: Outcome(True, "RESET_GPU", "INVESTIGATE_SW_USER", "SW"),
    16: Outcome(True, "RESET_GPU", "INVESTIGATE_SW_USER_LINK_SI", "SW"),
    17: Outcome(True, "RESET_GPU", "INVESTIGATE_SW_USER", "SW"),
    18: Outcome(True, "RESET_GPU", "INVESTIGATE_SW_USER_LINK_SI", "SW"),
    21: _PEER,
    22: Outcome(True, "RESET_GPU", "INVESTIGATE_SW_USER", "SW"),
    32: _PEER,
    33: _PEER,
    34: _PEER,
    35: _PEER._replace(side="HW"),
    36: _PEER,
    37: _PEER,
    38: Outcome(True, "IGNORE", "INVESTIGATE_SW/USER", "HW/SW"),
    40: Outcome(True, "IGNORE", "INVESTIGATE_HOST", "SW"),
    42: Outcome(True, "RESET_GPU", "INVESTIGATE_LINK_SI_AND_CABLES", "HW"),
    43: Outcome(True, "RESET_GPU", "INVESTIGATE_LINK_SI_AND_CABLES", "HW"),
}

_REMAP = (
    dict.fromkeys((1, 2), _ENDED)
    | dict.fromkeys((4, 8, 0x10, 0x20), _ENDED_BY_LINK)
    | dict.fromkeys((0x40, 0x80), _LOST)
    | dict.fromkeys((0x100, 0x200), _CORRECTED)
    | {_TOP: _MISUSE}
)

_TRACK = {1: _LOST, 2: _CORRECTED, 4: _ENDED_HERE, 8: _ENDED_HERE, 0x10: _LOST, 0x20: _LOST, _TOP: _MISUSE}

_SAW = {1: _COUNTED, 2: _LOST, 4: _CORRECTED, 8: _COUNTED, 0x10: _LOST, 0x20: _CORRECTED}

_TAGS = {1: _CORRECTED, 2: _LOST, 0x10000: _CORRECTED, 0x20000: _LOST, 0x100000: _LOST, _TOP: _MISUSE}

_DIAGNOSED = {1: _BROKEN, 3: Outcome(False, "IGNORE", "IGNORE", "NA"), 4: _BROKEN, 5: _BROKEN, 7: _BROKEN}

UNITS: tuple[Unit, ...] = (
    Unit("SAW_MVB", 144, "bit", _SAW),
    Unit("RLW_CTRL", 145, "bit", {_TOP: _MISUSE}),
    Unit("RLW_REMAP", 145, "bit", _REMAP),
    Unit("RLW_RSPCOL", 145, "bit", {1: _CORRECTED, 2: _LOST, _TOP: _MISUSE}),
    Unit("RLW_RXPIPE", 145, "bit", {1: _MISUSE, 2: _MISUSE, 4: _MISUSE, 8: _MIXED, _TOP: _MISUSE}),
    Unit("RLW_SRC_TRACK", 145, "bit", _TRACK),
    Unit("RLW_TAGSTATE", 145, "bit", _TAGS),
    Unit("TLW_CTRL", 146, "bit", _TLW_PIPE),
    Unit("TLW_RX/TLW_RX_PIPE0", 146, "bit", _TLW_PIPE),
    Unit("TLW_RX/TLW_RX_PIPE1", 146, "bit", _TLW_PIPE),
    Unit("TLW_TX/TLW_TX_PIPE0", 146, "bit", _TLW_PIPE),
    Unit("TLW_TX/TLW_TX_PIPE1", 146, "bit", _TLW_PIPE),
    Unit("TREX", 147, "bit", {1: _MISUSE, _TOP: _MISUSE}),
    Unit("NVLPW_CTRL/NVLPW", 148, "bit", {_TOP: _MISUSE}),
    Unit("NETIR/NETIR_INT", 149, "status", {0: _SYMPATHETIC}),
    Unit("NETIR_BER_EVENT", 149, "status", dict.fromkeys(range(4), _SIGNAL_WARNING)),
    Unit("NETIR_LINK_EVT/NETIR_LINK_DOWN", 149, "sub_code", _LINK_DOWN),
    Unit("NETIR_MFDE_EVENT", 149, "status", _DIAGNOSED),
    Unit("MSE_WATCHDOG", 150, "status", {0: Outcome(True, "RESET_GPU", "CONTACT_SUPPORT", "FW")}),
)

_BY_NAME: dict[tuple[int, str], Unit] = {
    (unit.code, name): unit for unit in reversed(UNITS) for name in (*unit.name.split("/"), unit.name)
}

SUB_CODE_SHIFT, SUB_CODE_MASK = 20, 0x3F


def sub_code(intrinfo: int) -> int:
    """Bits 20 to 25 of the first word.

    >>> sub_code(0x025525C6)
    37
    """
    return intrinfo >> SUB_CODE_SHIFT & SUB_CODE_MASK


def unit(code: int, name: str) -> Unit | None:
    """The unit that a line names, in full or by one part of its name; None for one that is newer than this table."""
    return _BY_NAME.get((code, name))


def outcome(found: Unit, intrinfo: int, status: int, fatal: bool | None) -> Outcome | None:
    """What the errors in `status` mean, the worst of them; None for a combination that is not in the table.

    `fatal` is the line's own word (None where it was cut off): an outcome that contradicts it belongs to another error.
    """
    sub = sub_code(intrinfo)
    if found.key == "sub_code":
        hits = [found.outcomes[sub]] if sub in found.outcomes and status == 0 else []
    elif sub != 0:
        hits = []
    elif found.key == "status":
        hits = [found.outcomes[status]] if status in found.outcomes else []
    else:
        hits = [hit for bit, hit in found.outcomes.items() if status & bit]
    agreeing = [hit for hit in hits if fatal is None or hit.fatal == fatal]
    return max(agreeing, key=lambda hit: (hit.fatal, hit.action != "IGNORE", hit.then != "IGNORE"), default=None)
