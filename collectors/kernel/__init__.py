"""The kernel log: XIDs, SXIDs, the bus, adapters, memory, processes."""
