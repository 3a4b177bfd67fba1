"""Which rank of which job is where, and what it reports of its steps."""
