"""GPM, the GPU's own performance monitors (Hopper and later): how busy SMs, tensor cores and memory were.

Two samples more than 100 ms apart give the averages between them; the previous tick's sample is kept. Never asked for
several GPUs at once (gpud reports a crash in the driver).
"""

from typing import Any

from collectors.gpu import nvml
from collectors.gpu.fields import reason_of
from collectors.rates import Value

GPM_METRICS = {
    "sm_active_ratio": nvml.GPM_SM_UTIL,
    "tensor_active_ratio": nvml.GPM_ANY_TENSOR_UTIL,
    "dram_active_ratio": nvml.GPM_DRAM_BW_UTIL,
}
PERCENT = 0.01


class GpmReader:
    """The GPM metrics of one GPU, or of one MIG `instance` (its GPU instance id) of it. Calls may raise the library's
    NVMLError."""

    def __init__(self, library: nvml.NvmlLibrary, handle: nvml.Handle, instance: int | None = None) -> None:
        self._library, self._handle, self._instance = library, handle, instance
        self._supported = bool(library.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
        self._samples: list[Any] = []
        self._primed = False
        self._ask: Any = None
        self._answers: list[Any] = []

    def read(self) -> dict[str, Value]:
        """Averages since the previous call, as ratios, or why there are none."""
        if not self._supported:
            return dict.fromkeys(GPM_METRICS, "unsupported")
        if not self._samples:
            self._samples = [self._library.nvmlGpmSampleAlloc(), self._library.nvmlGpmSampleAlloc()]
        before, now = self._samples
        primed, self._primed = self._primed, False
        if self._instance is None:
            self._library.nvmlGpmSampleGet(self._handle, now)
        else:
            self._library.nvmlGpmMigSampleGet(self._handle, self._instance, now)
        self._samples, self._primed = [now, before], True
        if not primed:
            return dict.fromkeys(GPM_METRICS, "first_reading")
        if self._ask is None:
            self._prepare()
        ask = self._ask
        ask.sample1, ask.sample2 = before, now
        self._library.nvmlGpmMetricsGet(ask)
        return {
            name: _ratio(answer.value) if answer.nvmlReturn == nvml.SUCCESS else reason_of(answer.nvmlReturn)
            for name, answer in zip(GPM_METRICS, self._answers, strict=True)
        }

    def _prepare(self) -> None:
        """The question, made once: it is 16 KiB large. Its answers come in the same place each time."""
        ask = self._ask = self._library.c_nvmlGpmMetricsGet_t()
        ask.version = nvml.GPM_METRICS_GET_VERSION
        ask.numMetrics = len(GPM_METRICS)
        self._answers = [ask.metrics[i] for i in range(len(GPM_METRICS))]
        for answer, metric in zip(self._answers, GPM_METRICS.values(), strict=True):
            answer.metricId = metric

    def close(self) -> None:
        """Give the samples back; harmless twice."""
        samples, self._samples = self._samples, []
        for sample in samples:
            self._library.nvmlGpmSampleFree(sample)


def _ratio(percent: float) -> float:
    """A ratio; up to one per cent above 100 is the counters' rounding, more is left for the range check."""
    return min(percent, 100.0) * PERCENT if percent <= 101.0 else percent * PERCENT
