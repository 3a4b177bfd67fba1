"""What the ranks of one job say of one another: collectives, steps, progress; who is late and who waits."""
