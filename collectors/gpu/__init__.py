"""GPUs and NVLinks, through NVML or a dcgm-exporter."""
