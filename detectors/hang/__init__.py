"""Who holds up a job that stands still: Flight Recorder, RAS, watchdog lines, process states, combined."""
