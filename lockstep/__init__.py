"""The command line, the analysis of recorded files, and the composition of all processes on one machine."""
