"""What one node's readings say: baselines per GPU and for the host, magnitudes, scores, rules on single readings."""
