"""What NCCL and PyTorch tell of collectives and of hangs."""
