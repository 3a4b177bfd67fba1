CREATE TABLE IF NOT EXISTS gpu_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `tray` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'tray in the rack; NULL where unknown',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `pci` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'PCI address',
    `slot` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'slot of the GPU in its node',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `rank` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `parent` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the physical GPU, where this is a MIG instance',
    `power_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, watt; NVML field 186 (power now, scope GPU); NaN where missing',
    `power_average_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, watt; NVML field 83 (energy), difference over the tick; NaN where missing',
    `power_limit_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, watt; NVML field 190 (the limit in force); NaN where missing',
    `temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; nvmlDeviceGetTemperatureV; NaN where missing',
    `memory_temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; NVML field 82; cards with HBM; NaN where missing',
    `thermal_margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; nvmlDeviceGetMarginTemperature; driver 570 and later; NaN where missing',
    `sm_clock_mhz` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, megahertz; nvmlDeviceGetClockInfo(SM); NaN where missing',
    `memory_clock_mhz` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, megahertz; nvmlDeviceGetClockInfo(MEM); NaN where missing',
    `clocks_event_reasons` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'bits; nvmlDeviceGetCurrentClocksEventReasons; NaN where missing',
    `power_cap_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, part of the tick; NVML field 74, nanoseconds per nanosecond; NaN where missing',
    `software_thermal_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, part of the tick; NVML field 269; NaN where missing',
    `hardware_thermal_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, part of the tick; NVML field 270; NaN where missing',
    `power_brake_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, part of the tick; NVML field 271; NaN where missing',
    `gpu_utilization_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; nvmlDeviceGetUtilizationRates; not a MIG parent; NaN where missing',
    `memory_utilization_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; nvmlDeviceGetUtilizationRates; not a MIG parent; NaN where missing',
    `memory_used_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, mebibyte; nvmlDeviceGetMemoryInfo; NaN where missing',
    `sm_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, part of one; GPM 2; Hopper and later; NaN where missing',
    `tensor_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, part of one; GPM 5; Hopper and later; NaN where missing',
    `dram_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, part of one; GPM 10; Hopper and later; NaN where missing',
    `ecc_sbe_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 3 (volatile, correctable); NaN where missing',
    `ecc_dbe_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 4 (volatile, uncorrectable); NaN where missing',
    `remapped_correctable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 142; Ampere and later; NaN where missing',
    `remapped_uncorrectable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 143; Ampere and later; NaN where missing',
    `remap_pending` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; NVML field 144; Ampere and later; NaN where missing',
    `remap_failed` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; NVML field 145; Ampere and later; NaN where missing',
    `pcie_tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, bytes per second; NVML field 197; NaN where missing',
    `pcie_rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, bytes per second; NVML field 198; NaN where missing',
    `pcie_replay_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 94; NaN where missing',
    `nvlink_tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, bytes per second; NVML field 138 or 202, all links; NaN where missing',
    `nvlink_rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, bytes per second; NVML field 139 or 204, all links; NaN where missing',
    `nvlink_error_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML fields 161-163 or 206-214, all links; NaN where missing',
    `recovery_action` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; NVML field 230; driver 570 and later; NaN where missing',
    `sync_boost_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, part of the tick; NVML field 76, nanoseconds per nanosecond; NaN where missing',
    `pcie_generation` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; nvmlDeviceGetCurrPcieLinkGeneration; NaN where missing',
    `pcie_width_lanes` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; nvmlDeviceGetCurrPcieLinkWidth; NaN where missing',
    `pcie_width_most_lanes` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; nvmlDeviceGetMaxPcieLinkWidth; NaN where missing',
    `pcie_correctable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 173; NaN where missing',
    `pcie_uncorrectable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML fields 179 and 180; NaN where missing',
    `pcie_recovery_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 169 (L0 to recovery); NaN where missing',
    `mig_enabled` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; nvmlDeviceGetMigMode; Ampere and later; NaN where missing',
    `fabric_state` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; nvmlDeviceGetGpuFabricInfoV; GPUs on NVSwitch; NaN where missing',
    `fabric_fault` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; fabric info, by the product\'s rule; GPUs on NVSwitch; NaN where missing',
    `power_limit_default_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, watt; NVML field 189; NaN where missing',
    `slowdown_margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; NVML field 194 (margin at slowdown); Ada and later; NaN where missing',
    `ecc_sbe_lifetime_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 5 (aggregate); NaN where missing',
    `ecc_dbe_lifetime_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 6 (aggregate); NaN where missing',
    `sram_correctable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; nvmlDeviceGetSramEccErrorStatus; NaN where missing',
    `sram_uncorrectable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; nvmlDeviceGetSramEccErrorStatus; NaN where missing',
    `sram_threshold_exceeded` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; nvmlDeviceGetSramEccErrorStatus; NaN where missing',
    `retired_page_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML fields 29 and 30; before Ampere; NaN where missing',
    `retirement_pending` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; NVML field 31; before Ampere; NaN where missing',
    `remap_banks_exhausted_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 306; Ampere and later; NaN where missing',
    `memory_unrepairable` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; nvmlDeviceGetUnrepairableMemoryFlag_v1; NaN where missing',
    `repair_pending` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; nvmlDeviceGetRepairStatus (channel or TPC); NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it',
    INDEX stored_at_range stored_at TYPE minmax
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, gpu, ts, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one GPU, one tick';

CREATE TABLE IF NOT EXISTS nvlink_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `tray` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'tray in the rack; NULL where unknown',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `link` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the link',
    `state` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; NVML field 165 (0 inactive, 1 active, 2 sleeping); NaN where missing',
    `speed_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, bytes per second; NVML field 164; NaN where missing',
    `tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, bytes per second; NVML field 138 or 202; NaN where missing',
    `rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, bytes per second; NVML field 139 or 204; NaN where missing',
    `replay_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 161; up to Hopper; NaN where missing',
    `recovery_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 162 or 215; NaN where missing',
    `crc_error_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 163; up to Hopper; NaN where missing',
    `malformed_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 206; NVLink 5; NaN where missing',
    `overrun_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 207; NVLink 5; NaN where missing',
    `receive_error_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 208; NVLink 5; NaN where missing',
    `remote_error_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 209; NVLink 5; NaN where missing',
    `general_error_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 210; NVLink 5; NaN where missing',
    `integrity_error_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 211; NVLink 5; NaN where missing',
    `discard_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 212; NVLink 5; NaN where missing',
    `recovered_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 213; NVLink 5; NaN where missing',
    `recovery_failed_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 214; NVLink 5; NaN where missing',
    `retransmit_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, part of one; NVML field 295 over 294; NVLink 5; NaN where missing',
    `effective_error_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 219; NVLink 5; NaN where missing',
    `symbol_error_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; NVML field 221; NVLink 5; NaN where missing',
    `effective_ber_log10` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, power of ten; NVML field 220, unpacked; NVLink 5; NaN where missing',
    `symbol_ber_log10` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, power of ten; NVML field 222, unpacked; NVLink 5; NaN where missing',
    `fec_0_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 235; NVLink 5; NaN where missing',
    `fec_1_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 236; NVLink 5; NaN where missing',
    `fec_2_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 237; NVLink 5; NaN where missing',
    `fec_3_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 238; NVLink 5; NaN where missing',
    `fec_4_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 239; NVLink 5; NaN where missing',
    `fec_5_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 240; NVLink 5; NaN where missing',
    `fec_6_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 241; NVLink 5; NaN where missing',
    `fec_7_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 242; NVLink 5; NaN where missing',
    `fec_8_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 243; NVLink 5; NaN where missing',
    `fec_9_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 244; NVLink 5; NaN where missing',
    `fec_10_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 245; NVLink 5; NaN where missing',
    `fec_11_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 246; NVLink 5; NaN where missing',
    `fec_12_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 247; NVLink 5; NaN where missing',
    `fec_13_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 248; NVLink 5; NaN where missing',
    `fec_14_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 249; NVLink 5; NaN where missing',
    `fec_15_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; NVML field 250; NVLink 5; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it',
    INDEX stored_at_range stored_at TYPE minmax
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, gpu, link, ts, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one NVLink of a GPU, one tick';

CREATE TABLE IF NOT EXISTS fabric_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `tray` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'tray in the rack; NULL where unknown',
    `device` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'network device',
    `port` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'port of the device or processor',
    `up` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; state ACTIVE and phys_state LinkUp; NaN where missing',
    `speed_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, bytes per second; rate; NaN where missing',
    `speed_most_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, bytes per second; the best rate of this port and of its likes here; NaN where missing',
    `width_lanes` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; rate; NaN where missing',
    `width_most_lanes` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; the best width of this port and of its likes here; NaN where missing',
    `tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, bytes per second; counters/port_xmit_data, four bytes each; NaN where missing',
    `rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, bytes per second; counters/port_rcv_data, four bytes each; NaN where missing',
    `tx_wait_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; counters/port_xmit_wait, ticks without credit; NaN where missing',
    `tx_discards_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; counters/port_xmit_discards; NaN where missing',
    `symbol_errors_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; counters/symbol_error; NaN where missing',
    `receive_errors_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; counters/port_rcv_errors; NaN where missing',
    `remote_errors_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; counters/port_rcv_remote_physical_errors; NaN where missing',
    `integrity_errors_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; counters/local_link_integrity_errors; NaN where missing',
    `overruns_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; counters/excessive_buffer_overrun_errors; NaN where missing',
    `recoveries_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; counters/link_error_recovery; NaN where missing',
    `downed_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; counters/link_downed; NaN where missing',
    `out_of_sequence_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; hw_counters/out_of_sequence; NaN where missing',
    `sequence_errors_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; hw_counters/packet_seq_err; NaN where missing',
    `ack_timeouts_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; hw_counters/local_ack_timeout_err; NaN where missing',
    `not_ready_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; hw_counters/rnr_nak_retry_err; NaN where missing',
    `retransmissions_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; hw_counters/roce_adp_retrans; RoCE; NaN where missing',
    `ecn_marked_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; hw_counters/np_ecn_marked_roce_packets; RoCE; NaN where missing',
    `cnp_sent_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; hw_counters/np_cnp_sent; RoCE; NaN where missing',
    `cnp_handled_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'rate, per second; hw_counters/rp_cnp_handled; RoCE; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, device, port, ts, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one network port, one tick';

CREATE TABLE IF NOT EXISTS host_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `tray` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'tray in the rack; NULL where unknown',
    `cpu_utilization_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; /proc/stat, difference over the tick; NaN where missing',
    `cpu_steal_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; /proc/stat, difference over the tick; NaN where missing',
    `load_1m` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge; /proc/loadavg; NaN where missing',
    `runnable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, count; /proc/loadavg; NaN where missing',
    `memory_available_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, mebibyte; /proc/meminfo MemAvailable; NaN where missing',
    `memory_total_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, mebibyte; /proc/meminfo MemTotal; NaN where missing',
    `cpu_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; /proc/pressure/cpu some avg10; NaN where missing',
    `memory_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; /proc/pressure/memory some avg10; NaN where missing',
    `io_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; /proc/pressure/io some avg10; NaN where missing',
    `disk_busy_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; /proc/diskstats, busiest device over the tick; NaN where missing',
    `node_power_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, watt; the baseboard\'s own power reading; NaN where missing',
    `cpu_iowait_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; /proc/stat, difference over the tick; NaN where missing',
    `blocked_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, count; /proc/stat procs_blocked; NaN where missing',
    `swap_used_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, mebibyte; /proc/meminfo SwapTotal less SwapFree; NaN where missing',
    `oom_kill_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; /proc/vmstat oom_kill; NaN where missing',
    `memory_full_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; /proc/pressure/memory full avg10; NaN where missing',
    `io_full_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; /proc/pressure/io full avg10; NaN where missing',
    `disk_wait_ms` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, millisecond; /proc/diskstats, mean of the slowest device over the tick; NaN where missing',
    `rank_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, count; /proc/PID/environ of training processes; NaN where missing',
    `rank_blocked_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, count; /proc/PID/stat, ranks in state D; NaN where missing',
    `rank_stopped_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, count; /proc/PID/stat, ranks in state T or Z; NaN where missing',
    `clock_offset_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, second; adjtimex: offset from the reference; NaN where missing',
    `clock_error_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, second; adjtimex: the most that the clock may be wrong; NaN where missing',
    `clock_synchronised` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; adjtimex: state; NaN where missing',
    `cpu_temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; hwmon of the CPUs, the hottest; NaN where missing',
    `temperature_margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; hwmon, the least distance to a limit; NaN where missing',
    `fan_lowest_rpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, revolutions per minute; hwmon, the slowest fan; NaN where missing',
    `fans_stopped_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, count; hwmon, fans at 0 that ran or have an alarm; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it',
    INDEX stored_at_range stored_at TYPE minmax
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, ts, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one host, one tick';

CREATE TABLE IF NOT EXISTS tray_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `tray` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'tray in the rack; NULL where unknown',
    `coolant_supply_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; Redfish ThermalSubsystem; NaN where missing',
    `coolant_return_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; Redfish ThermalSubsystem; NaN where missing',
    `inlet_air_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; Redfish ThermalMetrics; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, ts, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one tray\'s cooling, one tick';

CREATE TABLE IF NOT EXISTS loop_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `loop` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'cooling loop',
    `supply_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; Redfish CoolingLoop, primary supply; NaN where missing',
    `return_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; Redfish CoolingLoop, primary return; NaN where missing',
    `flow_lpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, litre per minute; Redfish CoolingLoop; NaN where missing',
    `heat_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, watt; Redfish CoolantConnector HeatRemoved; NaN where missing',
    `supply_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, kilopascal; Redfish CoolantConnector SupplyPressure; NaN where missing',
    `return_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, kilopascal; Redfish CoolantConnector ReturnPressure; NaN where missing',
    `delta_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, kilopascal; Redfish CoolantConnector DeltaPressure, or supply less return; NaN where missing',
    `valve_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; Redfish CoolantConnector ValvePosition; NaN where missing',
    `rated_lpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, litre per minute; Redfish CoolantConnector RatedFlow; NaN where missing',
    `level_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; Redfish CoolingLoop CoolantLevel; NaN where missing',
    `power_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, watt; the building\'s meter: electrical power of what the loop cools; NaN where missing',
    `status_code` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; Redfish Status.Health: 0 OK, 1 warning, 2 critical; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it',
    INDEX stored_at_range stored_at TYPE minmax
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, rack, loop, ts, node, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one cooling loop, one tick';

CREATE TABLE IF NOT EXISTS cdu_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `unit` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'coolant distribution unit',
    `pump_speed_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; Redfish Pump PumpSpeedPercent; NaN where missing',
    `pressure_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, kilopascal; Redfish CoolantConnector DeltaPressure; NaN where missing',
    `pump_speed_rpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, revolutions per minute; Redfish Pump PumpSpeedPercent.SpeedRPM; NaN where missing',
    `filter_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, kilopascal; Redfish Filter DeltaPressure; NaN where missing',
    `level_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; Redfish Reservoir FluidLevel; NaN where missing',
    `status_code` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; Redfish Status.Health: 0 OK, 1 warning, 2 critical; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, rack, unit, ts, node, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one coolant distribution unit, one tick';

CREATE TABLE IF NOT EXISTS leak_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `detector` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'leak detector',
    `leak_detected` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; Redfish LeakDetector DetectorState; NaN where missing',
    `sensor_failed` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; Redfish LeakDetector unavailable, absent or disabled; NaN where missing',
    `status_code` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; Redfish LeakDetector: 0 OK, 1 warning, 2 critical; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, rack, detector, ts, node, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one leak detector, one tick';

CREATE TABLE IF NOT EXISTS shelf_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `shelf` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'power shelf',
    `output_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, watt; Redfish PowerSupply; NaN where missing',
    `input_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, watt; Redfish PowerSupplyMetrics InputPowerWatts; NaN where missing',
    `status_code` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; Redfish Status.Health: 0 OK, 1 warning, 2 critical; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, rack, shelf, ts, node, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one power shelf, one tick';

CREATE TABLE IF NOT EXISTS fan_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `fan` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'fan of a chassis',
    `speed_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; Redfish Fan SpeedPercent; NaN where missing',
    `speed_rpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, revolutions per minute; Redfish Fan SpeedPercent.SpeedRPM; NaN where missing',
    `status_code` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; Redfish Status.Health: 0 OK, 1 warning, 2 critical; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, rack, fan, ts, node, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one fan, one poll';

CREATE TABLE IF NOT EXISTS sensor_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `sensor` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'sensor of a baseboard, cooling unit or power shelf',
    `temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; Redfish Sensor, Thermal or ThermalMetrics; NaN where missing',
    `margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, degree Celsius; Redfish Sensor with ReadingBasis Headroom: lower is worse; NaN where missing',
    `humidity_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; Redfish Sensor or EnvironmentMetrics; NaN where missing',
    `power_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, watt; Redfish Sensor or EnvironmentMetrics; NaN where missing',
    `flow_lpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, litre per minute; Redfish Sensor; NaN where missing',
    `pressure_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, kilopascal; Redfish Sensor; NaN where missing',
    `level_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; Redfish Sensor; NaN where missing',
    `speed_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; Redfish Sensor; NaN where missing',
    `speed_rpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, revolutions per minute; Redfish Sensor; NaN where missing',
    `voltage_v` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, volt; Redfish Sensor; NaN where missing',
    `current_a` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, ampere; Redfish Sensor; NaN where missing',
    `alarm_code` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; Redfish Thresholds: 0 inside, 1 caution, 2 critical, 3 fatal; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, rack, sensor, ts, node, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one sensor of a management controller, one poll';

CREATE TABLE IF NOT EXISTS processor_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `processor` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'GPU or other processor, as its controller names it',
    `speed_mhz` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, megahertz; Redfish ProcessorMetrics OperatingSpeedMHz; NaN where missing',
    `bandwidth_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, percent; Redfish ProcessorMetrics BandwidthPercent; NaN where missing',
    `power_throttled_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, second; PowerLimitThrottleDuration; NaN where missing',
    `thermal_throttled_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, second; ThermalLimitThrottleDuration; NaN where missing',
    `hardware_throttled_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, second; HardwareViolationThrottleDuration; NaN where missing',
    `software_throttled_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, second; GlobalSoftwareViolation...Duration; NaN where missing',
    `ecc_correctable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; CacheMetricsTotal.LifeTime; NaN where missing',
    `ecc_uncorrectable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; CacheMetricsTotal.LifeTime; NaN where missing',
    `sram_threshold_exceeded` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; SRAMECCErrorThresholdExceeded; NaN where missing',
    `pcie_correctable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; PCIeErrors; NaN where missing',
    `pcie_uncorrectable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; PCIeErrors, (non-)fatal; NaN where missing',
    `pcie_replay_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; PCIeErrors ReplayCount; NaN where missing',
    `pcie_recovery_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; PCIeErrors L0ToRecoveryCount; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, rack, processor, ts, node, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one GPU as its controller tells it, one poll';

CREATE TABLE IF NOT EXISTS port_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `processor` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'GPU or other processor, as its controller names it',
    `port` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'port of the device or processor',
    `up` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; Redfish Port LinkStatus; NaN where missing',
    `speed_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, bytes per second; Redfish Port CurrentSpeedGbps; NaN where missing',
    `status_code` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'code; Redfish Port Status.Health: 0 OK to 2 critical; NaN where missing',
    `symbol_ber_log10` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, power of ten; Redfish PortMetrics BitErrorRate; NaN where missing',
    `effective_ber_log10` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, power of ten; Redfish PortMetrics EffectiveBER; NaN where missing',
    `symbol_error_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; Redfish PortMetrics SymbolErrors; NaN where missing',
    `effective_error_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; Redfish PortMetrics EffectiveError; NaN where missing',
    `malformed_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; Redfish PortMetrics MalformedPackets; NaN where missing',
    `recovery_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; PortMetrics LinkErrorRecoveryCount; NaN where missing',
    `downed_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'counter, count; Redfish PortMetrics LinkDownedCount; NaN where missing',
    `runtime_error` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; Redfish PortMetrics NVLinkErrors; NaN where missing',
    `training_error` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; Redfish PortMetrics NVLinkErrors; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, rack, processor, port, ts, node, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one NVLink port as its controller tells it, one poll';

CREATE TABLE IF NOT EXISTS bmc_samples
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `bmc` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'management controller',
    `answers` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'flag; whether the management controller answered this poll; NaN where missing',
    `poll_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'gauge, second; how long the poll took; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, rack, bmc, ts, node, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one poll of one management controller';

CREATE TABLE IF NOT EXISTS node_frames
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `tray` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'tray in the rack; NULL where unknown',
    `missing` Map(LowCardinality(String), UInt64) CODEC(ZSTD(1)) COMMENT 'readings that are NaN, counted by reason',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, ts, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one message of a node: what was missing in it, and why';

CREATE TABLE IF NOT EXISTS rack_frames
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `missing` Map(LowCardinality(String), UInt64) CODEC(ZSTD(1)) COMMENT 'readings that are NaN, counted by reason',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, rack, ts, node, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one message of a rack: what was missing in it, and why';

CREATE TABLE IF NOT EXISTS events
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'when it happened, by the best clock at hand, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `kind` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what happened: xid, sxid, link_down, leak, process_gone, ...',
    `severity` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'info, warning or critical',
    `code` Nullable(Int64) CODEC(T64, ZSTD(1)) COMMENT 'the event\'s number, such as the XID; NULL where it has none',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `pci` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'PCI address',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `rank` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `boot_id` String CODEC(ZSTD(1)) COMMENT 'the kernel\'s boot, for lines of the kernel log',
    `kmsg_seq` Nullable(UInt64) CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the line in the kernel log; NULL for other events',
    `text` String CODEC(ZSTD(1)) COMMENT 'the event in words',
    `detail` Map(LowCardinality(String), String) CODEC(ZSTD(1)) COMMENT 'more, as the source said it',
    `origin` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what numbers the event: kmsg:BOOT for the kernel log, run:RUN_ID for the agent',
    `number` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the event within its origin',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, origin, number)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'something that happened at a moment';

CREATE TABLE IF NOT EXISTS inventory
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `tray` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'tray in the rack; NULL where unknown',
    `cooling_loop` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cooling loop the node hangs on',
    `driver` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'version of the GPU driver',
    `nics` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'network cards',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'what a node is made of, when that changed';

CREATE TABLE IF NOT EXISTS inventory_gpus
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `tray` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'tray in the rack; NULL where unknown',
    `cooling_loop` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cooling loop the node hangs on',
    `driver` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'version of the GPU driver',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `pci` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'PCI address',
    `serial` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'serial number',
    `product` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'product name of the GPU',
    `slot` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'slot of the GPU in its node',
    `vbios` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'version of the GPU\'s firmware',
    `chassis` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'serial number of the chassis, as the platform tells it',
    `chassis_slot` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'slot of the chassis, as the platform tells it; NULL where it does not',
    `chassis_tray` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'tray of the chassis, as the platform tells it; NULL where it does not',
    `chassis_host` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'host in the tray, as the platform tells it; NULL where it does not',
    `module` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'module on the board, as the platform tells it; NULL where it does not',
    `place` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'place of the row in its message',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, gpu, run_id, seq, place)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one GPU of a node';

CREATE TABLE IF NOT EXISTS inventory_memberships
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `tray` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'tray in the rack; NULL where unknown',
    `cooling_loop` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cooling loop the node hangs on',
    `driver` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'version of the GPU driver',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `pid` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'process id on the node',
    `communicators` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'communicators of the rank',
    `since_at` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'when this was first seen',
    `place` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'place of the row in its message',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, job, rank, node, run_id, seq, place)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one rank of a job on a node';

CREATE TABLE IF NOT EXISTS collective_operations
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `coverage` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'part of the operations that the source had, 0 to 1',
    `sample_level` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'operations are kept where their hash has this many leading zero bits',
    `source` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what the collectives were read from',
    `function` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the collective: AllReduce, AllGather, ...',
    `sn` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'sequence number per communicator and function',
    `size_bytes` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'size of the message in bytes',
    `exec_time_us` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'duration on the GPU in microseconds, the wait for peers included',
    `operation_at` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'when the source saw the operation',
    `place` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'place of the row in its message',
    `communicator` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'hash of the communicator, as the source printed it',
    `communicator_name` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the communicator; need not be unique',
    `communicator_size` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'ranks in the communicator',
    `communicator_nodes` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'nodes in the communicator; 0 where unknown',
    `rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `comm_rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'rank inside the communicator',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it',
    INDEX ts_range ts TYPE minmax,
    INDEX stored_at_range stored_at TYPE minmax
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, job, communicator, function, sn, node, run_id, seq, place)
TTL toDateTime(stored_at) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one sampled NCCL collective of one rank';

CREATE TABLE IF NOT EXISTS collective_blocks
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `coverage` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'part of the operations that the source had, 0 to 1',
    `sample_level` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'operations are kept where their hash has this many leading zero bits',
    `source` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what the collectives were read from',
    `function` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the collective: AllReduce, AllGather, ...',
    `size_class` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'floor of log2 of the size in bytes',
    `k` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'a block holds 2^k sequence numbers',
    `block` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the block: sequence numbers from block * 2^k',
    `count` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'collectives summed in the row',
    `sum_us` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'sum of the durations in microseconds',
    `min_us` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'shortest of the row in microseconds',
    `max_us` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'longest of the row in microseconds',
    `place` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'place of the row in its message',
    `communicator` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'hash of the communicator, as the source printed it',
    `communicator_name` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the communicator; need not be unique',
    `communicator_size` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'ranks in the communicator',
    `communicator_nodes` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'nodes in the communicator; 0 where unknown',
    `rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `comm_rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'rank inside the communicator',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it',
    INDEX ts_range ts TYPE minmax,
    INDEX stored_at_range stored_at TYPE minmax
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, job, communicator, function, block, node, run_id, seq, place)
TTL toDateTime(stored_at) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'all collectives of one rank in a block of sequence numbers, summed';

CREATE TABLE IF NOT EXISTS collective_progress
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `coverage` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'part of the operations that the source had, 0 to 1',
    `sample_level` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'operations are kept where their hash has this many leading zero bits',
    `source` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what the collectives were read from',
    `function` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the collective: AllReduce, AllGather, ...',
    `last_sn` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'last sequence number seen',
    `completed_at` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'when that operation completed',
    `place` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'place of the row in its message',
    `communicator` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'hash of the communicator, as the source printed it',
    `communicator_name` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the communicator; need not be unique',
    `communicator_size` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'ranks in the communicator',
    `communicator_nodes` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'nodes in the communicator; 0 where unknown',
    `rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `comm_rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'rank inside the communicator',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, job, communicator, function, rank, ts, node, run_id, seq, place)
TTL toDateTime(stored_at) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'the last sequence number of one rank in a communicator, every interval';

CREATE TABLE IF NOT EXISTS steps
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `step` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the training step',
    `step_us` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'duration of the step in microseconds',
    `data_us` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'time waiting for data; NaN where not reported',
    `compute_us` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'time in computation, blocking collectives perhaps included; NaN where not reported',
    `comm_us` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'time in communication; NaN where not reported',
    `wait_us` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'time waiting for peers; NaN where not reported',
    `end_at` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'when the step ended; 1970 where not reported',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `phase` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'phase of training',
    `work` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'amount of work, such as tokens; NaN where not reported',
    `shape` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'form of the work, such as sequence length; NaN where not reported',
    `flops` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'floating-point operations of the step; NaN where not reported',
    `allocator_stall_us` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'stalls of the GPU memory allocator in the step; NaN where not reported',
    `place` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'place of the row in its message',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it',
    INDEX stored_at_range stored_at TYPE minmax
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, job, rank, ts, node, run_id, seq, place)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one training step of one rank';

CREATE TABLE IF NOT EXISTS gpu_scores
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `model` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'version of the forest model',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `pci` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'PCI address',
    `rank` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `score` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'isolation forest, 0 to 1, 0.5 is ordinary',
    `p_value` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'how rarely a healthy GPU scores this high; NaN while uncalibrated',
    `strongest` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'metrics that made the score, most first',
    `recent` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'recent events of the GPU, with their age',
    `place` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'place of the row in its message',
    `z` Map(LowCardinality(String), Float32) CODEC(ZSTD(1)) COMMENT 'robust z against the GPU\'s own baseline, by metric',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, gpu, ts, job, run_id, seq, place)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'how unusual one GPU was in one tick, with or without a job';

CREATE TABLE IF NOT EXISTS gpu_baselines
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `metric` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the metric',
    `centre` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'robust centre of the metric for this GPU',
    `spread` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'robust spread of the metric for this GPU',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, gpu, metric, ts, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'what is ordinary for one GPU and metric, once a minute';

CREATE TABLE IF NOT EXISTS findings
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `id` String CODEC(ZSTD(1)) COMMENT 'id of the episode; the same however often it is computed again',
    `revision` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'rises with every change',
    `detector` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the detector that speaks',
    `state` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'open, change, close, or a heartbeat between',
    `kind` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'straggler, hang, slow_link, hardware, cooling, imbalance or degradation',
    `cause` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cause, one spelling everywhere; unknown below the margin',
    `scope` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'rank, gpu, link, node, rack, group, stage, job or cluster',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `rank` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `link` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the link',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `group` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'group or stage, where the scope is one',
    `onset_at` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'when the trouble began',
    `score` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'strength of the verdict, on the detector\'s own scale',
    `confidence` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'how sure, 0 to 1',
    `runner_up` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the next likely cause; empty where there is none',
    `victims` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'ranks that wait for the culprit',
    `slowdown` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'how many times slower; NaN where it does not apply',
    `summary` String CODEC(ZSTD(1)) COMMENT 'one line for a pager',
    `evidence.text` Array(String) CODEC(ZSTD(1)) COMMENT 'evidence: the fact in one sentence',
    `evidence.metric` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'evidence: the metric',
    `evidence.value` Array(Float64) CODEC(ZSTD(1)) COMMENT 'evidence: the value; NaN where it does not apply',
    `evidence.baseline` Array(Float64) CODEC(ZSTD(1)) COMMENT 'evidence: what was ordinary; NaN where it does not apply',
    `evidence.peers` Array(Float64) CODEC(ZSTD(1)) COMMENT 'evidence: what the peers have; NaN where it does not apply',
    `evidence.unit` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'evidence: unit of the numbers',
    `onset_step` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'training step in which it began; NULL without steps',
    `detected_step` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'training step in which it was said; NULL without steps',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, id, revision)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one moment in the life of a verdict';

CREATE TABLE IF NOT EXISTS incidents
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `id` String CODEC(ZSTD(1)) COMMENT 'id of the incident; never changes while it lives',
    `revision` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'rises with every change',
    `change` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'why this revision was written: open, update, resolve',
    `state` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'suspect, confirmed, recovering or resolved',
    `kind` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'straggler, hang, slow_link, hardware, cooling, imbalance or degradation',
    `scope` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'rank, gpu, link, node, rack, group, stage, job or cluster',
    `cause` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cause, one spelling everywhere; unknown below the margin',
    `confidence` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'how sure, 0 to 1',
    `runner_up` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the next likely cause; empty where there is none',
    `severity` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'info, warning or critical',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `culprits.scope` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'culprits: rank, gpu, link, node, rack, group, stage, job or cluster',
    `culprits.job` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'culprits: job',
    `culprits.rank` Array(Nullable(UInt64)) CODEC(T64, ZSTD(1)) COMMENT 'culprits: global rank; NULL where it does not apply',
    `culprits.node` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'culprits: node',
    `culprits.gpu` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'culprits: UUID of the GPU',
    `culprits.link` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'culprits: link',
    `culprits.rack` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'culprits: rack',
    `culprits.group` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'culprits: group or stage',
    `victims` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'ranks that wait for the culprit',
    `slowdown` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'how many times slower; NaN where it does not apply',
    `onset_at` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'when the trouble began',
    `detected_at` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'first tick in which the incident could be said',
    `resolved_at` Nullable(DateTime64(3, 'UTC')) CODEC(Delta(8), ZSTD(1)) COMMENT 'when it was over; NULL while it is not',
    `onset_step` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'training step in which it began; NULL without steps',
    `detected_step` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'training step in which it was said; NULL without steps',
    `summary` String CODEC(ZSTD(1)) COMMENT 'one line for a pager',
    `evidence.text` Array(String) CODEC(ZSTD(1)) COMMENT 'evidence: the fact in one sentence',
    `evidence.metric` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'evidence: the metric',
    `evidence.value` Array(Float64) CODEC(ZSTD(1)) COMMENT 'evidence: the value; NaN where it does not apply',
    `evidence.baseline` Array(Float64) CODEC(ZSTD(1)) COMMENT 'evidence: what was ordinary; NaN where it does not apply',
    `evidence.peers` Array(Float64) CODEC(ZSTD(1)) COMMENT 'evidence: what the peers have; NaN where it does not apply',
    `evidence.unit` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'evidence: unit of the numbers',
    `action` String CODEC(ZSTD(1)) COMMENT 'what to do next',
    `sql` String CODEC(ZSTD(1)) COMMENT 'the SQL that shows the evidence',
    `findings` Array(String) CODEC(ZSTD(1)) COMMENT 'ids of the verdicts that the incident joins',
    `members` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'other nodes that it is about, with their GPUs',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, id, revision)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one revision of an incident';

CREATE TABLE IF NOT EXISTS alert_log
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `receiver` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'who is alerted',
    `incident` String CODEC(ZSTD(1)) COMMENT 'id of the incident',
    `revision` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'rises with every change',
    `action` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'trigger, update or resolve',
    `status` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'intent before a request; delivered, rejected or suppressed after it',
    `body` String CODEC(ZSTD(1)) COMMENT 'the request, byte for byte',
    `fingerprint` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'hash of the request\'s meaning',
    `attempts` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'requests sent so far',
    `response` String CODEC(ZSTD(1)) COMMENT 'what the receiver answered',
    `attempted_resolve` Bool CODEC(ZSTD(1)) COMMENT 'whether a resolve was ever sent: no trigger follows it',
    `route` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'where it was opened: the team, and a hash of the key',
    `handle` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what the receiver calls it',
    `about` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what a returning fault has in common with its last time',
    `held` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'why nothing is sent at present; empty where something may be',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, receiver, incident, revision, action, status)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'where an incident stands at a receiver';

CREATE TABLE IF NOT EXISTS silences
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `id` String CODEC(ZSTD(1)) COMMENT 'id of the silence',
    `author` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'who asked for it',
    `reason` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'why nobody is paged',
    `from_at` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'from when',
    `until_at` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'until when',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `cause` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cause, one spelling everywhere; unknown below the margin',
    `ended` Bool CODEC(ZSTD(1)) COMMENT 'whether somebody ended it early',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, id, ended)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'when nobody is paged, about what, and why';

CREATE TABLE IF NOT EXISTS models
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `name` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the model',
    `model` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'version of the forest model',
    `payload` String CODEC(ZSTD(1)) COMMENT 'the content, byte for byte',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
ORDER BY (cluster, name)
COMMENT 'the forest model in use, by name';

CREATE TABLE IF NOT EXISTS control
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node, or * for all',
    `interval_s` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'seconds between readings',
    `collectors` Array(LowCardinality(String)) CODEC(ZSTD(1)) COMMENT 'collectors that run; empty: all',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
ORDER BY (cluster, node)
COMMENT 'what agents should do';

CREATE TABLE IF NOT EXISTS health
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `process` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'kind of process',
    `instance` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'which of several such processes',
    `run_id` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'number of the process\'s start; rises for ever',
    `seq` UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the message within its run',
    `counters` Map(LowCardinality(String), Float64) CODEC(ZSTD(1)) COMMENT 'totals since the process started: received, sent, dropped{reason}, errors{code}',
    `gauges` Map(LowCardinality(String), Float64) CODEC(ZSTD(1)) COMMENT 'lag and age of the last event in seconds, and the like, as of now',
    `note` String CODEC(ZSTD(1)) COMMENT 'a word on the state',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, process, instance, run_id, seq)
TTL toDateTime(stored_at) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'self-counters of a process';

CREATE TABLE IF NOT EXISTS dead_letters
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'the tick, UTC',
    `process` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'kind of process',
    `origin_topic` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'topic of the message',
    `origin_partition` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'partition of the message',
    `origin_offset` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'offset of the message',
    `reason` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'why, in one word',
    `detail` String CODEC(ZSTD(1)) COMMENT 'more, as the source said it',
    `payload` String CODEC(ZSTD(1)) COMMENT 'the content, byte for byte',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toDate(ts)
ORDER BY (cluster, process, origin_topic, origin_partition, origin_offset)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'a message that could not be used, and why';

CREATE TABLE IF NOT EXISTS gpu_10s
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `slot` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'slot of the GPU in its node',
    `rank` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `power_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_w; NaN where missing',
    `power_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_w; NaN where missing',
    `power_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_w; NaN where missing',
    `power_average_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_average_w; NaN where missing',
    `power_average_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_average_w; NaN where missing',
    `power_average_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_average_w; NaN where missing',
    `power_limit_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_limit_w; NaN where missing',
    `power_limit_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_limit_w; NaN where missing',
    `power_limit_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_limit_w; NaN where missing',
    `temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of temperature_c; NaN where missing',
    `temperature_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least temperature_c; NaN where missing',
    `temperature_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest temperature_c; NaN where missing',
    `memory_temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_temperature_c; NaN where missing',
    `memory_temperature_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_temperature_c; NaN where missing',
    `memory_temperature_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_temperature_c; NaN where missing',
    `thermal_margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of thermal_margin_c; NaN where missing',
    `thermal_margin_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least thermal_margin_c; NaN where missing',
    `thermal_margin_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest thermal_margin_c; NaN where missing',
    `sm_clock_mhz` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of sm_clock_mhz; NaN where missing',
    `sm_clock_mhz_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sm_clock_mhz; NaN where missing',
    `sm_clock_mhz_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sm_clock_mhz; NaN where missing',
    `memory_clock_mhz` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_clock_mhz; NaN where missing',
    `memory_clock_mhz_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_clock_mhz; NaN where missing',
    `memory_clock_mhz_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_clock_mhz; NaN where missing',
    `clocks_event_reasons` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'all bits of clocks_event_reasons that were set in the window',
    `power_cap_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_cap_share; NaN where missing',
    `power_cap_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_cap_share; NaN where missing',
    `power_cap_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_cap_share; NaN where missing',
    `software_thermal_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of software_thermal_share; NaN where missing',
    `software_thermal_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least software_thermal_share; NaN where missing',
    `software_thermal_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest software_thermal_share; NaN where missing',
    `hardware_thermal_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of hardware_thermal_share; NaN where missing',
    `hardware_thermal_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least hardware_thermal_share; NaN where missing',
    `hardware_thermal_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest hardware_thermal_share; NaN where missing',
    `power_brake_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_brake_share; NaN where missing',
    `power_brake_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_brake_share; NaN where missing',
    `power_brake_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_brake_share; NaN where missing',
    `gpu_utilization_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of gpu_utilization_pct; NaN where missing',
    `gpu_utilization_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least gpu_utilization_pct; NaN where missing',
    `gpu_utilization_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest gpu_utilization_pct; NaN where missing',
    `memory_utilization_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_utilization_pct; NaN where missing',
    `memory_utilization_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_utilization_pct; NaN where missing',
    `memory_utilization_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_utilization_pct; NaN where missing',
    `memory_used_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_used_mib; NaN where missing',
    `memory_used_mib_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_used_mib; NaN where missing',
    `memory_used_mib_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_used_mib; NaN where missing',
    `sm_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of sm_active_ratio; NaN where missing',
    `sm_active_ratio_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sm_active_ratio; NaN where missing',
    `sm_active_ratio_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sm_active_ratio; NaN where missing',
    `tensor_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of tensor_active_ratio; NaN where missing',
    `tensor_active_ratio_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least tensor_active_ratio; NaN where missing',
    `tensor_active_ratio_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest tensor_active_ratio; NaN where missing',
    `dram_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of dram_active_ratio; NaN where missing',
    `dram_active_ratio_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least dram_active_ratio; NaN where missing',
    `dram_active_ratio_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest dram_active_ratio; NaN where missing',
    `ecc_sbe_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_sbe_count; NaN where missing',
    `ecc_sbe_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_sbe_count; NaN where missing',
    `ecc_dbe_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_dbe_count; NaN where missing',
    `ecc_dbe_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_dbe_count; NaN where missing',
    `remapped_correctable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least remapped_correctable_count; NaN where missing',
    `remapped_correctable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remapped_correctable_count; NaN where missing',
    `remapped_uncorrectable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least remapped_uncorrectable_count; NaN where missing',
    `remapped_uncorrectable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remapped_uncorrectable_count; NaN where missing',
    `remap_pending_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remap_pending; NaN where missing',
    `remap_failed_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remap_failed; NaN where missing',
    `pcie_tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of pcie_tx_bytes_per_s; NaN where missing',
    `pcie_tx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_tx_bytes_per_s; NaN where missing',
    `pcie_tx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_tx_bytes_per_s; NaN where missing',
    `pcie_rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of pcie_rx_bytes_per_s; NaN where missing',
    `pcie_rx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_rx_bytes_per_s; NaN where missing',
    `pcie_rx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_rx_bytes_per_s; NaN where missing',
    `pcie_replay_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_replay_count; NaN where missing',
    `pcie_replay_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_replay_count; NaN where missing',
    `nvlink_tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of nvlink_tx_bytes_per_s; NaN where missing',
    `nvlink_tx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least nvlink_tx_bytes_per_s; NaN where missing',
    `nvlink_tx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest nvlink_tx_bytes_per_s; NaN where missing',
    `nvlink_rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of nvlink_rx_bytes_per_s; NaN where missing',
    `nvlink_rx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least nvlink_rx_bytes_per_s; NaN where missing',
    `nvlink_rx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest nvlink_rx_bytes_per_s; NaN where missing',
    `nvlink_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least nvlink_error_count; NaN where missing',
    `nvlink_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest nvlink_error_count; NaN where missing',
    `recovery_action_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest recovery_action; NaN where missing',
    `sync_boost_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of sync_boost_share; NaN where missing',
    `sync_boost_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sync_boost_share; NaN where missing',
    `sync_boost_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sync_boost_share; NaN where missing',
    `pcie_generation_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_generation; NaN where missing',
    `pcie_width_lanes_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_width_lanes; NaN where missing',
    `pcie_width_most_lanes_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_width_most_lanes; NaN where missing',
    `pcie_correctable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_correctable_count; NaN where missing',
    `pcie_correctable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_correctable_count; NaN where missing',
    `pcie_uncorrectable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_uncorrectable_count; NaN where missing',
    `pcie_uncorrectable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_uncorrectable_count; NaN where missing',
    `pcie_recovery_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_recovery_count; NaN where missing',
    `pcie_recovery_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_recovery_count; NaN where missing',
    `mig_enabled_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest mig_enabled; NaN where missing',
    `fabric_state_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fabric_state; NaN where missing',
    `fabric_fault_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fabric_fault; NaN where missing',
    `power_limit_default_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_limit_default_w; NaN where missing',
    `power_limit_default_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_limit_default_w; NaN where missing',
    `power_limit_default_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_limit_default_w; NaN where missing',
    `slowdown_margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of slowdown_margin_c; NaN where missing',
    `slowdown_margin_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least slowdown_margin_c; NaN where missing',
    `slowdown_margin_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest slowdown_margin_c; NaN where missing',
    `ecc_sbe_lifetime_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_sbe_lifetime_count; NaN where missing',
    `ecc_sbe_lifetime_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_sbe_lifetime_count; NaN where missing',
    `ecc_dbe_lifetime_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_dbe_lifetime_count; NaN where missing',
    `ecc_dbe_lifetime_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_dbe_lifetime_count; NaN where missing',
    `sram_correctable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sram_correctable_count; NaN where missing',
    `sram_correctable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sram_correctable_count; NaN where missing',
    `sram_uncorrectable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sram_uncorrectable_count; NaN where missing',
    `sram_uncorrectable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sram_uncorrectable_count; NaN where missing',
    `sram_threshold_exceeded_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sram_threshold_exceeded; NaN where missing',
    `retired_page_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least retired_page_count; NaN where missing',
    `retired_page_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest retired_page_count; NaN where missing',
    `retirement_pending_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest retirement_pending; NaN where missing',
    `remap_banks_exhausted_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least remap_banks_exhausted_count; NaN where missing',
    `remap_banks_exhausted_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remap_banks_exhausted_count; NaN where missing',
    `memory_unrepairable_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_unrepairable; NaN where missing',
    `repair_pending_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest repair_pending; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toDate(ts)
ORDER BY (cluster, node, gpu, ts, job)
TTL toDateTime(stored_at) + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one GPU and job, ten seconds';

CREATE TABLE IF NOT EXISTS gpu_1m
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `slot` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'slot of the GPU in its node',
    `rank` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `power_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_w; NaN where missing',
    `power_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_w; NaN where missing',
    `power_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_w; NaN where missing',
    `power_average_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_average_w; NaN where missing',
    `power_average_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_average_w; NaN where missing',
    `power_average_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_average_w; NaN where missing',
    `power_limit_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_limit_w; NaN where missing',
    `power_limit_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_limit_w; NaN where missing',
    `power_limit_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_limit_w; NaN where missing',
    `temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of temperature_c; NaN where missing',
    `temperature_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least temperature_c; NaN where missing',
    `temperature_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest temperature_c; NaN where missing',
    `memory_temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_temperature_c; NaN where missing',
    `memory_temperature_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_temperature_c; NaN where missing',
    `memory_temperature_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_temperature_c; NaN where missing',
    `thermal_margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of thermal_margin_c; NaN where missing',
    `thermal_margin_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least thermal_margin_c; NaN where missing',
    `thermal_margin_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest thermal_margin_c; NaN where missing',
    `sm_clock_mhz` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of sm_clock_mhz; NaN where missing',
    `sm_clock_mhz_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sm_clock_mhz; NaN where missing',
    `sm_clock_mhz_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sm_clock_mhz; NaN where missing',
    `memory_clock_mhz` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_clock_mhz; NaN where missing',
    `memory_clock_mhz_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_clock_mhz; NaN where missing',
    `memory_clock_mhz_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_clock_mhz; NaN where missing',
    `clocks_event_reasons` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'all bits of clocks_event_reasons that were set in the window',
    `power_cap_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_cap_share; NaN where missing',
    `power_cap_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_cap_share; NaN where missing',
    `power_cap_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_cap_share; NaN where missing',
    `software_thermal_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of software_thermal_share; NaN where missing',
    `software_thermal_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least software_thermal_share; NaN where missing',
    `software_thermal_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest software_thermal_share; NaN where missing',
    `hardware_thermal_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of hardware_thermal_share; NaN where missing',
    `hardware_thermal_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least hardware_thermal_share; NaN where missing',
    `hardware_thermal_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest hardware_thermal_share; NaN where missing',
    `power_brake_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_brake_share; NaN where missing',
    `power_brake_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_brake_share; NaN where missing',
    `power_brake_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_brake_share; NaN where missing',
    `gpu_utilization_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of gpu_utilization_pct; NaN where missing',
    `gpu_utilization_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least gpu_utilization_pct; NaN where missing',
    `gpu_utilization_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest gpu_utilization_pct; NaN where missing',
    `memory_utilization_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_utilization_pct; NaN where missing',
    `memory_utilization_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_utilization_pct; NaN where missing',
    `memory_utilization_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_utilization_pct; NaN where missing',
    `memory_used_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_used_mib; NaN where missing',
    `memory_used_mib_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_used_mib; NaN where missing',
    `memory_used_mib_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_used_mib; NaN where missing',
    `sm_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of sm_active_ratio; NaN where missing',
    `sm_active_ratio_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sm_active_ratio; NaN where missing',
    `sm_active_ratio_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sm_active_ratio; NaN where missing',
    `tensor_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of tensor_active_ratio; NaN where missing',
    `tensor_active_ratio_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least tensor_active_ratio; NaN where missing',
    `tensor_active_ratio_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest tensor_active_ratio; NaN where missing',
    `dram_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of dram_active_ratio; NaN where missing',
    `dram_active_ratio_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least dram_active_ratio; NaN where missing',
    `dram_active_ratio_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest dram_active_ratio; NaN where missing',
    `ecc_sbe_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_sbe_count; NaN where missing',
    `ecc_sbe_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_sbe_count; NaN where missing',
    `ecc_dbe_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_dbe_count; NaN where missing',
    `ecc_dbe_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_dbe_count; NaN where missing',
    `remapped_correctable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least remapped_correctable_count; NaN where missing',
    `remapped_correctable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remapped_correctable_count; NaN where missing',
    `remapped_uncorrectable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least remapped_uncorrectable_count; NaN where missing',
    `remapped_uncorrectable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remapped_uncorrectable_count; NaN where missing',
    `remap_pending_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remap_pending; NaN where missing',
    `remap_failed_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remap_failed; NaN where missing',
    `pcie_tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of pcie_tx_bytes_per_s; NaN where missing',
    `pcie_tx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_tx_bytes_per_s; NaN where missing',
    `pcie_tx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_tx_bytes_per_s; NaN where missing',
    `pcie_rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of pcie_rx_bytes_per_s; NaN where missing',
    `pcie_rx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_rx_bytes_per_s; NaN where missing',
    `pcie_rx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_rx_bytes_per_s; NaN where missing',
    `pcie_replay_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_replay_count; NaN where missing',
    `pcie_replay_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_replay_count; NaN where missing',
    `nvlink_tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of nvlink_tx_bytes_per_s; NaN where missing',
    `nvlink_tx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least nvlink_tx_bytes_per_s; NaN where missing',
    `nvlink_tx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest nvlink_tx_bytes_per_s; NaN where missing',
    `nvlink_rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of nvlink_rx_bytes_per_s; NaN where missing',
    `nvlink_rx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least nvlink_rx_bytes_per_s; NaN where missing',
    `nvlink_rx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest nvlink_rx_bytes_per_s; NaN where missing',
    `nvlink_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least nvlink_error_count; NaN where missing',
    `nvlink_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest nvlink_error_count; NaN where missing',
    `recovery_action_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest recovery_action; NaN where missing',
    `sync_boost_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of sync_boost_share; NaN where missing',
    `sync_boost_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sync_boost_share; NaN where missing',
    `sync_boost_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sync_boost_share; NaN where missing',
    `pcie_generation_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_generation; NaN where missing',
    `pcie_width_lanes_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_width_lanes; NaN where missing',
    `pcie_width_most_lanes_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_width_most_lanes; NaN where missing',
    `pcie_correctable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_correctable_count; NaN where missing',
    `pcie_correctable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_correctable_count; NaN where missing',
    `pcie_uncorrectable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_uncorrectable_count; NaN where missing',
    `pcie_uncorrectable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_uncorrectable_count; NaN where missing',
    `pcie_recovery_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_recovery_count; NaN where missing',
    `pcie_recovery_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_recovery_count; NaN where missing',
    `mig_enabled_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest mig_enabled; NaN where missing',
    `fabric_state_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fabric_state; NaN where missing',
    `fabric_fault_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fabric_fault; NaN where missing',
    `power_limit_default_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_limit_default_w; NaN where missing',
    `power_limit_default_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_limit_default_w; NaN where missing',
    `power_limit_default_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_limit_default_w; NaN where missing',
    `slowdown_margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of slowdown_margin_c; NaN where missing',
    `slowdown_margin_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least slowdown_margin_c; NaN where missing',
    `slowdown_margin_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest slowdown_margin_c; NaN where missing',
    `ecc_sbe_lifetime_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_sbe_lifetime_count; NaN where missing',
    `ecc_sbe_lifetime_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_sbe_lifetime_count; NaN where missing',
    `ecc_dbe_lifetime_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_dbe_lifetime_count; NaN where missing',
    `ecc_dbe_lifetime_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_dbe_lifetime_count; NaN where missing',
    `sram_correctable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sram_correctable_count; NaN where missing',
    `sram_correctable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sram_correctable_count; NaN where missing',
    `sram_uncorrectable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sram_uncorrectable_count; NaN where missing',
    `sram_uncorrectable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sram_uncorrectable_count; NaN where missing',
    `sram_threshold_exceeded_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sram_threshold_exceeded; NaN where missing',
    `retired_page_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least retired_page_count; NaN where missing',
    `retired_page_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest retired_page_count; NaN where missing',
    `retirement_pending_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest retirement_pending; NaN where missing',
    `remap_banks_exhausted_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least remap_banks_exhausted_count; NaN where missing',
    `remap_banks_exhausted_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remap_banks_exhausted_count; NaN where missing',
    `memory_unrepairable_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_unrepairable; NaN where missing',
    `repair_pending_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest repair_pending; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, node, gpu, ts, job)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one GPU and job, a minute';

CREATE TABLE IF NOT EXISTS gpu_1h
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `slot` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'slot of the GPU in its node',
    `rank` Nullable(UInt64) CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job; NULL where nobody claims the GPU',
    `power_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_w; NaN where missing',
    `power_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_w; NaN where missing',
    `power_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_w; NaN where missing',
    `power_average_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_average_w; NaN where missing',
    `power_average_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_average_w; NaN where missing',
    `power_average_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_average_w; NaN where missing',
    `power_limit_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_limit_w; NaN where missing',
    `power_limit_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_limit_w; NaN where missing',
    `power_limit_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_limit_w; NaN where missing',
    `temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of temperature_c; NaN where missing',
    `temperature_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least temperature_c; NaN where missing',
    `temperature_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest temperature_c; NaN where missing',
    `memory_temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_temperature_c; NaN where missing',
    `memory_temperature_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_temperature_c; NaN where missing',
    `memory_temperature_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_temperature_c; NaN where missing',
    `thermal_margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of thermal_margin_c; NaN where missing',
    `thermal_margin_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least thermal_margin_c; NaN where missing',
    `thermal_margin_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest thermal_margin_c; NaN where missing',
    `sm_clock_mhz` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of sm_clock_mhz; NaN where missing',
    `sm_clock_mhz_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sm_clock_mhz; NaN where missing',
    `sm_clock_mhz_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sm_clock_mhz; NaN where missing',
    `memory_clock_mhz` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_clock_mhz; NaN where missing',
    `memory_clock_mhz_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_clock_mhz; NaN where missing',
    `memory_clock_mhz_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_clock_mhz; NaN where missing',
    `clocks_event_reasons` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'all bits of clocks_event_reasons that were set in the window',
    `power_cap_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_cap_share; NaN where missing',
    `power_cap_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_cap_share; NaN where missing',
    `power_cap_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_cap_share; NaN where missing',
    `software_thermal_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of software_thermal_share; NaN where missing',
    `software_thermal_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least software_thermal_share; NaN where missing',
    `software_thermal_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest software_thermal_share; NaN where missing',
    `hardware_thermal_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of hardware_thermal_share; NaN where missing',
    `hardware_thermal_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least hardware_thermal_share; NaN where missing',
    `hardware_thermal_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest hardware_thermal_share; NaN where missing',
    `power_brake_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_brake_share; NaN where missing',
    `power_brake_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_brake_share; NaN where missing',
    `power_brake_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_brake_share; NaN where missing',
    `gpu_utilization_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of gpu_utilization_pct; NaN where missing',
    `gpu_utilization_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least gpu_utilization_pct; NaN where missing',
    `gpu_utilization_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest gpu_utilization_pct; NaN where missing',
    `memory_utilization_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_utilization_pct; NaN where missing',
    `memory_utilization_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_utilization_pct; NaN where missing',
    `memory_utilization_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_utilization_pct; NaN where missing',
    `memory_used_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_used_mib; NaN where missing',
    `memory_used_mib_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_used_mib; NaN where missing',
    `memory_used_mib_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_used_mib; NaN where missing',
    `sm_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of sm_active_ratio; NaN where missing',
    `sm_active_ratio_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sm_active_ratio; NaN where missing',
    `sm_active_ratio_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sm_active_ratio; NaN where missing',
    `tensor_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of tensor_active_ratio; NaN where missing',
    `tensor_active_ratio_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least tensor_active_ratio; NaN where missing',
    `tensor_active_ratio_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest tensor_active_ratio; NaN where missing',
    `dram_active_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of dram_active_ratio; NaN where missing',
    `dram_active_ratio_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least dram_active_ratio; NaN where missing',
    `dram_active_ratio_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest dram_active_ratio; NaN where missing',
    `ecc_sbe_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_sbe_count; NaN where missing',
    `ecc_sbe_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_sbe_count; NaN where missing',
    `ecc_dbe_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_dbe_count; NaN where missing',
    `ecc_dbe_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_dbe_count; NaN where missing',
    `remapped_correctable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least remapped_correctable_count; NaN where missing',
    `remapped_correctable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remapped_correctable_count; NaN where missing',
    `remapped_uncorrectable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least remapped_uncorrectable_count; NaN where missing',
    `remapped_uncorrectable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remapped_uncorrectable_count; NaN where missing',
    `remap_pending_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remap_pending; NaN where missing',
    `remap_failed_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remap_failed; NaN where missing',
    `pcie_tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of pcie_tx_bytes_per_s; NaN where missing',
    `pcie_tx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_tx_bytes_per_s; NaN where missing',
    `pcie_tx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_tx_bytes_per_s; NaN where missing',
    `pcie_rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of pcie_rx_bytes_per_s; NaN where missing',
    `pcie_rx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_rx_bytes_per_s; NaN where missing',
    `pcie_rx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_rx_bytes_per_s; NaN where missing',
    `pcie_replay_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_replay_count; NaN where missing',
    `pcie_replay_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_replay_count; NaN where missing',
    `nvlink_tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of nvlink_tx_bytes_per_s; NaN where missing',
    `nvlink_tx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least nvlink_tx_bytes_per_s; NaN where missing',
    `nvlink_tx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest nvlink_tx_bytes_per_s; NaN where missing',
    `nvlink_rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of nvlink_rx_bytes_per_s; NaN where missing',
    `nvlink_rx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least nvlink_rx_bytes_per_s; NaN where missing',
    `nvlink_rx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest nvlink_rx_bytes_per_s; NaN where missing',
    `nvlink_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least nvlink_error_count; NaN where missing',
    `nvlink_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest nvlink_error_count; NaN where missing',
    `recovery_action_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest recovery_action; NaN where missing',
    `sync_boost_share` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of sync_boost_share; NaN where missing',
    `sync_boost_share_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sync_boost_share; NaN where missing',
    `sync_boost_share_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sync_boost_share; NaN where missing',
    `pcie_generation_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_generation; NaN where missing',
    `pcie_width_lanes_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_width_lanes; NaN where missing',
    `pcie_width_most_lanes_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_width_most_lanes; NaN where missing',
    `pcie_correctable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_correctable_count; NaN where missing',
    `pcie_correctable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_correctable_count; NaN where missing',
    `pcie_uncorrectable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_uncorrectable_count; NaN where missing',
    `pcie_uncorrectable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_uncorrectable_count; NaN where missing',
    `pcie_recovery_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least pcie_recovery_count; NaN where missing',
    `pcie_recovery_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest pcie_recovery_count; NaN where missing',
    `mig_enabled_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest mig_enabled; NaN where missing',
    `fabric_state_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fabric_state; NaN where missing',
    `fabric_fault_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fabric_fault; NaN where missing',
    `power_limit_default_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_limit_default_w; NaN where missing',
    `power_limit_default_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_limit_default_w; NaN where missing',
    `power_limit_default_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_limit_default_w; NaN where missing',
    `slowdown_margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of slowdown_margin_c; NaN where missing',
    `slowdown_margin_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least slowdown_margin_c; NaN where missing',
    `slowdown_margin_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest slowdown_margin_c; NaN where missing',
    `ecc_sbe_lifetime_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_sbe_lifetime_count; NaN where missing',
    `ecc_sbe_lifetime_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_sbe_lifetime_count; NaN where missing',
    `ecc_dbe_lifetime_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least ecc_dbe_lifetime_count; NaN where missing',
    `ecc_dbe_lifetime_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest ecc_dbe_lifetime_count; NaN where missing',
    `sram_correctable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sram_correctable_count; NaN where missing',
    `sram_correctable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sram_correctable_count; NaN where missing',
    `sram_uncorrectable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least sram_uncorrectable_count; NaN where missing',
    `sram_uncorrectable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sram_uncorrectable_count; NaN where missing',
    `sram_threshold_exceeded_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest sram_threshold_exceeded; NaN where missing',
    `retired_page_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least retired_page_count; NaN where missing',
    `retired_page_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest retired_page_count; NaN where missing',
    `retirement_pending_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest retirement_pending; NaN where missing',
    `remap_banks_exhausted_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least remap_banks_exhausted_count; NaN where missing',
    `remap_banks_exhausted_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remap_banks_exhausted_count; NaN where missing',
    `memory_unrepairable_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_unrepairable; NaN where missing',
    `repair_pending_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest repair_pending; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, node, gpu, ts, job)
TTL toDateTime(stored_at) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one GPU and job, an hour';

CREATE TABLE IF NOT EXISTS nvlink_1m
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `link` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the link',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `state_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest state; NaN where missing',
    `speed_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of speed_bytes_per_s; NaN where missing',
    `speed_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least speed_bytes_per_s; NaN where missing',
    `speed_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest speed_bytes_per_s; NaN where missing',
    `tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of tx_bytes_per_s; NaN where missing',
    `tx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least tx_bytes_per_s; NaN where missing',
    `tx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest tx_bytes_per_s; NaN where missing',
    `rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of rx_bytes_per_s; NaN where missing',
    `rx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least rx_bytes_per_s; NaN where missing',
    `rx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest rx_bytes_per_s; NaN where missing',
    `replay_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least replay_count; NaN where missing',
    `replay_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest replay_count; NaN where missing',
    `recovery_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least recovery_count; NaN where missing',
    `recovery_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest recovery_count; NaN where missing',
    `crc_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least crc_error_count; NaN where missing',
    `crc_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest crc_error_count; NaN where missing',
    `malformed_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least malformed_count; NaN where missing',
    `malformed_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest malformed_count; NaN where missing',
    `overrun_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least overrun_count; NaN where missing',
    `overrun_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest overrun_count; NaN where missing',
    `receive_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least receive_error_count; NaN where missing',
    `receive_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest receive_error_count; NaN where missing',
    `remote_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least remote_error_count; NaN where missing',
    `remote_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remote_error_count; NaN where missing',
    `general_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least general_error_count; NaN where missing',
    `general_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest general_error_count; NaN where missing',
    `integrity_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least integrity_error_count; NaN where missing',
    `integrity_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest integrity_error_count; NaN where missing',
    `discard_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least discard_count; NaN where missing',
    `discard_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest discard_count; NaN where missing',
    `recovered_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least recovered_count; NaN where missing',
    `recovered_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest recovered_count; NaN where missing',
    `recovery_failed_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least recovery_failed_count; NaN where missing',
    `recovery_failed_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest recovery_failed_count; NaN where missing',
    `retransmit_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of retransmit_ratio; NaN where missing',
    `retransmit_ratio_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least retransmit_ratio; NaN where missing',
    `retransmit_ratio_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest retransmit_ratio; NaN where missing',
    `effective_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least effective_error_count; NaN where missing',
    `effective_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest effective_error_count; NaN where missing',
    `symbol_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least symbol_error_count; NaN where missing',
    `symbol_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest symbol_error_count; NaN where missing',
    `effective_ber_log10` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of effective_ber_log10; NaN where missing',
    `effective_ber_log10_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least effective_ber_log10; NaN where missing',
    `effective_ber_log10_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest effective_ber_log10; NaN where missing',
    `symbol_ber_log10` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of symbol_ber_log10; NaN where missing',
    `symbol_ber_log10_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least symbol_ber_log10; NaN where missing',
    `symbol_ber_log10_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest symbol_ber_log10; NaN where missing',
    `fec_0_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_0_per_s; NaN where missing',
    `fec_0_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_0_per_s; NaN where missing',
    `fec_0_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_0_per_s; NaN where missing',
    `fec_1_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_1_per_s; NaN where missing',
    `fec_1_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_1_per_s; NaN where missing',
    `fec_1_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_1_per_s; NaN where missing',
    `fec_2_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_2_per_s; NaN where missing',
    `fec_2_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_2_per_s; NaN where missing',
    `fec_2_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_2_per_s; NaN where missing',
    `fec_3_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_3_per_s; NaN where missing',
    `fec_3_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_3_per_s; NaN where missing',
    `fec_3_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_3_per_s; NaN where missing',
    `fec_4_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_4_per_s; NaN where missing',
    `fec_4_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_4_per_s; NaN where missing',
    `fec_4_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_4_per_s; NaN where missing',
    `fec_5_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_5_per_s; NaN where missing',
    `fec_5_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_5_per_s; NaN where missing',
    `fec_5_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_5_per_s; NaN where missing',
    `fec_6_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_6_per_s; NaN where missing',
    `fec_6_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_6_per_s; NaN where missing',
    `fec_6_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_6_per_s; NaN where missing',
    `fec_7_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_7_per_s; NaN where missing',
    `fec_7_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_7_per_s; NaN where missing',
    `fec_7_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_7_per_s; NaN where missing',
    `fec_8_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_8_per_s; NaN where missing',
    `fec_8_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_8_per_s; NaN where missing',
    `fec_8_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_8_per_s; NaN where missing',
    `fec_9_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_9_per_s; NaN where missing',
    `fec_9_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_9_per_s; NaN where missing',
    `fec_9_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_9_per_s; NaN where missing',
    `fec_10_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_10_per_s; NaN where missing',
    `fec_10_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_10_per_s; NaN where missing',
    `fec_10_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_10_per_s; NaN where missing',
    `fec_11_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_11_per_s; NaN where missing',
    `fec_11_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_11_per_s; NaN where missing',
    `fec_11_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_11_per_s; NaN where missing',
    `fec_12_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_12_per_s; NaN where missing',
    `fec_12_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_12_per_s; NaN where missing',
    `fec_12_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_12_per_s; NaN where missing',
    `fec_13_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_13_per_s; NaN where missing',
    `fec_13_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_13_per_s; NaN where missing',
    `fec_13_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_13_per_s; NaN where missing',
    `fec_14_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_14_per_s; NaN where missing',
    `fec_14_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_14_per_s; NaN where missing',
    `fec_14_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_14_per_s; NaN where missing',
    `fec_15_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_15_per_s; NaN where missing',
    `fec_15_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_15_per_s; NaN where missing',
    `fec_15_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_15_per_s; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, node, gpu, link, ts)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one NVLink of a GPU, a minute';

CREATE TABLE IF NOT EXISTS nvlink_1h
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `link` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the link',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `state_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest state; NaN where missing',
    `speed_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of speed_bytes_per_s; NaN where missing',
    `speed_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least speed_bytes_per_s; NaN where missing',
    `speed_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest speed_bytes_per_s; NaN where missing',
    `tx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of tx_bytes_per_s; NaN where missing',
    `tx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least tx_bytes_per_s; NaN where missing',
    `tx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest tx_bytes_per_s; NaN where missing',
    `rx_bytes_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of rx_bytes_per_s; NaN where missing',
    `rx_bytes_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least rx_bytes_per_s; NaN where missing',
    `rx_bytes_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest rx_bytes_per_s; NaN where missing',
    `replay_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least replay_count; NaN where missing',
    `replay_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest replay_count; NaN where missing',
    `recovery_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least recovery_count; NaN where missing',
    `recovery_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest recovery_count; NaN where missing',
    `crc_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least crc_error_count; NaN where missing',
    `crc_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest crc_error_count; NaN where missing',
    `malformed_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least malformed_count; NaN where missing',
    `malformed_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest malformed_count; NaN where missing',
    `overrun_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least overrun_count; NaN where missing',
    `overrun_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest overrun_count; NaN where missing',
    `receive_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least receive_error_count; NaN where missing',
    `receive_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest receive_error_count; NaN where missing',
    `remote_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least remote_error_count; NaN where missing',
    `remote_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest remote_error_count; NaN where missing',
    `general_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least general_error_count; NaN where missing',
    `general_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest general_error_count; NaN where missing',
    `integrity_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least integrity_error_count; NaN where missing',
    `integrity_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest integrity_error_count; NaN where missing',
    `discard_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least discard_count; NaN where missing',
    `discard_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest discard_count; NaN where missing',
    `recovered_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least recovered_count; NaN where missing',
    `recovered_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest recovered_count; NaN where missing',
    `recovery_failed_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least recovery_failed_count; NaN where missing',
    `recovery_failed_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest recovery_failed_count; NaN where missing',
    `retransmit_ratio` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of retransmit_ratio; NaN where missing',
    `retransmit_ratio_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least retransmit_ratio; NaN where missing',
    `retransmit_ratio_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest retransmit_ratio; NaN where missing',
    `effective_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least effective_error_count; NaN where missing',
    `effective_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest effective_error_count; NaN where missing',
    `symbol_error_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least symbol_error_count; NaN where missing',
    `symbol_error_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest symbol_error_count; NaN where missing',
    `effective_ber_log10` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of effective_ber_log10; NaN where missing',
    `effective_ber_log10_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least effective_ber_log10; NaN where missing',
    `effective_ber_log10_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest effective_ber_log10; NaN where missing',
    `symbol_ber_log10` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of symbol_ber_log10; NaN where missing',
    `symbol_ber_log10_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least symbol_ber_log10; NaN where missing',
    `symbol_ber_log10_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest symbol_ber_log10; NaN where missing',
    `fec_0_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_0_per_s; NaN where missing',
    `fec_0_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_0_per_s; NaN where missing',
    `fec_0_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_0_per_s; NaN where missing',
    `fec_1_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_1_per_s; NaN where missing',
    `fec_1_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_1_per_s; NaN where missing',
    `fec_1_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_1_per_s; NaN where missing',
    `fec_2_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_2_per_s; NaN where missing',
    `fec_2_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_2_per_s; NaN where missing',
    `fec_2_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_2_per_s; NaN where missing',
    `fec_3_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_3_per_s; NaN where missing',
    `fec_3_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_3_per_s; NaN where missing',
    `fec_3_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_3_per_s; NaN where missing',
    `fec_4_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_4_per_s; NaN where missing',
    `fec_4_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_4_per_s; NaN where missing',
    `fec_4_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_4_per_s; NaN where missing',
    `fec_5_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_5_per_s; NaN where missing',
    `fec_5_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_5_per_s; NaN where missing',
    `fec_5_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_5_per_s; NaN where missing',
    `fec_6_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_6_per_s; NaN where missing',
    `fec_6_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_6_per_s; NaN where missing',
    `fec_6_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_6_per_s; NaN where missing',
    `fec_7_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_7_per_s; NaN where missing',
    `fec_7_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_7_per_s; NaN where missing',
    `fec_7_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_7_per_s; NaN where missing',
    `fec_8_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_8_per_s; NaN where missing',
    `fec_8_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_8_per_s; NaN where missing',
    `fec_8_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_8_per_s; NaN where missing',
    `fec_9_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_9_per_s; NaN where missing',
    `fec_9_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_9_per_s; NaN where missing',
    `fec_9_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_9_per_s; NaN where missing',
    `fec_10_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_10_per_s; NaN where missing',
    `fec_10_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_10_per_s; NaN where missing',
    `fec_10_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_10_per_s; NaN where missing',
    `fec_11_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_11_per_s; NaN where missing',
    `fec_11_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_11_per_s; NaN where missing',
    `fec_11_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_11_per_s; NaN where missing',
    `fec_12_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_12_per_s; NaN where missing',
    `fec_12_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_12_per_s; NaN where missing',
    `fec_12_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_12_per_s; NaN where missing',
    `fec_13_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_13_per_s; NaN where missing',
    `fec_13_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_13_per_s; NaN where missing',
    `fec_13_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_13_per_s; NaN where missing',
    `fec_14_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_14_per_s; NaN where missing',
    `fec_14_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_14_per_s; NaN where missing',
    `fec_14_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_14_per_s; NaN where missing',
    `fec_15_per_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fec_15_per_s; NaN where missing',
    `fec_15_per_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fec_15_per_s; NaN where missing',
    `fec_15_per_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fec_15_per_s; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, node, gpu, link, ts)
TTL toDateTime(stored_at) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one NVLink of a GPU, an hour';

CREATE TABLE IF NOT EXISTS host_1m
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `cpu_utilization_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of cpu_utilization_pct; NaN where missing',
    `cpu_utilization_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least cpu_utilization_pct; NaN where missing',
    `cpu_utilization_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest cpu_utilization_pct; NaN where missing',
    `cpu_steal_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of cpu_steal_pct; NaN where missing',
    `cpu_steal_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least cpu_steal_pct; NaN where missing',
    `cpu_steal_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest cpu_steal_pct; NaN where missing',
    `load_1m` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of load_1m; NaN where missing',
    `load_1m_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least load_1m; NaN where missing',
    `load_1m_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest load_1m; NaN where missing',
    `runnable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of runnable_count; NaN where missing',
    `runnable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least runnable_count; NaN where missing',
    `runnable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest runnable_count; NaN where missing',
    `memory_available_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_available_mib; NaN where missing',
    `memory_available_mib_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_available_mib; NaN where missing',
    `memory_available_mib_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_available_mib; NaN where missing',
    `memory_total_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_total_mib; NaN where missing',
    `memory_total_mib_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_total_mib; NaN where missing',
    `memory_total_mib_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_total_mib; NaN where missing',
    `cpu_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of cpu_pressure_pct; NaN where missing',
    `cpu_pressure_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least cpu_pressure_pct; NaN where missing',
    `cpu_pressure_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest cpu_pressure_pct; NaN where missing',
    `memory_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_pressure_pct; NaN where missing',
    `memory_pressure_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_pressure_pct; NaN where missing',
    `memory_pressure_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_pressure_pct; NaN where missing',
    `io_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of io_pressure_pct; NaN where missing',
    `io_pressure_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least io_pressure_pct; NaN where missing',
    `io_pressure_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest io_pressure_pct; NaN where missing',
    `disk_busy_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of disk_busy_pct; NaN where missing',
    `disk_busy_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least disk_busy_pct; NaN where missing',
    `disk_busy_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest disk_busy_pct; NaN where missing',
    `node_power_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of node_power_w; NaN where missing',
    `node_power_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least node_power_w; NaN where missing',
    `node_power_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest node_power_w; NaN where missing',
    `cpu_iowait_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of cpu_iowait_pct; NaN where missing',
    `cpu_iowait_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least cpu_iowait_pct; NaN where missing',
    `cpu_iowait_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest cpu_iowait_pct; NaN where missing',
    `blocked_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of blocked_count; NaN where missing',
    `blocked_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least blocked_count; NaN where missing',
    `blocked_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest blocked_count; NaN where missing',
    `swap_used_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of swap_used_mib; NaN where missing',
    `swap_used_mib_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least swap_used_mib; NaN where missing',
    `swap_used_mib_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest swap_used_mib; NaN where missing',
    `oom_kill_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least oom_kill_count; NaN where missing',
    `oom_kill_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest oom_kill_count; NaN where missing',
    `memory_full_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_full_pressure_pct; NaN where missing',
    `memory_full_pressure_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_full_pressure_pct; NaN where missing',
    `memory_full_pressure_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_full_pressure_pct; NaN where missing',
    `io_full_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of io_full_pressure_pct; NaN where missing',
    `io_full_pressure_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least io_full_pressure_pct; NaN where missing',
    `io_full_pressure_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest io_full_pressure_pct; NaN where missing',
    `disk_wait_ms` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of disk_wait_ms; NaN where missing',
    `disk_wait_ms_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least disk_wait_ms; NaN where missing',
    `disk_wait_ms_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest disk_wait_ms; NaN where missing',
    `rank_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of rank_count; NaN where missing',
    `rank_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least rank_count; NaN where missing',
    `rank_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest rank_count; NaN where missing',
    `rank_blocked_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of rank_blocked_count; NaN where missing',
    `rank_blocked_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least rank_blocked_count; NaN where missing',
    `rank_blocked_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest rank_blocked_count; NaN where missing',
    `rank_stopped_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of rank_stopped_count; NaN where missing',
    `rank_stopped_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least rank_stopped_count; NaN where missing',
    `rank_stopped_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest rank_stopped_count; NaN where missing',
    `clock_offset_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of clock_offset_s; NaN where missing',
    `clock_offset_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least clock_offset_s; NaN where missing',
    `clock_offset_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest clock_offset_s; NaN where missing',
    `clock_error_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of clock_error_s; NaN where missing',
    `clock_error_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least clock_error_s; NaN where missing',
    `clock_error_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest clock_error_s; NaN where missing',
    `clock_synchronised_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest clock_synchronised; NaN where missing',
    `cpu_temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of cpu_temperature_c; NaN where missing',
    `cpu_temperature_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least cpu_temperature_c; NaN where missing',
    `cpu_temperature_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest cpu_temperature_c; NaN where missing',
    `temperature_margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of temperature_margin_c; NaN where missing',
    `temperature_margin_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least temperature_margin_c; NaN where missing',
    `temperature_margin_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest temperature_margin_c; NaN where missing',
    `fan_lowest_rpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fan_lowest_rpm; NaN where missing',
    `fan_lowest_rpm_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fan_lowest_rpm; NaN where missing',
    `fan_lowest_rpm_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fan_lowest_rpm; NaN where missing',
    `fans_stopped_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fans_stopped_count; NaN where missing',
    `fans_stopped_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fans_stopped_count; NaN where missing',
    `fans_stopped_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fans_stopped_count; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, node, ts)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one host, a minute';

CREATE TABLE IF NOT EXISTS host_1h
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `cpu_utilization_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of cpu_utilization_pct; NaN where missing',
    `cpu_utilization_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least cpu_utilization_pct; NaN where missing',
    `cpu_utilization_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest cpu_utilization_pct; NaN where missing',
    `cpu_steal_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of cpu_steal_pct; NaN where missing',
    `cpu_steal_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least cpu_steal_pct; NaN where missing',
    `cpu_steal_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest cpu_steal_pct; NaN where missing',
    `load_1m` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of load_1m; NaN where missing',
    `load_1m_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least load_1m; NaN where missing',
    `load_1m_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest load_1m; NaN where missing',
    `runnable_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of runnable_count; NaN where missing',
    `runnable_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least runnable_count; NaN where missing',
    `runnable_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest runnable_count; NaN where missing',
    `memory_available_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_available_mib; NaN where missing',
    `memory_available_mib_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_available_mib; NaN where missing',
    `memory_available_mib_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_available_mib; NaN where missing',
    `memory_total_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_total_mib; NaN where missing',
    `memory_total_mib_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_total_mib; NaN where missing',
    `memory_total_mib_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_total_mib; NaN where missing',
    `cpu_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of cpu_pressure_pct; NaN where missing',
    `cpu_pressure_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least cpu_pressure_pct; NaN where missing',
    `cpu_pressure_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest cpu_pressure_pct; NaN where missing',
    `memory_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_pressure_pct; NaN where missing',
    `memory_pressure_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_pressure_pct; NaN where missing',
    `memory_pressure_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_pressure_pct; NaN where missing',
    `io_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of io_pressure_pct; NaN where missing',
    `io_pressure_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least io_pressure_pct; NaN where missing',
    `io_pressure_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest io_pressure_pct; NaN where missing',
    `disk_busy_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of disk_busy_pct; NaN where missing',
    `disk_busy_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least disk_busy_pct; NaN where missing',
    `disk_busy_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest disk_busy_pct; NaN where missing',
    `node_power_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of node_power_w; NaN where missing',
    `node_power_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least node_power_w; NaN where missing',
    `node_power_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest node_power_w; NaN where missing',
    `cpu_iowait_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of cpu_iowait_pct; NaN where missing',
    `cpu_iowait_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least cpu_iowait_pct; NaN where missing',
    `cpu_iowait_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest cpu_iowait_pct; NaN where missing',
    `blocked_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of blocked_count; NaN where missing',
    `blocked_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least blocked_count; NaN where missing',
    `blocked_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest blocked_count; NaN where missing',
    `swap_used_mib` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of swap_used_mib; NaN where missing',
    `swap_used_mib_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least swap_used_mib; NaN where missing',
    `swap_used_mib_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest swap_used_mib; NaN where missing',
    `oom_kill_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least oom_kill_count; NaN where missing',
    `oom_kill_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest oom_kill_count; NaN where missing',
    `memory_full_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of memory_full_pressure_pct; NaN where missing',
    `memory_full_pressure_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least memory_full_pressure_pct; NaN where missing',
    `memory_full_pressure_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest memory_full_pressure_pct; NaN where missing',
    `io_full_pressure_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of io_full_pressure_pct; NaN where missing',
    `io_full_pressure_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least io_full_pressure_pct; NaN where missing',
    `io_full_pressure_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest io_full_pressure_pct; NaN where missing',
    `disk_wait_ms` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of disk_wait_ms; NaN where missing',
    `disk_wait_ms_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least disk_wait_ms; NaN where missing',
    `disk_wait_ms_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest disk_wait_ms; NaN where missing',
    `rank_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of rank_count; NaN where missing',
    `rank_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least rank_count; NaN where missing',
    `rank_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest rank_count; NaN where missing',
    `rank_blocked_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of rank_blocked_count; NaN where missing',
    `rank_blocked_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least rank_blocked_count; NaN where missing',
    `rank_blocked_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest rank_blocked_count; NaN where missing',
    `rank_stopped_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of rank_stopped_count; NaN where missing',
    `rank_stopped_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least rank_stopped_count; NaN where missing',
    `rank_stopped_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest rank_stopped_count; NaN where missing',
    `clock_offset_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of clock_offset_s; NaN where missing',
    `clock_offset_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least clock_offset_s; NaN where missing',
    `clock_offset_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest clock_offset_s; NaN where missing',
    `clock_error_s` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of clock_error_s; NaN where missing',
    `clock_error_s_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least clock_error_s; NaN where missing',
    `clock_error_s_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest clock_error_s; NaN where missing',
    `clock_synchronised_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest clock_synchronised; NaN where missing',
    `cpu_temperature_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of cpu_temperature_c; NaN where missing',
    `cpu_temperature_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least cpu_temperature_c; NaN where missing',
    `cpu_temperature_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest cpu_temperature_c; NaN where missing',
    `temperature_margin_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of temperature_margin_c; NaN where missing',
    `temperature_margin_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least temperature_margin_c; NaN where missing',
    `temperature_margin_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest temperature_margin_c; NaN where missing',
    `fan_lowest_rpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fan_lowest_rpm; NaN where missing',
    `fan_lowest_rpm_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fan_lowest_rpm; NaN where missing',
    `fan_lowest_rpm_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fan_lowest_rpm; NaN where missing',
    `fans_stopped_count` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of fans_stopped_count; NaN where missing',
    `fans_stopped_count_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least fans_stopped_count; NaN where missing',
    `fans_stopped_count_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest fans_stopped_count; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, node, ts)
TTL toDateTime(stored_at) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one host, an hour';

CREATE TABLE IF NOT EXISTS loop_1m
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `loop` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'cooling loop',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `supply_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of supply_c; NaN where missing',
    `supply_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least supply_c; NaN where missing',
    `supply_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest supply_c; NaN where missing',
    `return_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of return_c; NaN where missing',
    `return_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least return_c; NaN where missing',
    `return_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest return_c; NaN where missing',
    `flow_lpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of flow_lpm; NaN where missing',
    `flow_lpm_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least flow_lpm; NaN where missing',
    `flow_lpm_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest flow_lpm; NaN where missing',
    `heat_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of heat_w; NaN where missing',
    `heat_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least heat_w; NaN where missing',
    `heat_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest heat_w; NaN where missing',
    `supply_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of supply_kpa; NaN where missing',
    `supply_kpa_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least supply_kpa; NaN where missing',
    `supply_kpa_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest supply_kpa; NaN where missing',
    `return_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of return_kpa; NaN where missing',
    `return_kpa_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least return_kpa; NaN where missing',
    `return_kpa_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest return_kpa; NaN where missing',
    `delta_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of delta_kpa; NaN where missing',
    `delta_kpa_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least delta_kpa; NaN where missing',
    `delta_kpa_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest delta_kpa; NaN where missing',
    `valve_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of valve_pct; NaN where missing',
    `valve_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least valve_pct; NaN where missing',
    `valve_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest valve_pct; NaN where missing',
    `rated_lpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of rated_lpm; NaN where missing',
    `rated_lpm_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least rated_lpm; NaN where missing',
    `rated_lpm_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest rated_lpm; NaN where missing',
    `level_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of level_pct; NaN where missing',
    `level_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least level_pct; NaN where missing',
    `level_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest level_pct; NaN where missing',
    `power_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_w; NaN where missing',
    `power_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_w; NaN where missing',
    `power_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_w; NaN where missing',
    `status_code_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest status_code; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, rack, loop, ts)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one cooling loop, a minute';

CREATE TABLE IF NOT EXISTS loop_1h
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `rack` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the rack',
    `loop` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'cooling loop',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `supply_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of supply_c; NaN where missing',
    `supply_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least supply_c; NaN where missing',
    `supply_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest supply_c; NaN where missing',
    `return_c` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of return_c; NaN where missing',
    `return_c_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least return_c; NaN where missing',
    `return_c_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest return_c; NaN where missing',
    `flow_lpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of flow_lpm; NaN where missing',
    `flow_lpm_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least flow_lpm; NaN where missing',
    `flow_lpm_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest flow_lpm; NaN where missing',
    `heat_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of heat_w; NaN where missing',
    `heat_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least heat_w; NaN where missing',
    `heat_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest heat_w; NaN where missing',
    `supply_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of supply_kpa; NaN where missing',
    `supply_kpa_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least supply_kpa; NaN where missing',
    `supply_kpa_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest supply_kpa; NaN where missing',
    `return_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of return_kpa; NaN where missing',
    `return_kpa_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least return_kpa; NaN where missing',
    `return_kpa_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest return_kpa; NaN where missing',
    `delta_kpa` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of delta_kpa; NaN where missing',
    `delta_kpa_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least delta_kpa; NaN where missing',
    `delta_kpa_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest delta_kpa; NaN where missing',
    `valve_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of valve_pct; NaN where missing',
    `valve_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least valve_pct; NaN where missing',
    `valve_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest valve_pct; NaN where missing',
    `rated_lpm` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of rated_lpm; NaN where missing',
    `rated_lpm_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least rated_lpm; NaN where missing',
    `rated_lpm_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest rated_lpm; NaN where missing',
    `level_pct` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of level_pct; NaN where missing',
    `level_pct_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least level_pct; NaN where missing',
    `level_pct_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest level_pct; NaN where missing',
    `power_w` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of power_w; NaN where missing',
    `power_w_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least power_w; NaN where missing',
    `power_w_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest power_w; NaN where missing',
    `status_code_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest status_code; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, rack, loop, ts)
TTL toDateTime(stored_at) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'one cooling loop, an hour';

CREATE TABLE IF NOT EXISTS steps_1m
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `phase` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'train, or what the process calls it',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `first_step` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'lowest number of a step in the window',
    `last_step` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'highest number of a step in the window',
    `step_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of step_us; NaN where missing',
    `step_us_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least step_us; NaN where missing',
    `step_us_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest step_us; NaN where missing',
    `data_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of data_us; NaN where missing',
    `compute_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of compute_us; NaN where missing',
    `comm_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of comm_us; NaN where missing',
    `wait_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of wait_us; NaN where missing',
    `work_sum` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'work done, such as tokens',
    `flops_sum` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'floating-point operations done',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, job, rank, ts, phase)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'the training steps of one rank, a minute';

CREATE TABLE IF NOT EXISTS steps_1h
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `phase` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'train, or what the process calls it',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `first_step` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'lowest number of a step in the window',
    `last_step` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'highest number of a step in the window',
    `step_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of step_us; NaN where missing',
    `step_us_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least step_us; NaN where missing',
    `step_us_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest step_us; NaN where missing',
    `data_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of data_us; NaN where missing',
    `compute_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of compute_us; NaN where missing',
    `comm_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of comm_us; NaN where missing',
    `wait_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of wait_us; NaN where missing',
    `work_sum` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'work done, such as tokens',
    `flops_sum` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'floating-point operations done',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, job, rank, ts, phase)
TTL toDateTime(stored_at) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'the training steps of one rank, an hour';

CREATE TABLE IF NOT EXISTS operations_1m
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `communicator` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'hash of the communicator, as the source printed it',
    `function` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the collective: AllReduce, AllGather, ...',
    `rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `communicator_name` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the communicator; need not be unique',
    `communicator_size` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'ranks in the communicator',
    `size_bytes_sum` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'bytes of the sampled operations',
    `bus_bytes_sum` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'what the bus carried for them',
    `exec_time_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of exec_time_us; NaN where missing',
    `exec_time_us_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least exec_time_us; NaN where missing',
    `exec_time_us_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest exec_time_us; NaN where missing',
    `exec_time_us_sum` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'their durations, waits included, in microseconds',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, job, communicator, function, rank, ts)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'the sampled collectives of one rank, a minute';

CREATE TABLE IF NOT EXISTS operations_1h
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `communicator` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'hash of the communicator, as the source printed it',
    `function` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the collective: AllReduce, AllGather, ...',
    `rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `gpu` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU',
    `communicator_name` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the communicator; need not be unique',
    `communicator_size` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'ranks in the communicator',
    `size_bytes_sum` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'bytes of the sampled operations',
    `bus_bytes_sum` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'what the bus carried for them',
    `exec_time_us` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'mean of exec_time_us; NaN where missing',
    `exec_time_us_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least exec_time_us; NaN where missing',
    `exec_time_us_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest exec_time_us; NaN where missing',
    `exec_time_us_sum` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'their durations, waits included, in microseconds',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, job, communicator, function, rank, ts)
TTL toDateTime(stored_at) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'the sampled collectives of one rank, an hour';

CREATE TABLE IF NOT EXISTS blocks_1m
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `communicator` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'hash of the communicator, as the source printed it',
    `function` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the collective: AllReduce, AllGather, ...',
    `rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `communicator_name` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the communicator; need not be unique',
    `operations` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'collectives, sampled or not',
    `sum_us_sum` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'their durations, waits included, in microseconds',
    `min_us_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least min_us; NaN where missing',
    `max_us_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest max_us; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, job, communicator, function, rank, ts)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'all collectives of one rank, a minute';

CREATE TABLE IF NOT EXISTS blocks_1h
(
    `cluster` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the cluster',
    `job` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'key of the job; empty where there is none',
    `communicator` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'hash of the communicator, as the source printed it',
    `function` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the collective: AllReduce, AllGather, ...',
    `rank` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'global rank in the job',
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the window, UTC',
    `samples` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'raw rows that the row was computed from',
    `node` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'the node',
    `communicator_name` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the communicator; need not be unique',
    `operations` UInt64 CODEC(T64, ZSTD(1)) COMMENT 'collectives, sampled or not',
    `sum_us_sum` Float64 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'their durations, waits included, in microseconds',
    `min_us_min` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'least min_us; NaN where missing',
    `max_us_max` Float32 DEFAULT nan CODEC(ZSTD(1)) COMMENT 'greatest max_us; NaN where missing',
    `stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was written, UTC; rows are kept by it'
)
ENGINE = ReplacingMergeTree(samples)
PARTITION BY toStartOfMonth(ts)
ORDER BY (cluster, job, communicator, function, rank, ts)
TTL toDateTime(stored_at) + INTERVAL 1200 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'all collectives of one rank, an hour';

CREATE TABLE IF NOT EXISTS roll_marks
(
    `name` LowCardinality(String) COMMENT 'the roll-up',
    `through_ms` UInt64 COMMENT 'raw rows stored before it, in milliseconds since 1970, are in the roll-up'
)
ENGINE = ReplacingMergeTree(through_ms)
ORDER BY name
COMMENT 'how far each roll-up is computed';

CREATE OR REPLACE VIEW v_incidents AS
SELECT * FROM incidents FINAL
ORDER BY revision DESC
LIMIT 1 BY cluster, id;

CREATE OR REPLACE VIEW v_culprits AS
SELECT cluster, id, state, kind, cause, confidence, severity, job, victims, slowdown, onset_at, detected_at,
    resolved_at, ts, summary, culprit_scope, culprit_rank, culprit_node, culprit_gpu, culprit_link,
    culprit_rack
FROM v_incidents
LEFT ARRAY JOIN culprits.scope AS culprit_scope, culprits.rank AS culprit_rank,
    culprits.node AS culprit_node, culprits.gpu AS culprit_gpu, culprits.link AS culprit_link,
    culprits.rack AS culprit_rack;

CREATE OR REPLACE VIEW v_fleet_now AS
SELECT * FROM gpu_samples
WHERE stored_at > now() - INTERVAL 10 MINUTE AND (cluster, node, gpu, run_id, seq) IN
(
    SELECT cluster, node, gpu, tupleElement(max((run_id, seq)) AS last, 1), tupleElement(last, 2)
    FROM gpu_samples
    WHERE stored_at > now() - INTERVAL 10 MINUTE
    GROUP BY cluster, node, gpu
)
LIMIT 1 BY cluster, node, gpu;

CREATE OR REPLACE VIEW v_gpu_scores AS
SELECT cluster, job, rank, node, gpu, toStartOfMinute(ts) AS minute, count() AS ticks,
    countIf(p_value < 0.001) AS unusual_ticks, avg(score) AS mean_score, max(score) AS worst_score,
    topKArray(3)(if(p_value < 0.001, strongest, [])) AS metrics
FROM gpu_scores FINAL
GROUP BY cluster, job, rank, node, gpu, minute;

CREATE OR REPLACE VIEW v_bus_bandwidth AS
SELECT cluster, job, communicator_name, communicator, function, rank, node, gpu, ts, samples,
    bus_bytes_sum / nullIf(exec_time_us_sum, 0) / 1000 AS own_gb_per_s
FROM operations_1m FINAL;

CREATE OR REPLACE VIEW v_group_bandwidth AS
SELECT cluster, job, communicator, function, toStartOfMinute(ended) AS ts, count() AS operations,
    sum(bus_bytes) / nullIf(sum(shortest_us), 0) / 1000 AS group_gb_per_s,
    avg(waited_us) AS mean_wait_us
FROM
(
    SELECT cluster, job, communicator, function, sn, min(ts) AS ended, min(exec_time_us) AS shortest_us,
        max(size_bytes * multiIf(function = 'AllReduce', 2 * (communicator_size - 1) / greatest(communicator_size, 1), function IN ('AllGather', 'ReduceScatter', 'AllToAll'), (communicator_size - 1) / greatest(communicator_size, 1), 1)) AS bus_bytes, avg(exec_time_us) - shortest_us AS waited_us,
        uniqExact(rank) AS ranks, max(communicator_size) AS size
    FROM collective_operations FINAL
    GROUP BY cluster, job, communicator, function, sn
    HAVING ranks >= if(size <= 8, size, 0.9 * size)
)
GROUP BY cluster, job, communicator, function, ts;

CREATE OR REPLACE VIEW v_job_hours AS
SELECT cluster, job, uniqExact(gpu) AS gpus, count() / 60 AS gpu_hours, min(ts) AS from_at, max(ts) AS until_at
FROM gpu_1m FINAL
WHERE job != ''
GROUP BY cluster, job;

CREATE OR REPLACE VIEW v_time_lost AS
SELECT i.cluster AS cluster, i.job AS job, i.cause AS cause, count() AS incidents,
    sum(dateDiff('millisecond', i.onset_at, ifNull(i.resolved_at, i.ts)) / 3600000 * j.gpus *
        multiIf(i.kind = 'hang', 1, i.slowdown > 1, 1 - 1 / i.slowdown, 0)) AS lost_gpu_hours,
    any(j.gpu_hours) AS job_gpu_hours
FROM v_incidents AS i
INNER JOIN v_job_hours AS j ON j.cluster = i.cluster AND j.job = i.job
GROUP BY cluster, job, cause;

CREATE OR REPLACE VIEW v_rack_nvlink AS
SELECT cluster, rack, ts, uniqExact(gpu) AS gpus, sum(nvlink_tx_bytes_per_s) / 1e9 AS tx_gb_per_s,
    sum(nvlink_rx_bytes_per_s) / 1e9 AS rx_gb_per_s,
    sumIf(nvlink_error_count_max - nvlink_error_count_min, isFinite(nvlink_error_count_max)) AS new_errors
FROM gpu_1m FINAL
GROUP BY cluster, rack, ts;

CREATE OR REPLACE VIEW v_rack_cooling AS
SELECT l.cluster AS cluster, l.rack AS rack, l.loop AS loop, l.ts AS ts, l.supply_c AS supply_c,
    l.return_c AS return_c, l.return_c - l.supply_c AS rise_c, l.flow_lpm AS flow_lpm, l.heat_w AS heat_w,
    g.gpu_power_w AS gpu_power_w, g.hottest_c AS hottest_c
FROM loop_1m AS l FINAL
LEFT JOIN
(
    SELECT cluster, rack, ts, sum(power_w) AS gpu_power_w, max(temperature_c_max) AS hottest_c
    FROM gpu_1m FINAL
    GROUP BY cluster, rack, ts
) AS g ON g.cluster = l.cluster AND g.rack = l.rack AND g.ts = l.ts;

CREATE OR REPLACE VIEW v_gpu_history AS
SELECT cluster, gpu, serial, product, node, rack, tray, slot, pci, vbios, driver, from_at, seen_at,
    if(leadInFrame(from_at, 1, from_at) OVER later > from_at, leadInFrame(from_at) OVER later, NULL) AS until_at
FROM
(
    SELECT cluster, gpu, any(serial) AS serial, any(product) AS product, any(node) AS node, any(rack) AS rack,
        any(tray) AS tray, any(slot) AS slot, any(pci) AS pci, any(vbios) AS vbios, any(driver) AS driver,
        min(ts) AS from_at, max(ts) AS seen_at
    FROM
    (
        SELECT *, sum(what != before) OVER (PARTITION BY cluster, gpu ORDER BY ts, node, run_id, seq) AS spell
        FROM
        (
            SELECT g.*, i.rack AS rack, i.tray AS tray, i.driver AS driver,
                cityHash64(serial, node, rack, ifNull(toString(tray), ''), slot, pci, vbios, driver) AS what,
                lagInFrame(what) OVER (PARTITION BY cluster, gpu ORDER BY ts, node, run_id, seq) AS before
            FROM (SELECT * FROM inventory_gpus FINAL) AS g
            INNER JOIN (SELECT * FROM inventory FINAL) AS i ON i.cluster = g.cluster AND i.node = g.node
                AND i.run_id = g.run_id AND i.seq = g.seq
        )
    )
    GROUP BY cluster, gpu, spell
)
WINDOW later AS (PARTITION BY cluster, gpu ORDER BY from_at ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING);

CREATE OR REPLACE VIEW v_job_history AS
SELECT m.cluster AS cluster, m.job AS job, m.rank AS rank, m.node AS node, m.gpu AS gpu, h.serial AS serial,
    n.rack AS rack, n.tray AS tray, m.from_at AS from_at, m.seen_at AS seen_at,
    if(later.ts > m.seen_at, later.ts, NULL) AS until_at
FROM
(
    SELECT cluster, job, rank, node, gpu, max(ts) AS seen_at,
        min(if(toUnixTimestamp64Milli(since_at) = 0, ts, since_at)) AS from_at
    FROM inventory_memberships FINAL
    GROUP BY cluster, job, rank, node, gpu
) AS m
LEFT JOIN (SELECT cluster, gpu, max(serial) AS serial FROM inventory_gpus GROUP BY cluster, gpu) AS h
    ON h.cluster = m.cluster AND h.gpu = m.gpu
LEFT JOIN (SELECT cluster, node, argMax(rack, ts) AS rack, argMax(tray, ts) AS tray FROM inventory
    GROUP BY cluster, node) AS n ON n.cluster = m.cluster AND n.node = m.node
ASOF LEFT JOIN (SELECT cluster, node, ts FROM inventory FINAL) AS later
    ON later.cluster = m.cluster AND later.node = m.node AND later.ts > m.seen_at;

CREATE OR REPLACE VIEW v_xids AS
SELECT e.cluster AS cluster, e.ts AS ts, e.node AS node, e.kind AS kind, e.code AS code,
    e.severity AS severity, if(e.gpu != '', e.gpu, p.gpu) AS gpu,
    if(u.serial != '', u.serial, p.serial) AS serial, e.job AS job, e.rank AS rank, e.text AS text
FROM (SELECT *, replaceRegexpOne(lower(pci), '^0*([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}).*$', '\\1') AS place FROM events FINAL WHERE kind IN ('xid', 'sxid')) AS e
LEFT JOIN (SELECT cluster, gpu, max(serial) AS serial FROM inventory_gpus GROUP BY cluster, gpu) AS u
    ON u.cluster = e.cluster AND u.gpu = e.gpu
LEFT JOIN (SELECT cluster, node, replaceRegexpOne(lower(pci), '^0*([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}).*$', '\\1') AS place, argMax(gpu, ts) AS gpu,
    argMax(serial, ts) AS serial FROM inventory_gpus WHERE pci != '' GROUP BY cluster, node, place) AS p
    ON p.cluster = e.cluster AND p.node = e.node AND p.place = e.place;
