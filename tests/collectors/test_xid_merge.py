"""XIDs from two sources: each once, and neither lost."""

from types import SimpleNamespace
from typing import Any

import pytest
from fake_clock import FakeClock

from collectors.base import Collector, CollectorError, NoData, Reading, event
from collectors.gpu.nvml_events import NvmlEvents, draft
from collectors.kernel.xid_merge import MergedCollector, XidMerge
from schemas.event import Event
from schemas.frame import Gpu

GPU = Gpu(uuid="GPU-x", pci="0000:04:00.0")


def line(code: int = 79, pci: str = "0000:04:00.0", kind: str = "xid", **detail: str) -> Event:
    return event(kind, code=code, pci=pci, kmsg_seq=1, boot_id="b", detail=detail)


def sources(events: list[Event]) -> list[str]:
    return [e.detail.get("source", "kernel") for e in events]


def test_two_lines_and_one_word_of_the_library_are_two_events() -> None:
    merge = XidMerge()
    assert sources(merge.merge([line(), line()], [draft(79, GPU)], 100.0)) == ["kernel", "kernel"]
    assert merge.merge([], [], 110.0) == []


def test_the_library_may_be_first_or_last() -> None:
    merge = XidMerge()
    assert merge.merge([], [draft(79, GPU)], 100.0) == []
    assert sources(merge.merge([line()], [], 101.0)) == ["kernel"]
    assert sources(merge.merge([line(48)], [], 200.0)) == ["kernel"]
    assert merge.merge([], [draft(48, GPU)], 201.0) == []
    assert merge.merge([], [], 210.0) == []


def test_what_only_the_library_tells_goes_out_after_a_moment() -> None:
    merge = XidMerge()
    assert merge.merge([line(79)], [draft(62, GPU)], 100.0) == [line(79)]
    assert merge.merge([], [], 101.0) == []
    (alone,) = merge.merge([], [], 103.0)
    assert (alone.code, alone.gpu, alone.severity, alone.detail["action"]) == (62, "GPU-x", "critical", "RESET_GPU")


def test_old_lines_floods_and_other_gpus_cancel_what_they_should() -> None:
    merge = XidMerge()
    merge.merge([line(historic="yes")], [draft(79, GPU)], 100.0)
    assert len(merge.merge([], [], 103.0)) == 1
    merge.merge([line(31), line(31, folded="400")], [draft(31, GPU)] * 40, 200.0)
    assert merge.merge([], [draft(31, GPU)] * 40, 201.0) == []
    assert merge.merge([], [], 210.0) == []
    merge.merge([line(pci="0000:05:00.0")], [draft(79, GPU)], 300.0)
    assert len(merge.merge([], [], 303.0)) == 1
    merge.merge([line(kind="gpu_lost")], [draft(79, GPU)], 400.0)
    assert merge.merge([], [], 410.0) == []


class Source:
    name, interval_s = "kernel", 1.0

    def __init__(self, *answers: Reading | Exception) -> None:
        self.answers = list(answers)

    def collect(self, tick_ms: int) -> Reading:
        answer = self.answers.pop(0) if self.answers else Reading()
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_kernel_log_that_may_not_be_read_keeps_the_librarys_events() -> None:
    clock = FakeClock()
    kernel: Collector = Source(*[CollectorError("no_permission", "not yours")] * 4)
    merged = MergedCollector(kernel, Source(Reading(drafts=(draft(79, GPU),))), clock)
    said: list[Any] = []
    for _ in range(4):
        with pytest.raises(CollectorError) as raised:
            merged.collect(clock.now_ms())
        assert raised.value.partial is not None
        said += raised.value.partial.drafts
        clock.advance(1)
    assert [(e.code, e.ts_ms > 0) for e in said] == [(79, True)]


def test_a_library_that_stalls_does_not_touch_the_kernel_log() -> None:
    kernel = Source(Reading(drafts=(line(),)))
    merged = MergedCollector(kernel, Source(CollectorError("stalled", "hangs")), FakeClock())
    assert len(merged.collect(1000).drafts) == 1


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        self.value = value


class Library:
    """The event functions, on GPUs that are named by numbers."""

    NVMLError = NvmlError

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.registered: list[int] = []
        self.down = False

    def nvmlEventSetCreate(self) -> object:  # noqa: N802
        return object()

    def nvmlEventSetFree(self, event_set: object) -> None:  # noqa: N802
        raise NvmlError(1)

    def nvmlDeviceGetSupportedEventTypes(self, handle: int) -> int:  # noqa: N802
        return 0x8

    def nvmlDeviceRegisterEvents(self, handle: int, types: int, event_set: object) -> None:  # noqa: N802
        self.registered.append(handle)

    def nvmlEventSetWait_v2(self, event_set: object, timeout_ms: int) -> Any:  # noqa: N802
        if self.down:
            raise NvmlError(1)
        if not self.waiting:
            raise NvmlError(10)
        return self.waiting.pop(0)


def told(code: int, handle: int = 7, kind: int = 0x8) -> SimpleNamespace:
    return SimpleNamespace(device=handle, eventType=kind, eventData=code)


def test_the_library_is_asked_without_waiting_and_registered_anew_after_a_reload() -> None:
    library, handles = Library(), {"GPU-x": (7, GPU)}
    events = NvmlEvents(library, lambda: handles)
    assert events.collect(0).drafts == ()
    library.waiting = [told(79), told(999), told(13, handle=8), told(48, kind=0x1), told(79)]
    assert [draft.code for draft in events.collect(1000).drafts if isinstance(draft, Event)] == [79, 79]
    library.down = True
    with pytest.raises(NoData):
        events.collect(2000)
    library.down = False
    handles["GPU-x"] = (9, GPU)
    library.waiting = [told(31, handle=9)]
    assert len(events.collect(3000).drafts) == 1
    assert library.registered == [7, 9]


def test_no_gpu_that_tells_events_is_no_fault() -> None:
    with pytest.raises(NoData):
        NvmlEvents(Library(), dict).collect(0)
