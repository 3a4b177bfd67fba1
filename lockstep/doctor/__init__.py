"""`lockstep doctor`: what this machine offers, what is missing, what is misconfigured, and how to get it.

A probe looks at one thing and says what it saw; `PROBES` lists them. All run at once, each with two seconds: whatever
hangs (a driver, a name server, a dead mount) is itself the finding.
"""

import threading
from collections.abc import Mapping

from lockstep.doctor import alerts, files, node, packages, reach
from lockstep.doctor.check import Check, Machine, Probe

__all__ = ["PATIENCE_S", "PROBES", "Check", "Machine", "Probe", "examine"]

PATIENCE_S = 2.0

# "section/name": what looks
PROBES: dict[str, Probe] = {
    "software/python": packages.python,
    "software/extras": packages.extras,
    "software/crc32c": packages.crc32c,
    "node/gpu": node.gpu,
    "node/kernel log": node.kernel_log,
    "node/processes": node.processes,
    "node/clock": node.clock,
    "node/systemd": node.systemd,
    "files/nccl inspector": files.inspector,
    "files/steps": files.steps,
    "files/others": files.named,
    "files/spool": files.spool,
    "reach/broker": reach.broker,
    "reach/dcgm-exporter": reach.dcgm,
    "reach/database": reach.database,
    "reach/alerts": alerts.receivers,
    "reach/pages": alerts.pages,
    "reach/ports": reach.ports,
}


def examine(machine: Machine, probes: Mapping[str, Probe] = PROBES, patience_s: float = PATIENCE_S) -> list[Check]:
    """What all probes say, in their order. One that has not answered in time, or breaks, is broken."""
    said: dict[str, list[Check]] = {}

    def look(name: str, probe: Probe) -> None:
        try:
            said[name] = probe(machine)
        except Exception as error:  # a probe that breaks must not hide what the others saw
            said[name] = [Check("", "broken", f"could not be looked at: {type(error).__name__}: {error}")]

    threads = {n: threading.Thread(target=look, args=(n, probe), daemon=True) for n, probe in probes.items()}
    for thread in threads.values():
        thread.start()
    deadline = machine.clock.monotonic() + patience_s
    found: list[Check] = []
    for name, thread in threads.items():
        thread.join(max(0.0, deadline - machine.clock.monotonic()))
        section, _, title = name.partition("/")
        late = Check("", "broken", f"no answer within {patience_s:g} s", "see what it hangs on, then look again")
        for check in said.get(name, [late]):
            found.append(check._replace(section=section, name=check.name or title))
    return found
