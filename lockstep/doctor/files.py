"""What training processes write for the agent, and what the agent keeps on disk."""

import os
import shutil
from fnmatch import fnmatch
from pathlib import Path

from collectors.agent.folders import wrong
from collectors.job.processes import parse_environ
from lockstep.doctor.check import Check, Machine, State

GROWTH_S = 1.0
ROOM_S = 24 * 3600.0
"""Files that fill their disk sooner than this deserve a word: nobody looks every hour."""

MIB = 1 << 20

NAMED = {
    "flight_dir": "flight recorder",
    "job_log_dir": "job logs",
    "job_mapping_dir": "Slurm's mapping",
    "bmc_targets": "rack's controllers",
    "bms_dir": "building's values",
}
"""Settings that name a file or folder, and what is in it."""


def inspector(machine: Machine) -> list[Check]:
    """The folder of NCCL Inspector's files: there, growing, and with room to; and who writes where nobody reads."""
    folder, writers = machine.agent.inspector_dir, inspector_folders(machine.path("/proc"))
    elsewhere = sorted(dumps - {os.path.normpath(folder)} if folder else dumps) if (dumps := set(writers)) else []
    checks = []
    if elsewhere:
        checks.append(
            Check(
                "",
                "attention",
                f"{writers[elsewhere[0]]} processes write to {elsewhere[0]}, where this agent does not look",
                f"lockstep agent --inspector-dir {elsewhere[0]}",
            )
        )
    if folder:
        checks.append(_inspected(machine, Path(folder)))
    elif not elsewhere:
        checks.append(
            Check(
                "",
                "absent",
                "no --inspector-dir, and no process with NCCL_INSPECTOR_DUMP_DIR: collectives stay unseen",
                "docs/run-on-a-fleet.md shows the job's environment",
            )
        )
    return checks


def inspector_folders(proc: Path) -> dict[str, int]:
    """Where running processes were told to write, and how many were; those that may not be read are left out."""
    folders: dict[str, int] = {}
    for process in proc.glob("[0-9]*"):
        try:
            raw = (process / "environ").read_bytes()
        except OSError:
            continue
        if b"NCCL_INSPECTOR_DUMP_DIR=" in raw:
            folder = os.path.normpath(parse_environ(raw).get("NCCL_INSPECTOR_DUMP_DIR", "."))
            folders[folder] = folders.get(folder, 0) + 1
    return folders


def _inspected(machine: Machine, folder: Path) -> Check:
    try:
        before = _sizes(folder, machine.agent.inspector_files)
        machine.clock.sleep(GROWTH_S)
        after = _sizes(folder, machine.agent.inspector_files)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("", "broken", f"{folder}: {error.strerror}", "make the folder readable, or set --inspector-dir")
    if not after:
        seen = f"{folder} has no file named {machine.agent.inspector_files}"
        return Check("", "attention", seen, "set NCCL_INSPECTOR_ENABLE=1 and NCCL_INSPECTOR_DUMP_DIR in the job")
    total, rate = sum(after.values()), (sum(after.values()) - sum(before.values())) / GROWTH_S
    seen = f"{len(after)} files, {total / MIB:,.0f} MiB, growing {rate / MIB:.2f} MiB/s, {free / MIB:,.0f} MiB free"
    if rate > 0 and free / rate < ROOM_S:
        return Check(
            "",
            "attention",
            f"{seen}: full in {free / rate / 3600:.1f} h",
            "keep them on a tmpfs of a bounded size, or remove those of ended processes",
        )
    return Check("", "ok", seen)


def _sizes(folder: Path, pattern: str) -> dict[str, int]:
    with os.scandir(folder) as entries:
        return {e.name: e.stat().st_size for e in entries if fnmatch(e.name, pattern) and e.is_file()}


def steps(machine: Machine) -> list[Check]:
    """The folder of the training processes' step lines."""
    folder, socket = machine.agent.steps_dir, machine.agent.steps_socket
    if socket and not folder:
        there = Path(socket).is_socket()
        return [Check("", "ok" if there else "absent", f"{socket}: {'made' if there else 'not made yet'} by the agent")]
    if not folder:
        return [
            Check(
                "",
                "absent",
                "no --steps-dir and no --steps-socket: no step times",
                "docs/collectors/steps.md shows the two lines a job needs",
            )
        ]
    try:
        count = len(_sizes(Path(folder), "*.jsonl"))
    except OSError as error:
        return [Check("", "broken", f"{folder}: {error.strerror}", "make the folder, or set --steps-dir")]
    return [Check("", "ok", f"{folder}: {count} files")]


def named(machine: Machine) -> list[Check]:
    """What other settings name: there, and readable."""
    checks = []
    for setting, means in NAMED.items():
        path = getattr(machine.agent, setting)
        option = f"--{setting.replace('_', '-')}"
        missing = "" if not path else _unreadable(path) if setting == "bmc_targets" else wrong(path)
        if missing:
            checks.append(Check(means, "broken", f"{path} {missing}", f"make it readable, or set {option}"))
        elif path:
            checks.append(Check(means, "ok", path))
    absent = ", ".join(means for setting, means in NAMED.items() if not getattr(machine.agent, setting))
    return [*checks, Check("", "absent", f"not set up: {absent}")] if absent else checks


def _unreadable(path: str) -> str:
    if os.path.isdir(path):
        return "is a folder"
    return "" if os.access(path, os.R_OK) else "cannot be read" if os.path.exists(path) else "is not there"


def spool(machine: Machine) -> list[Check]:
    """Room for what is not delivered yet, and the right to write it."""
    folder = Path(machine.agent.spool_dir)
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    state: State = "broken" if "spool_dir" in machine.given else "absent"
    if not os.access(there, os.W_OK | os.X_OK):
        return [Check("", state, f"{folder} cannot be written or made as this user", "choose another by --spool-dir")]
    free, wanted = shutil.disk_usage(there).free / MIB, machine.agent.spool_mib
    if free < wanted:
        seen = f"{folder}: {free:,.0f} MiB free, --spool-mib is {wanted:,.0f}"
        return [Check("", "attention", seen, "make room, or give less by --spool-mib")]
    return [Check("", "ok", f"{folder}: {free:,.0f} MiB free for at most {wanted:,.0f}")]
