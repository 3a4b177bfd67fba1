"""Pipeline-parallel traces: slow workers told from uneven stages and sequences."""
