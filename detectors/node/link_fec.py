"""How near an NVLink is to errors that its correction cannot mend: codewords in which many symbols were wrong.

With independent errors the share of codewords with n wrong symbols goes with the n-th power of the error rate before
correction: at five symbols a rate 2.5 times as high shows a hundred times (2.5^5 = 98) as often. So a link is compared
with the other links of its node, and no absolute number is needed. One a second, of some 4e7 codewords a second at
200 Gb/s a lane, is where independent errors come from a rate before correction of about 1.5e-5, a sixteenth of the
2.4e-4 that the usual code (RS(544,514)) is made for: below it nothing is near.

When it is wrong: errors that come in bursts, on all lanes of one make alike, are seen only on the worst link; a node
whose links are all ill is not seen at all (`link_ber` is for those).
"""

import numpy as np

from detectors.condition import Float32
from detectors.episode import Rule
from detectors.node.link_base import COLUMNS, FEC, OFTEN, LinkRule, Links, Mask

LEAST_PER_S = 1.0
TIMES_OTHERS = 100.0
LEAST_LINKS = 4
"""Fewer links are no company: the median would be one of two."""


def _near(links: Links) -> Mask:
    values = links.raw[:, [COLUMNS.index(name) for name in FEC]]
    told = ~np.isnan(values).all(axis=1)
    if np.count_nonzero(told) < LEAST_LINKS:
        return np.zeros(len(links.rows), dtype=np.bool_)
    often: Float32 = np.where(told, np.nansum(values, axis=1), np.float32(np.nan))
    near: Mask = often > max(LEAST_PER_S, TIMES_OTHERS * float(np.nanmedian(often)))
    return near


FEC_MARGIN = LinkRule(
    Rule("link_fec", "hardware", OFTEN), 0.5, "an NVLink corrects far more than the others", FEC, _near
)
