"""Our numbers are NVML's, and its ways of saying "no value" are understood."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from fake_nvml import FakeGpu, FakeNvml

from collectors.gpu import nvml
from collectors.gpu.fields import FIELD_METRICS, LINK_COUNT


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (nvml.SUCCESS, "NVML_SUCCESS"),
        (nvml.UNINITIALIZED, "NVML_ERROR_UNINITIALIZED"),
        (nvml.INVALID_ARGUMENT, "NVML_ERROR_INVALID_ARGUMENT"),
        (nvml.NOT_SUPPORTED, "NVML_ERROR_NOT_SUPPORTED"),
        (nvml.NO_PERMISSION, "NVML_ERROR_NO_PERMISSION"),
        (nvml.NOT_FOUND, "NVML_ERROR_NOT_FOUND"),
        (nvml.DRIVER_NOT_LOADED, "NVML_ERROR_DRIVER_NOT_LOADED"),
        (nvml.TIMEOUT, "NVML_ERROR_TIMEOUT"),
        (nvml.LIBRARY_NOT_FOUND, "NVML_ERROR_LIBRARY_NOT_FOUND"),
        (nvml.FUNCTION_NOT_FOUND, "NVML_ERROR_FUNCTION_NOT_FOUND"),
        (nvml.GPU_IS_LOST, "NVML_ERROR_GPU_IS_LOST"),
        (nvml.RESET_REQUIRED, "NVML_ERROR_RESET_REQUIRED"),
        (nvml.LIB_RM_VERSION_MISMATCH, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"),
        (nvml.NO_DATA, "NVML_ERROR_NO_DATA"),
        (nvml.ARGUMENT_VERSION_MISMATCH, "NVML_ERROR_ARGUMENT_VERSION_MISMATCH"),
        (nvml.DEPRECATED, "NVML_ERROR_DEPRECATED"),
        (nvml.NOT_READY, "NVML_ERROR_NOT_READY"),
        (nvml.GPU_NOT_FOUND, "NVML_ERROR_GPU_NOT_FOUND"),
        (nvml.UNKNOWN, "NVML_ERROR_UNKNOWN"),
        (nvml.TEMPERATURE_GPU, "NVML_TEMPERATURE_GPU"),
        (nvml.CLOCK_SM, "NVML_CLOCK_SM"),
        (nvml.CLOCK_MEM, "NVML_CLOCK_MEM"),
        (nvml.GPM_SM_UTIL, "NVML_GPM_METRIC_SM_UTIL"),
        (nvml.GPM_ANY_TENSOR_UTIL, "NVML_GPM_METRIC_ANY_TENSOR_UTIL"),
        (nvml.GPM_DRAM_BW_UTIL, "NVML_GPM_METRIC_DRAM_BW_UTIL"),
        (nvml.GPM_METRICS_GET_VERSION, "NVML_GPM_METRICS_GET_VERSION"),
        (LINK_COUNT, "NVML_FI_DEV_NVLINK_LINK_COUNT"),
    ],
)
def test_a_number_is_pynvmls_own(ours: int, theirs: str) -> None:
    assert ours == getattr(pynvml, theirs)


FIELD_NAMES = {
    "power_w": ["POWER_INSTANT"],
    "power_average_w": ["TOTAL_ENERGY_CONSUMPTION"],
    "power_limit_w": ["POWER_CURRENT_LIMIT"],
    "memory_temperature_c": ["MEMORY_TEMP"],
    "power_cap_share": ["CLOCKS_EVENT_REASON_SW_POWER_CAP"],
    "software_thermal_share": ["CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN"],
    "hardware_thermal_share": ["CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN"],
    "power_brake_share": ["CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN"],
    "ecc_sbe_count": ["ECC_SBE_VOL_TOTAL"],
    "ecc_dbe_count": ["ECC_DBE_VOL_TOTAL"],
    "remapped_correctable_count": ["REMAPPED_COR"],
    "remapped_uncorrectable_count": ["REMAPPED_UNC"],
    "remap_pending": ["REMAPPED_PENDING"],
    "remap_failed": ["REMAPPED_FAILURE"],
    "pcie_tx_bytes_per_s": ["PCIE_COUNT_TX_BYTES"],
    "pcie_rx_bytes_per_s": ["PCIE_COUNT_RX_BYTES"],
    "pcie_replay_count": ["PCIE_REPLAY_COUNTER"],
    "recovery_action": ["GET_GPU_RECOVERY_ACTION"],
    "nvlink_tx_bytes_per_s": ["NVLINK_THROUGHPUT_DATA_TX", "NVLINK_COUNT_XMIT_BYTES"],
    "nvlink_rx_bytes_per_s": ["NVLINK_THROUGHPUT_DATA_RX", "NVLINK_COUNT_RCV_BYTES"],
}


@pytest.mark.parametrize("name", FIELD_NAMES)
def test_a_field_is_the_one_its_metric_is_about(name: str) -> None:
    metric = next(metric for metric in FIELD_METRICS if metric.name == name)
    fields = [choice.fields for choice in metric.alternatives]
    assert fields == [(getattr(pynvml, "NVML_FI_DEV_" + field),) for field in FIELD_NAMES[name]]


def test_nvlink_errors_are_the_documented_groups() -> None:
    old, new = next(m for m in FIELD_METRICS if m.name == "nvlink_error_count").alternatives
    assert old.fields == tuple(
        getattr(pynvml, f"NVML_FI_DEV_NVLINK_ERROR_DL_{x}") for x in ("REPLAY", "RECOVERY", "CRC")
    )
    assert new.fields[0] == pynvml.NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS
    assert new.fields[-1] == pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS


def test_pynvml_has_everything_that_the_protocol_lists() -> None:
    library = nvml.load()
    names = [name for name in vars(nvml.NvmlLibrary) if name.startswith("nvml")]
    assert len(names) > 20
    for name in [*names, "NVMLError", "c_nvmlGpmMetricsGet_t"]:
        assert hasattr(library, name), name
        assert hasattr(FakeNvml([]), name), name


def value(kind: int, **union: Any) -> nvml.FieldValue:
    return SimpleNamespace(fieldId=1, scopeId=0, valueType=kind, nvmlReturn=0, value=SimpleNamespace(**union))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (value(3, ullVal=2**53 + 1), 2**53 + 1),
        (value(1, uiVal=4_000_000_000), 4_000_000_000),
        (value(5, siVal=-8), -8),
        (value(0, dVal=0.25), 0.25),
        (value(3, ullVal=2**64 - 1), None),
        (value(3, ullVal=9223372036854775794), None),
        (value(1, uiVal=2**32 - 1), None),
        (value(5, siVal=2147483634), None),
        (value(0, dVal=140737488355330.0), None),
    ],
)
def test_a_value_is_read_in_full_width_and_a_blank_is_none(answer: nvml.FieldValue, expected: float | None) -> None:
    assert nvml.number(answer) == expected


def test_an_array_of_the_librarys_structs_is_read_as_a_whole() -> None:
    struct = pynvml.c_nvmlFieldValue_t
    assert [(name, nvml._FIELD_VALUE.fields[field][1]) for name, field in FIELDS_OF_STRUCT] == [
        (name, getattr(struct, name).offset) for name, _ in FIELDS_OF_STRUCT
    ]
    assert nvml._FIELD_VALUE.itemsize == ctypes.sizeof(struct)
    values = (struct * 8)()
    told = [
        (3, "ullVal", 2**53 + 1),
        (1, "uiVal", 4_000_000_000),
        (5, "siVal", -8),
        (0, "dVal", 0.25),
        (3, "ullVal", 2**64 - 1),
        (1, "uiVal", 2**32 - 1),
        (4, "sllVal", -(2**40)),
        (6, "usVal", 7),
    ]
    for value, (kind, member, number) in zip(values, told, strict=True):
        value.valueType = kind
        value.value.ullVal = 0xFFFFFFFFFFFFFFFF  # what lies beside a narrow value is not part of it
        setattr(value.value, member, number)
    codes, numbers = nvml.decoded(values)
    assert codes == [0] * 8
    assert numbers == [2**53 + 1, 4_000_000_000, -8, 0.25, None, None, -(2**40), 7]
    assert [nvml.number(value) for value in values] == numbers
    values[3].nvmlReturn = 3
    assert nvml.decoded(values)[0] == [0, 0, 0, 3, 0, 0, 0, 0]


FIELDS_OF_STRUCT = [
    ("fieldId", "field"),
    ("scopeId", "scope"),
    ("timestamp", "timestamp"),
    ("latencyUsec", "latency"),
    ("valueType", "type"),
    ("nvmlReturn", "code"),
    ("value", "value"),
]


def test_the_real_library_without_a_driver_says_so() -> None:
    if nvml.driver_version() is not None:
        pytest.skip("this machine has an NVIDIA driver")
    with pytest.raises(nvml.load().NVMLError) as raised:
        nvml.load().nvmlInit()
    assert nvml.code_of(raised.value) == nvml.LIBRARY_NOT_FOUND


def test_the_driver_tells_its_version() -> None:
    library = FakeNvml([FakeGpu("GPU-0", "00000000:1B:00.0")])
    assert nvml.driver_version(library) == "580.95.05"
    assert not library.opened
