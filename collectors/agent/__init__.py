"""The agent around the collectors: ticks, spool, delivery, the process for calls that can hang."""
