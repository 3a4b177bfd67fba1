"""A forest of one's own: which part of the past is healthy, and what was learnt from it."""
