"""The command line, the analysis of recorded files, and the composition of all processes on one machine.

For a training process only the reporter: `import lockstep` brings nothing else with it.
"""

from lockstep.reporter import configure, report, status, step, steps

__all__ = ["configure", "report", "status", "step", "steps"]
