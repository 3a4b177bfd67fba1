"""Drift towards failure: trends of what wears out, and the time left to its limit."""
