"""GPUs and NVLinks as a dcgm-exporter tells them, where nobody wants a second reader of the driver.

The exporter answers with its last reading, however old, and without a time: a scrape that is the same to the byte has
nothing new, and one that stays the same is an exporter that has stopped. Run it with an interval of one second
(`--collect-interval 1000`): detection needs what happens within a step.
"""

import math
from collections.abc import Callable, Mapping

from collectors.base import CollectorError, Reading, add_missing, event
from collectors.digits import whole
from collectors.gpu.dcgm_fields import GPU_FIELDS, LINK_FIELDS, DcgmField, link_of, scale_of
from collectors.gpu.nvlink import FLOOR_LOG10
from collectors.gpu.plausible import drop_impossible
from collectors.gpu.printed import printed
from collectors.pci import pci_address
from collectors.prometheus_text import Sample, Scrape, parse
from collectors.rates import Rates, Value
from collectors.table import table
from runtime.clock import Clock
from schemas.event import Event
from schemas.frame import Gpu
from schemas.inventory import GpuDescription
from schemas.metrics import names
from schemas.xid import xid

STALE_S = 150.0
"""Five of the exporter's default intervals without one changed digit: power and temperature never stand that still."""

LOST_AFTER = 3
"""New scrapes in a row without a GPU that others have: an exporter that has just started may not list all at once."""

OF_AN_INSTANCE = ("memory_used_mib", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio")
"""What belongs to a MIG instance; the rest of its lines repeats the whole GPU's."""

NOT_OF_A_PARENT = ("gpu_utilization_pct", "memory_utilization_pct")

XID = "DCGM_FI_DEV_XID_ERRORS"
MOST_XID = 1_000_000
"""As in the kernel log: a code of more than six digits is none."""

Row = dict[str, Value]


class DcgmCollector:
    """Fills `gpu` and `nvlink` like the collector of the driver. `fetch` gives a scrape, or raises CollectorError.

    `known` are GPUs of an earlier process, missed where no scrape has them: gpu_lost, and gpu_back when one has. One
    whose place another GPU has taken is forgotten. `xids` are those of the last scrapes, until somebody takes them
    (DcgmXids).
    """

    name = "gpu"
    interval_s = 1.0

    def __init__(self, fetch: Callable[[], str], clock: Clock, known: tuple[Gpu, ...] = ()) -> None:
        self._fetch, self._clock = fetch, clock
        self._rates = Rates()
        self._last = ""
        self._new_at_s = clock.monotonic()
        self._known = {gpu.uuid: GpuDescription(uuid=gpu.uuid, pci=gpu.pci, slot=gpu.slot) for gpu in known}
        self._gpus = known
        self._without: dict[str, int] = {}
        """Of each GPU that the newest scrape lacks: how many in a row did."""
        self._xid_of: dict[str, int] = {}
        self.xids: list[Event] = []
        self.driver = ""

    def open(self) -> None:
        """Nothing to open: each scrape stands alone."""

    def collect(self, tick_ms: int) -> Reading:
        """One scrape; missing{not_new} where the exporter has not read anew since the last one."""
        text, now = self._fetch(), self._clock.monotonic()
        if text == self._last:
            nothing = Reading(gpus=self._gpus, missing={"not_new": max(1, len(self._gpus))})
            if now - self._new_at_s > STALE_S:
                words = f"dcgm-exporter repeats the same readings for {now - self._new_at_s:.0f} s"
                raise CollectorError("stalled", words, "collector_stalled", nothing)
            return nothing
        scrape = parse(text)
        rows, links = self._rows(scrape, now)
        if not rows:
            raise CollectorError("no_metrics", "dcgm-exporter answers without one field of a GPU")
        self._last, self._new_at_s = text, now
        return self._reading(scrape, rows, links)

    def processes(self) -> Mapping[str, tuple[int, ...]]:
        """The exporter does not tell."""
        return {}

    def descriptions(self) -> tuple[GpuDescription, ...]:
        return tuple(self._known.values())

    def _rows(self, scrape: Scrape, now: float) -> tuple[dict[Gpu, Row], dict[str, Row]]:
        """Rows by GPU (MIG instances by their GPU's UUID and instance id, as the exporter names them) and by link."""
        told: dict[tuple[Gpu, str, str], list[Sample]] = {}
        gpus: dict[str, Gpu] = {}
        for sample in scrape.samples:
            if (uuid := sample.labels.get("UUID") or sample.labels.get("uuid", "")) and sample.name.startswith("DCGM_"):
                # One GPU, whatever further lines of this scrape say of its place.
                gpus[uuid] = card = gpus.get(uuid) or self._gpu(uuid, sample.labels)
                name, link = link_of(sample.name, dict(sample.labels))
                field = LINK_FIELDS.get(name) if link else GPU_FIELDS.get(name)
                if field is None:
                    continue
                part = sample.labels.get("GPU_I_ID", "")
                gpu = card
                if part and field.column in OF_AN_INSTANCE:
                    gpu = Gpu(uuid=f"{uuid}/gi{part}", pci=card.pci, slot=card.slot, parent=uuid)
                elif part and field.column in NOT_OF_A_PARENT:
                    continue
                told.setdefault((gpu, link, field.column), []).append(sample._replace(name=name))
        rows: dict[Gpu, Row] = {}
        links: dict[str, Row] = {}
        for (gpu, link, column), samples in told.items():
            row = links.setdefault(f"{gpu.uuid}/{link}", {}) if link else rows.setdefault(gpu, {})
            row[column] = self._value((gpu.uuid, link, column), samples, bool(link), scrape.help, now)
        return rows, links

    def _value(
        self, key: tuple[str, str, str], samples: list[Sample], of_link: bool, said: Mapping[str, str], now: float
    ) -> Value:
        """One column of one row, from the field that is preferred, or from all that add up to it."""
        fields = LINK_FIELDS if of_link else GPU_FIELDS
        by_name = {sample.name: sample for sample in samples}
        used = [name for name in fields if name in by_name]
        field = fields[used[0]]
        used = used if field.add else used[:1]
        values = [printed(by_name[name].value) for name in used]
        if (reason := next((value for value in values if isinstance(value, str)), None)) is not None:
            return reason
        total = math.fsum(float(value) for value in values)
        if field.rate:
            counts = [_count(by_name[name].value, float(value)) for name, value in zip(used, values, strict=True)]
            rate = self._rates.rate(key, counts, now, tuple(used))
            return rate if isinstance(rate, str) else rate * scale_of(field, said.get(used[0], ""))
        return _shaped(field, total)

    def _reading(self, scrape: Scrape, rows: dict[Gpu, Row], links: dict[str, Row]) -> Reading:
        drafts = self._missed({gpu.uuid: gpu for gpu in rows})
        for gpu in self._gpus:
            if (count := self._without.get(gpu.uuid, 0)) > 0:
                rows[gpu] = dict.fromkeys(names("gpu"), "lost" if count >= LOST_AFTER else "not_exported")
        rows = dict(sorted(rows.items(), key=lambda item: (item[0].slot, item[0].uuid)))
        self._gpus = tuple(rows)
        for row in rows.values():
            drop_impossible(row)
        fast = names("gpu", every_s=1)
        slow = [name for name in names("gpu") if name not in fast and any(name in row for row in rows.values())]
        columns = (*fast, *slow)
        filled = [{name: row.get(name, "not_exported") for name in columns} for row in rows.values()]
        matrix, missing = table("gpu", [gpu.uuid for gpu in rows], columns, filled)
        sections = {"gpu": matrix}
        if links:
            had = tuple(name for name in names("nvlink") if any(name in row for row in links.values()))
            each = [{name: row.get(name, "not_exported") for name in had} for row in links.values()]
            sections["nvlink"], without = table("nvlink", list(links), had, each)
            missing = add_missing([missing, without])
        if scrape.unread:
            missing = add_missing([missing, {"unreadable": scrape.unread}])
        self._note_xids(scrape)
        return Reading(sections, self._gpus, missing, tuple(drafts))

    def _missed(self, here: Mapping[str, Gpu]) -> list[Event]:
        """Count the scrapes that lack a GPU (or an instance) had before; what is said of whole ones."""
        before, self._without = self._without, {}
        places = {gpu.pci for gpu in here.values() if gpu.pci and not gpu.parent}
        drafts = []
        for gpu in self._gpus:
            count = before.get(gpu.uuid, 0)
            if gpu.uuid in here:
                if count >= LOST_AFTER and not gpu.parent:
                    text = "dcgm-exporter has the GPU again"
                    drafts.append(event("gpu_back", gpu=gpu.uuid, pci=here[gpu.uuid].pci, text=text))
            elif gpu.pci in places and not gpu.parent:  # another one is in its place: it was taken out, not lost
                self._known.pop(gpu.uuid, None)
            elif not gpu.parent or count + 1 < LOST_AFTER:  # an instance that is gone was made anew otherwise
                self._without[gpu.uuid] = count + 1
                if count + 1 == LOST_AFTER and not gpu.parent:
                    text = "dcgm-exporter no longer has the GPU, and still has others"
                    drafts.append(event("gpu_lost", severity="critical", gpu=gpu.uuid, pci=gpu.pci, text=text))
        return drafts

    def _note_xids(self, scrape: Scrape) -> None:
        """The gauge keeps the last XID for ever: only a change is news, and what it held at first is old."""
        for sample in scrape.samples:
            value = printed(sample.value)
            uuid = sample.labels.get("UUID", "")
            if sample.name != XID or isinstance(value, str) or uuid not in self._known or value >= MOST_XID:
                continue
            code, before = int(value), self._xid_of.get(uuid)
            self._xid_of[uuid] = code
            if before is not None and code != before and code > 0:
                self.xids.append(_xid(code, self._known[uuid]))

    def _gpu(self, uuid: str, labels: Mapping[str, str]) -> Gpu:
        self.driver = labels.get("DCGM_FI_DRIVER_VERSION", self.driver)
        known = self._known.get(uuid) or GpuDescription(uuid=uuid)
        pci = pci_address(labels.get("pci_bus_id", "")) or known.pci
        slot = whole(labels.get("gpu", "")[:6])
        slot = known.slot if slot is None else slot
        name, serial = labels.get("modelName") or known.name, labels.get("DCGM_FI_DEV_SERIAL") or known.serial
        if uuid not in self._known or (known.pci, known.slot, known.name, known.serial) != (pci, slot, name, serial):
            self._known[uuid] = GpuDescription(uuid=uuid, pci=pci, slot=slot, name=name, serial=serial)
        return Gpu(uuid=uuid, pci=pci, slot=slot)


class DcgmXids:
    """The XIDs of the scrapes, for whoever merges them with the kernel log's."""

    name = "xids"
    interval_s = 1.0

    def __init__(self, gpus: DcgmCollector) -> None:
        self._gpus = gpus

    def collect(self, tick_ms: int) -> Reading:
        drafts, self._gpus.xids = tuple(self._gpus.xids), []
        return Reading(drafts=drafts)


def _xid(code: int, gpu: GpuDescription) -> Event:
    """The code alone: the exporter tells no more."""
    facts = xid(code)
    detail = {"source": "dcgm", "cause": facts.cause, "action": facts.action}
    text = f"XID {code} told by dcgm-exporter{facts.name and f': {facts.name}'}"
    return event("xid", severity=facts.severity, code=code, gpu=gpu.uuid, pci=gpu.pci, text=text, detail=detail)


def _count(text: str, value: float) -> int:
    """A counter in full width where it is printed so; `value` is what was read of it."""
    number = whole(text)
    return round(value) if number is None else number


def _shaped(field: DcgmField, value: float) -> Value:
    if field.column.endswith("_log10"):
        return max(FLOOR_LOG10, math.log10(value)) if value > 0 else FLOOR_LOG10
    if field.column.endswith("_ratio") and 1.0 < value <= 1.01:  # the counters' rounding
        return 1.0
    return value * field.scale
