"""Bit error rates of an NVLink: after correction, and of symbols that correction could not mend.

Limits are those of DCGM's health check of NVLinks (DCGM 4.6: effective rate above 1e-12, symbol rate worse than 15e-238
on Blackwell; a link that has seen no error says 1.5e-254). A rate is over the link's whole life, so that one bad minute
shows in it for days: the symbol rate counts only while the symbol errors themselves still rise.
"""

import math

from detectors.episode import Rule
from detectors.node.link_base import OFTEN, TWICE, LinkRule, Links, Mask, grown, read

BAD_BER_LOG10 = -12.0
BAD_SYMBOL_BER_LOG10 = math.log10(15e-238)


def _effective(links: Links) -> Mask:
    bad: Mask = read(links, "effective_ber_log10") > BAD_BER_LOG10
    return bad


def _symbols(links: Links) -> Mask:
    bad: Mask = (read(links, "symbol_ber_log10") > BAD_SYMBOL_BER_LOG10) & grown(links, ("symbol_error_count",))
    return bad


BER = LinkRule(
    Rule("link_ber", "hardware", TWICE), 0.8, "an NVLink's bit error rate is bad", ("effective_ber_log10",), _effective
)

SYMBOL_BER = LinkRule(
    Rule("link_symbol_ber", "hardware", OFTEN), 0.6, "an NVLink goes on losing symbols",
    ("symbol_ber_log10", "symbol_error_count"), _symbols,
)  # fmt: skip
