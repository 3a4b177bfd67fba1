"""The text of an NVLink 5 XID (144 to 150): unit, the line's own word, link, sub-code and error status.

    NETIR_LINK_EVT  Fatal   XC0 i0 Link 15 (0x0215e5c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)

Spaces may be doubled, words may be missing at the end of a line that was cut.
"""

import re
from typing import NamedTuple

from schemas import nvlink5
from schemas.event import Severity

CODES = range(144, 151)

_TEXT = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_/]*)\s+(?P<word>Fatal|Non-?fatal)\b"
    r"(?:\s+XC(?P<xc>\d{1,9}))?(?:\s+i(?P<instance>\d{1,9}))?(?:\s+Link\s+(?P<link>-?\d{1,9}))?(?:\s*\((?P<words>[0-9a-fA-Fx\s]*))?",
    re.IGNORECASE,
)
_WORD = re.compile(r"0x[0-9a-fA-F]{8}(?![0-9a-fA-F])")


class Nvlink5(NamedTuple):
    """What such a text says and means; `action` is "" where the combination is not in NVIDIA's table."""

    severity: Severity
    action: str
    detail: dict[str, str]


def decode(code: int, text: str) -> Nvlink5 | None:
    """None where the text is of another form.

    >>> decode(149, "NETIR_BER_EVENT Nonfatal XC0 i0 Link 01 (0x00082226 0x00000001)").detail["then"]
    'INVESTIGATE_LINK_SI_AND_CABLES'
    """
    match = _TEXT.match(text.lstrip())
    if match is None:
        return None
    fatal = not match["word"].lower().startswith("non")
    detail = {"unit": match["unit"], "word": "fatal" if fatal else "nonfatal"}
    for name in ("xc", "instance", "link"):
        if match[name] is not None:
            detail[name] = str(int(match[name]))
    words = [int(word, 16) for word in _WORD.findall(match["words"] or "")]
    action = ""
    if words:
        detail |= {"intrinfo": f"0x{words[0]:08x}", "sub_code": str(nvlink5.sub_code(words[0]))}
    unit = nvlink5.unit(code, match["unit"])
    if unit is not None:
        # Two pipes share a name; the line says which only by its own name.
        detail["name"] = unit.name if "PIPE" not in unit.name or "PIPE" in match["unit"] else match["unit"]
    if len(words) > 1:
        detail["error_status"] = f"0x{words[1]:08x}"
        found = None if unit is None else nvlink5.outcome(unit, words[0], words[1], fatal)
        if found is not None:
            action = found.action
            detail |= {"then": found.then, "side": found.side}
    return Nvlink5("critical" if fatal else "warning", action, detail)
