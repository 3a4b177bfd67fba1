"""Rules of one subject each: the condition, its finding, and where its threshold is from."""
