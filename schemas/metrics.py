"""The metric catalogue: every number that a frame may carry, declared once.

Kinds: `gauge` (a value now), `rate` (computed on the node from full-width counters, because a float32 cannot hold a
byte counter; NaN on the first reading and across a reset), `counter` (a small total since driver load; a fall starts
a new epoch and yields no rate), `flag` (0 or 1), `code` (an enumeration, compared only for equality), `bits`.

A value outside [low, high] is a broken sensor's, not a fault's: it is counted as missing{out_of_range}. Sources are
NVML field ids (NVML_FI_DEV_...), /proc and Redfish paths.
"""

from typing import Literal, NamedTuple, get_args

MetricKind = Literal["gauge", "rate", "counter", "flag", "code", "bits"]
Section = Literal[
    "gpu", "nvlink", "fabric", "host", "tray", "loop", "cdu", "leak", "shelf", "fan", "sensor", "processor", "port",
    "bmc",
]  # fmt: skip


class Metric(NamedTuple):
    """One metric: `on` says which hardware has it, `every_s` how often it is read (what is read less often than every
    second is no part of a GPU's baseline)."""

    section: Section
    name: str
    kind: MetricKind
    low: float
    high: float
    source: str
    on: str = "all"
    every_s: int = 1


_ENDLESS = 3.4e38

FEC_BINS = 16
"""Codewords by how many symbols had to be corrected: 0 to 15."""

METRICS: tuple[Metric, ...] = (
    # GPU: power and heat; a dead sensor reads 0, a living GPU never does
    Metric("gpu", "power_w", "gauge", 1, 5000, "NVML field 186 (power now, scope GPU)"),
    Metric("gpu", "power_average_w", "gauge", 1, 5000, "NVML field 83 (energy), difference over the tick"),
    Metric("gpu", "power_limit_w", "gauge", 0, 5000, "NVML field 190 (the limit in force)"),
    Metric("gpu", "temperature_c", "gauge", 1, 150, "nvmlDeviceGetTemperatureV"),
    Metric("gpu", "memory_temperature_c", "gauge", 1, 150, "NVML field 82", "cards with HBM"),
    Metric("gpu", "thermal_margin_c", "gauge", -50, 150, "nvmlDeviceGetMarginTemperature", "driver 570 and later"),
    # GPU: clocks, and what holds them down
    Metric("gpu", "sm_clock_mhz", "gauge", 0, 10000, "nvmlDeviceGetClockInfo(SM)"),
    Metric("gpu", "memory_clock_mhz", "gauge", 0, 20000, "nvmlDeviceGetClockInfo(MEM)"),
    Metric("gpu", "clocks_event_reasons", "bits", 0, 65535, "nvmlDeviceGetCurrentClocksEventReasons"),
    Metric("gpu", "power_cap_share", "rate", 0, 1.5, "NVML field 74, nanoseconds per nanosecond"),
    Metric("gpu", "software_thermal_share", "rate", 0, 1.5, "NVML field 269"),
    Metric("gpu", "hardware_thermal_share", "rate", 0, 1.5, "NVML field 270"),
    Metric("gpu", "power_brake_share", "rate", 0, 1.5, "NVML field 271"),
    # GPU: work
    Metric("gpu", "gpu_utilization_pct", "gauge", 0, 100, "nvmlDeviceGetUtilizationRates", "not a MIG parent"),
    Metric("gpu", "memory_utilization_pct", "gauge", 0, 100, "nvmlDeviceGetUtilizationRates", "not a MIG parent"),
    Metric("gpu", "memory_used_mib", "gauge", 0, 4e6, "nvmlDeviceGetMemoryInfo"),
    Metric("gpu", "sm_active_ratio", "gauge", 0, 1, "GPM 2", "Hopper and later"),
    Metric("gpu", "tensor_active_ratio", "gauge", 0, 1, "GPM 5", "Hopper and later"),
    Metric("gpu", "dram_active_ratio", "gauge", 0, 1, "GPM 10", "Hopper and later"),
    # GPU: memory errors
    Metric("gpu", "ecc_sbe_count", "counter", 0, _ENDLESS, "NVML field 3 (volatile, correctable)"),
    Metric("gpu", "ecc_dbe_count", "counter", 0, _ENDLESS, "NVML field 4 (volatile, uncorrectable)"),
    Metric("gpu", "remapped_correctable_count", "counter", 0, 10000, "NVML field 142", "Ampere and later"),
    Metric("gpu", "remapped_uncorrectable_count", "counter", 0, 10000, "NVML field 143", "Ampere and later"),
    Metric("gpu", "remap_pending", "flag", 0, 1, "NVML field 144", "Ampere and later"),
    Metric("gpu", "remap_failed", "flag", 0, 1, "NVML field 145", "Ampere and later"),
    # GPU: links as a whole
    Metric("gpu", "pcie_tx_bytes_per_s", "rate", 0, 1e12, "NVML field 197"),
    Metric("gpu", "pcie_rx_bytes_per_s", "rate", 0, 1e12, "NVML field 198"),
    Metric("gpu", "pcie_replay_count", "counter", 0, _ENDLESS, "NVML field 94"),
    Metric("gpu", "nvlink_tx_bytes_per_s", "rate", 0, 1e13, "NVML field 138 or 202, all links"),
    Metric("gpu", "nvlink_rx_bytes_per_s", "rate", 0, 1e13, "NVML field 139 or 204, all links"),
    Metric("gpu", "nvlink_error_count", "counter", 0, _ENDLESS, "NVML fields 161-163 or 206-214, all links"),
    Metric("gpu", "recovery_action", "code", 0, 7, "NVML field 230", "driver 570 and later"),
    # GPU: read every ten seconds
    Metric("gpu", "sync_boost_share", "rate", 0, 1.5, "NVML field 76, nanoseconds per nanosecond", every_s=10),
    Metric("gpu", "pcie_generation", "code", 1, 16, "nvmlDeviceGetCurrPcieLinkGeneration", every_s=10),
    Metric("gpu", "pcie_width_lanes", "code", 1, 64, "nvmlDeviceGetCurrPcieLinkWidth", every_s=10),
    Metric("gpu", "pcie_width_most_lanes", "code", 1, 64, "nvmlDeviceGetMaxPcieLinkWidth", every_s=10),
    Metric("gpu", "pcie_correctable_count", "counter", 0, _ENDLESS, "NVML field 173", every_s=10),
    Metric("gpu", "pcie_uncorrectable_count", "counter", 0, _ENDLESS, "NVML fields 179 and 180", every_s=10),
    Metric("gpu", "pcie_recovery_count", "counter", 0, _ENDLESS, "NVML field 169 (L0 to recovery)", every_s=10),
    Metric("gpu", "mig_enabled", "flag", 0, 1, "nvmlDeviceGetMigMode", "Ampere and later", 10),
    Metric("gpu", "fabric_state", "code", 0, 3, "nvmlDeviceGetGpuFabricInfoV", "GPUs on NVSwitch", 10),
    Metric("gpu", "fabric_fault", "flag", 0, 1, "fabric info, by the product's rule", "GPUs on NVSwitch", 10),
    # GPU: read every minute
    Metric("gpu", "power_limit_default_w", "gauge", 0, 5000, "NVML field 189", every_s=60),
    Metric("gpu", "slowdown_margin_c", "gauge", -50, 50, "NVML field 194 (margin at slowdown)", "Ada and later", 60),
    Metric("gpu", "ecc_sbe_lifetime_count", "counter", 0, _ENDLESS, "NVML field 5 (aggregate)", every_s=60),
    Metric("gpu", "ecc_dbe_lifetime_count", "counter", 0, _ENDLESS, "NVML field 6 (aggregate)", every_s=60),
    Metric("gpu", "sram_correctable_count", "counter", 0, _ENDLESS, "nvmlDeviceGetSramEccErrorStatus", every_s=60),
    Metric("gpu", "sram_uncorrectable_count", "counter", 0, _ENDLESS, "nvmlDeviceGetSramEccErrorStatus", every_s=60),
    Metric("gpu", "sram_threshold_exceeded", "flag", 0, 1, "nvmlDeviceGetSramEccErrorStatus", every_s=60),
    Metric("gpu", "retired_page_count", "counter", 0, 10000, "NVML fields 29 and 30", "before Ampere", 60),
    Metric("gpu", "retirement_pending", "flag", 0, 1, "NVML field 31", "before Ampere", 60),
    Metric("gpu", "remap_banks_exhausted_count", "counter", 0, 10000, "NVML field 306", "Ampere and later", 60),
    Metric("gpu", "memory_unrepairable", "flag", 0, 1, "nvmlDeviceGetUnrepairableMemoryFlag_v1", every_s=60),
    Metric("gpu", "repair_pending", "flag", 0, 1, "nvmlDeviceGetRepairStatus (channel or TPC)", every_s=60),
    # NVLink: one row per link, every ten seconds
    Metric("nvlink", "state", "code", 0, 3, "NVML field 165 (0 inactive, 1 active, 2 sleeping)", every_s=10),
    Metric("nvlink", "speed_bytes_per_s", "gauge", 0, 1e12, "NVML field 164", every_s=10),
    Metric("nvlink", "tx_bytes_per_s", "rate", 0, 1e12, "NVML field 138 or 202", every_s=10),
    Metric("nvlink", "rx_bytes_per_s", "rate", 0, 1e12, "NVML field 139 or 204", every_s=10),
    Metric("nvlink", "replay_count", "counter", 0, _ENDLESS, "NVML field 161", "up to Hopper", 10),
    Metric("nvlink", "recovery_count", "counter", 0, _ENDLESS, "NVML field 162 or 215", every_s=10),
    Metric("nvlink", "crc_error_count", "counter", 0, _ENDLESS, "NVML field 163", "up to Hopper", 10),
    Metric("nvlink", "malformed_count", "counter", 0, _ENDLESS, "NVML field 206", "NVLink 5", 10),
    Metric("nvlink", "overrun_count", "counter", 0, _ENDLESS, "NVML field 207", "NVLink 5", 10),
    Metric("nvlink", "receive_error_count", "counter", 0, _ENDLESS, "NVML field 208", "NVLink 5", 10),
    Metric("nvlink", "remote_error_count", "counter", 0, _ENDLESS, "NVML field 209", "NVLink 5", 10),
    Metric("nvlink", "general_error_count", "counter", 0, _ENDLESS, "NVML field 210", "NVLink 5", 10),
    Metric("nvlink", "integrity_error_count", "counter", 0, _ENDLESS, "NVML field 211", "NVLink 5", 10),
    Metric("nvlink", "discard_count", "counter", 0, _ENDLESS, "NVML field 212", "NVLink 5", 10),
    Metric("nvlink", "recovered_count", "counter", 0, _ENDLESS, "NVML field 213", "NVLink 5", 10),
    Metric("nvlink", "recovery_failed_count", "counter", 0, _ENDLESS, "NVML field 214", "NVLink 5", 10),
    Metric("nvlink", "retransmit_ratio", "rate", 0, 1, "NVML field 295 over 294", "NVLink 5", 10),
    Metric("nvlink", "effective_error_count", "counter", 0, _ENDLESS, "NVML field 219", "NVLink 5", 60),
    Metric("nvlink", "symbol_error_count", "counter", 0, _ENDLESS, "NVML field 221", "NVLink 5", 60),
    Metric("nvlink", "effective_ber_log10", "gauge", -255, 0, "NVML field 220, unpacked", "NVLink 5", 60),
    Metric("nvlink", "symbol_ber_log10", "gauge", -255, 0, "NVML field 222, unpacked", "NVLink 5", 60),
    *(
        Metric("nvlink", f"fec_{n}_per_s", "rate", 0, 1e12, f"NVML field {235 + n}", "NVLink 5", 60)
        for n in range(FEC_BINS)
    ),
    # Network ports (InfiniBand and RoCE): one row per "device/port"; sysfs class/infiniband/DEVICE/ports/PORT
    Metric("fabric", "up", "flag", 0, 1, "state ACTIVE and phys_state LinkUp"),
    Metric("fabric", "speed_bytes_per_s", "gauge", 0, 1e12, "rate"),
    Metric("fabric", "speed_most_bytes_per_s", "gauge", 0, 1e12, "the best rate of this port and of its likes here"),
    Metric("fabric", "width_lanes", "code", 1, 16, "rate"),
    Metric("fabric", "width_most_lanes", "code", 1, 16, "the best width of this port and of its likes here"),
    Metric("fabric", "tx_bytes_per_s", "rate", 0, 1e12, "counters/port_xmit_data, four bytes each"),
    Metric("fabric", "rx_bytes_per_s", "rate", 0, 1e12, "counters/port_rcv_data, four bytes each"),
    Metric("fabric", "tx_wait_per_s", "rate", 0, _ENDLESS, "counters/port_xmit_wait, ticks without credit"),
    Metric("fabric", "tx_discards_per_s", "rate", 0, _ENDLESS, "counters/port_xmit_discards", every_s=10),
    Metric("fabric", "symbol_errors_per_s", "rate", 0, _ENDLESS, "counters/symbol_error", every_s=10),
    Metric("fabric", "receive_errors_per_s", "rate", 0, _ENDLESS, "counters/port_rcv_errors", every_s=10),
    Metric(
        "fabric", "remote_errors_per_s", "rate", 0, _ENDLESS, "counters/port_rcv_remote_physical_errors", every_s=10
    ),
    Metric("fabric", "integrity_errors_per_s", "rate", 0, _ENDLESS, "counters/local_link_integrity_errors", every_s=10),
    Metric("fabric", "overruns_per_s", "rate", 0, _ENDLESS, "counters/excessive_buffer_overrun_errors", every_s=10),
    Metric("fabric", "recoveries_per_s", "rate", 0, _ENDLESS, "counters/link_error_recovery", every_s=10),
    Metric("fabric", "downed_count", "counter", 0, _ENDLESS, "counters/link_downed"),
    Metric("fabric", "out_of_sequence_per_s", "rate", 0, _ENDLESS, "hw_counters/out_of_sequence", every_s=10),
    Metric("fabric", "sequence_errors_per_s", "rate", 0, _ENDLESS, "hw_counters/packet_seq_err", every_s=10),
    Metric("fabric", "ack_timeouts_per_s", "rate", 0, _ENDLESS, "hw_counters/local_ack_timeout_err", every_s=10),
    Metric("fabric", "not_ready_per_s", "rate", 0, _ENDLESS, "hw_counters/rnr_nak_retry_err", every_s=10),
    Metric("fabric", "retransmissions_per_s", "rate", 0, _ENDLESS, "hw_counters/roce_adp_retrans", "RoCE", 10),
    Metric("fabric", "ecn_marked_per_s", "rate", 0, _ENDLESS, "hw_counters/np_ecn_marked_roce_packets", "RoCE", 10),
    Metric("fabric", "cnp_sent_per_s", "rate", 0, _ENDLESS, "hw_counters/np_cnp_sent", "RoCE", 10),
    Metric("fabric", "cnp_handled_per_s", "rate", 0, _ENDLESS, "hw_counters/rp_cnp_handled", "RoCE", 10),
    # Host
    Metric("host", "cpu_utilization_pct", "gauge", 0, 100, "/proc/stat, difference over the tick"),
    Metric("host", "cpu_steal_pct", "gauge", 0, 100, "/proc/stat, difference over the tick"),
    Metric("host", "load_1m", "gauge", 0, 1e5, "/proc/loadavg"),
    Metric("host", "runnable_count", "gauge", 0, 1e6, "/proc/loadavg"),
    Metric("host", "memory_available_mib", "gauge", 0, 1e8, "/proc/meminfo MemAvailable"),
    Metric("host", "memory_total_mib", "gauge", 0, 1e8, "/proc/meminfo MemTotal"),
    Metric("host", "cpu_pressure_pct", "gauge", 0, 100, "/proc/pressure/cpu some avg10"),
    Metric("host", "memory_pressure_pct", "gauge", 0, 100, "/proc/pressure/memory some avg10"),
    Metric("host", "io_pressure_pct", "gauge", 0, 100, "/proc/pressure/io some avg10"),
    Metric("host", "disk_busy_pct", "gauge", 0, 100, "/proc/diskstats, busiest device over the tick"),
    Metric("host", "node_power_w", "gauge", 0, 100000, "the baseboard's own power reading"),
    Metric("host", "cpu_iowait_pct", "gauge", 0, 100, "/proc/stat, difference over the tick"),
    Metric("host", "blocked_count", "gauge", 0, 1e6, "/proc/stat procs_blocked"),
    Metric("host", "swap_used_mib", "gauge", 0, 1e8, "/proc/meminfo SwapTotal less SwapFree"),
    Metric("host", "oom_kill_count", "counter", 0, _ENDLESS, "/proc/vmstat oom_kill"),
    Metric("host", "memory_full_pressure_pct", "gauge", 0, 100, "/proc/pressure/memory full avg10"),
    Metric("host", "io_full_pressure_pct", "gauge", 0, 100, "/proc/pressure/io full avg10"),
    Metric("host", "disk_wait_ms", "gauge", 0, 1e7, "/proc/diskstats, mean of the slowest device over the tick"),
    Metric("host", "rank_count", "gauge", 0, 1e4, "/proc/PID/environ of training processes"),
    Metric("host", "rank_blocked_count", "gauge", 0, 1e4, "/proc/PID/stat, ranks in state D"),
    Metric("host", "rank_stopped_count", "gauge", 0, 1e4, "/proc/PID/stat, ranks in state T or Z"),
    Metric("host", "clock_offset_s", "gauge", -1e6, 1e6, "adjtimex: offset from the reference", every_s=10),
    Metric("host", "clock_error_s", "gauge", 0, 1e6, "adjtimex: the most that the clock may be wrong", every_s=10),
    Metric("host", "clock_synchronised", "flag", 0, 1, "adjtimex: state", every_s=10),
    Metric("host", "cpu_temperature_c", "gauge", -20, 150, "hwmon of the CPUs, the hottest", every_s=10),
    Metric("host", "temperature_margin_c", "gauge", -50, 200, "hwmon, the least distance to a limit", every_s=10),
    Metric("host", "fan_lowest_rpm", "gauge", 0, 1e5, "hwmon, the slowest fan", every_s=10),
    Metric("host", "fans_stopped_count", "gauge", 0, 1000, "hwmon, fans at 0 that ran or have an alarm", every_s=10),
    # Cooling of the tray the node sits in
    Metric("tray", "coolant_supply_c", "gauge", -20, 120, "Redfish ThermalSubsystem"),
    Metric("tray", "coolant_return_c", "gauge", -20, 120, "Redfish ThermalSubsystem"),
    Metric("tray", "inlet_air_c", "gauge", -20, 120, "Redfish ThermalMetrics"),
    # Rack: loops, distribution units, leak detectors, power shelves
    Metric("loop", "supply_c", "gauge", -20, 120, "Redfish CoolingLoop, primary supply"),
    Metric("loop", "return_c", "gauge", -20, 120, "Redfish CoolingLoop, primary return"),
    Metric("loop", "flow_lpm", "gauge", 0, 10000, "Redfish CoolingLoop"),
    Metric("loop", "heat_w", "gauge", -1e6, 1e7, "Redfish CoolantConnector HeatRemoved"),
    Metric("loop", "supply_kpa", "gauge", -100, 10000, "Redfish CoolantConnector SupplyPressure"),
    Metric("loop", "return_kpa", "gauge", -100, 10000, "Redfish CoolantConnector ReturnPressure"),
    Metric("loop", "delta_kpa", "gauge", -100, 10000, "Redfish CoolantConnector DeltaPressure, or supply less return"),
    Metric("loop", "valve_pct", "gauge", 0, 100, "Redfish CoolantConnector ValvePosition"),
    Metric("loop", "rated_lpm", "gauge", 0, 10000, "Redfish CoolantConnector RatedFlow"),
    Metric("loop", "level_pct", "gauge", 0, 100, "Redfish CoolingLoop CoolantLevel"),
    Metric("loop", "power_w", "gauge", 0, 1e7, "the building's meter: electrical power of what the loop cools"),
    Metric("loop", "status_code", "code", 0, 2, "Redfish Status.Health: 0 OK, 1 warning, 2 critical"),
    Metric("cdu", "pump_speed_pct", "gauge", 0, 100, "Redfish Pump PumpSpeedPercent"),
    Metric("cdu", "pressure_kpa", "gauge", -100, 10000, "Redfish CoolantConnector DeltaPressure"),
    Metric("cdu", "pump_speed_rpm", "gauge", 0, 100000, "Redfish Pump PumpSpeedPercent.SpeedRPM"),
    Metric("cdu", "filter_kpa", "gauge", -100, 10000, "Redfish Filter DeltaPressure"),
    Metric("cdu", "level_pct", "gauge", 0, 100, "Redfish Reservoir FluidLevel"),
    Metric("cdu", "status_code", "code", 0, 2, "Redfish Status.Health: 0 OK, 1 warning, 2 critical"),
    Metric("leak", "leak_detected", "flag", 0, 1, "Redfish LeakDetector DetectorState"),
    Metric("leak", "sensor_failed", "flag", 0, 1, "Redfish LeakDetector unavailable, absent or disabled"),
    Metric("leak", "status_code", "code", 0, 2, "Redfish LeakDetector: 0 OK, 1 warning, 2 critical"),
    Metric("shelf", "output_w", "gauge", 0, 1e6, "Redfish PowerSupply"),
    Metric("shelf", "input_w", "gauge", 0, 1e6, "Redfish PowerSupplyMetrics InputPowerWatts"),
    Metric("shelf", "status_code", "code", 0, 2, "Redfish Status.Health: 0 OK, 1 warning, 2 critical"),
    Metric("fan", "speed_pct", "gauge", 0, 110, "Redfish Fan SpeedPercent"),
    Metric("fan", "speed_rpm", "gauge", 0, 100000, "Redfish Fan SpeedPercent.SpeedRPM"),
    Metric("fan", "status_code", "code", 0, 2, "Redfish Status.Health: 0 OK, 1 warning, 2 critical"),
    # Sensors of a baseboard by what they measure: each row has one reading, and what it means by its own limits
    Metric("sensor", "temperature_c", "gauge", -60, 200, "Redfish Sensor, Thermal or ThermalMetrics"),
    Metric("sensor", "margin_c", "gauge", -150, 150, "Redfish Sensor with ReadingBasis Headroom: lower is worse"),
    Metric("sensor", "humidity_pct", "gauge", 0, 100, "Redfish Sensor or EnvironmentMetrics"),
    Metric("sensor", "power_w", "gauge", -1e7, 1e7, "Redfish Sensor or EnvironmentMetrics"),
    Metric("sensor", "flow_lpm", "gauge", 0, 10000, "Redfish Sensor"),
    Metric("sensor", "pressure_kpa", "gauge", -100, 10000, "Redfish Sensor"),
    Metric("sensor", "level_pct", "gauge", 0, 100, "Redfish Sensor"),
    Metric("sensor", "speed_pct", "gauge", 0, 110, "Redfish Sensor"),
    Metric("sensor", "speed_rpm", "gauge", 0, 100000, "Redfish Sensor"),
    Metric("sensor", "voltage_v", "gauge", -1e5, 1e5, "Redfish Sensor"),
    Metric("sensor", "current_a", "gauge", -1e5, 1e5, "Redfish Sensor"),
    Metric("sensor", "alarm_code", "code", 0, 3, "Redfish Thresholds: 0 inside, 1 caution, 2 critical, 3 fatal"),
    # GPUs and their NVLink ports as the baseboard's controller tells them
    Metric("processor", "speed_mhz", "gauge", 0, 20000, "Redfish ProcessorMetrics OperatingSpeedMHz", every_s=60),
    Metric("processor", "bandwidth_pct", "gauge", 0, 100, "Redfish ProcessorMetrics BandwidthPercent", every_s=60),
    Metric("processor", "power_throttled_s", "counter", 0, 1e9, "PowerLimitThrottleDuration", every_s=60),
    Metric("processor", "thermal_throttled_s", "counter", 0, 1e9, "ThermalLimitThrottleDuration", every_s=60),
    Metric("processor", "hardware_throttled_s", "counter", 0, 1e9, "HardwareViolationThrottleDuration", every_s=60),
    Metric("processor", "software_throttled_s", "counter", 0, 1e9, "GlobalSoftwareViolation...Duration", every_s=60),
    Metric("processor", "ecc_correctable_count", "counter", 0, _ENDLESS, "CacheMetricsTotal.LifeTime", every_s=60),
    Metric("processor", "ecc_uncorrectable_count", "counter", 0, _ENDLESS, "CacheMetricsTotal.LifeTime", every_s=60),
    Metric("processor", "sram_threshold_exceeded", "flag", 0, 1, "SRAMECCErrorThresholdExceeded", every_s=60),
    Metric("processor", "pcie_correctable_count", "counter", 0, _ENDLESS, "PCIeErrors", every_s=60),
    Metric("processor", "pcie_uncorrectable_count", "counter", 0, _ENDLESS, "PCIeErrors, (non-)fatal", every_s=60),
    Metric("processor", "pcie_replay_count", "counter", 0, _ENDLESS, "PCIeErrors ReplayCount", every_s=60),
    Metric("processor", "pcie_recovery_count", "counter", 0, _ENDLESS, "PCIeErrors L0ToRecoveryCount", every_s=60),
    Metric("port", "up", "flag", 0, 1, "Redfish Port LinkStatus", every_s=60),
    Metric("port", "speed_bytes_per_s", "gauge", 0, 1e12, "Redfish Port CurrentSpeedGbps", every_s=60),
    Metric("port", "status_code", "code", 0, 2, "Redfish Port Status.Health: 0 OK to 2 critical", every_s=60),
    Metric("port", "symbol_ber_log10", "gauge", -255, 0, "Redfish PortMetrics BitErrorRate", every_s=60),
    Metric("port", "effective_ber_log10", "gauge", -255, 0, "Redfish PortMetrics EffectiveBER", every_s=60),
    Metric("port", "symbol_error_count", "counter", 0, _ENDLESS, "Redfish PortMetrics SymbolErrors", every_s=60),
    Metric("port", "effective_error_count", "counter", 0, _ENDLESS, "Redfish PortMetrics EffectiveError", every_s=60),
    Metric("port", "malformed_count", "counter", 0, _ENDLESS, "Redfish PortMetrics MalformedPackets", every_s=60),
    Metric("port", "recovery_count", "counter", 0, _ENDLESS, "PortMetrics LinkErrorRecoveryCount", every_s=60),
    Metric("port", "downed_count", "counter", 0, _ENDLESS, "Redfish PortMetrics LinkDownedCount", every_s=60),
    Metric("port", "runtime_error", "flag", 0, 1, "Redfish PortMetrics NVLinkErrors", every_s=60),
    Metric("port", "training_error", "flag", 0, 1, "Redfish PortMetrics NVLinkErrors", every_s=60),
    Metric("bmc", "answers", "flag", 0, 1, "whether the management controller answered this poll"),
    Metric("bmc", "poll_s", "gauge", 0, 1e5, "how long the poll took"),
)

SECTIONS: dict[Section, tuple[Metric, ...]] = {
    section: tuple(metric for metric in METRICS if metric.section == section) for section in get_args(Section)
}


def names(section: Section, every_s: int | None = None) -> tuple[str, ...]:
    """The section's metric names in catalogue order: the columns of its table; or only what is read every `every_s`."""
    return tuple(metric.name for metric in SECTIONS[section] if every_s in (None, metric.every_s))


def metric(section: Section, name: str) -> Metric | None:
    """The declaration of one metric; None where the catalogue has none of that name."""
    return _BY_NAME.get((section, name))


_BY_NAME: dict[tuple[str, str], Metric] = {(m.section, m.name): m for m in METRICS}
