"""What a node's hardware and kernel offer to its agent."""

import os
import subprocess
from pathlib import Path

from collectors.gpu.nvml import driver_version
from collectors.host.clock_sync import STATUS_UNSYNCHRONISED, ask_kernel
from lockstep.doctor.check import Check, Machine

NVIDIA = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")
"""PCI classes of a GPU with and without a display; NVIDIA's NVSwitches and network controllers have others."""

CAP_SYS_PTRACE = 19
UNIT = "lockstep-agent.service"


def gpu(machine: Machine) -> list[Check]:
    """Driver, library and GPUs: which of them are there decides what is missing."""
    on_bus, loaded = len(_gpus_on_bus(machine)), machine.path("/proc/driver/nvidia/version").exists()
    version = driver_version()
    if machine.agent.dcgm_url:
        return [Check("", "ok", f"{on_bus} GPUs on the PCI bus; read through dcgm-exporter, see there")]
    if version is not None:
        return [Check("", "ok", f"NVIDIA driver {version}, {on_bus} GPUs on the PCI bus")]
    if loaded:
        return [
            Check(
                "",
                "broken",
                "the NVIDIA driver is loaded, but its library libnvidia-ml.so.1 does not answer",
                "install the library of the same version; in a container: NVIDIA_DRIVER_CAPABILITIES=utility",
            )
        ]
    if on_bus:
        return [Check("", "attention", f"{on_bus} NVIDIA GPUs on the PCI bus, no driver", "install NVIDIA's driver")]
    return [Check("", "absent", "no NVIDIA GPU: an agent here sends host, kernel log and what jobs write")]


def _gpus_on_bus(machine: Machine) -> list[Path]:
    return [
        device
        for device in sorted(machine.path("/sys/bus/pci/devices").glob("*"))
        if _text(device / "vendor") == NVIDIA and _text(device / "class").startswith(DISPLAY_CLASSES)
    ]


def kernel_log(machine: Machine) -> list[Check]:
    """XIDs with their text come from here; opening it is the only sure test of the right to."""
    kmsg = machine.path("/dev/kmsg")
    try:
        os.close(os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        return [
            Check(
                "",
                "absent",
                f"{kmsg} cannot be read ({error.strerror}): XIDs come from the driver only",
                "run the agent as root or with CAP_SYSLOG; in a container pass --device /dev/kmsg",
            )
        ]
    return [Check("", "ok", f"{kmsg} can be read")]


def processes(machine: Machine) -> list[Check]:
    """Job and rank are read from the ranks' own environments, which belong to other users."""
    line = next((s for s in _text(machine.path("/proc/self/status")).splitlines() if s.startswith("CapEff:")), "")
    mask = line.partition(":")[2].strip()
    if mask and int(mask, 16) >> CAP_SYS_PTRACE & 1:
        return [Check("", "ok", "other users' environments can be read: job and rank are known")]
    return [
        Check(
            "",
            "absent",
            "other users' environments cannot be read: job and rank of their processes stay unknown",
            "run the agent as root or with CAP_SYS_PTRACE; in a container also in the host's pid namespace",
        )
    ]


def clock(_: Machine) -> list[Check]:
    """A node whose clock is 30 s off is judged by its own history only."""
    try:
        timex = ask_kernel()
    except OSError as error:
        return [Check("", "absent", f"the kernel does not say: {os.strerror(error.errno) if error.errno else error}")]
    if timex.status & STATUS_UNSYNCHRONISED:
        return [
            Check(
                "",
                "attention",
                "the kernel's clock is not synchronised",
                "run chrony or systemd-timesyncd on the node (a container shows its host's clock)",
            )
        ]
    return [Check("", "ok", f"synchronised, at most {timex.error_us / 1e6:.3f} s off")]


def systemd(machine: Machine) -> list[Check]:
    """Whether the agent's unit is there, and how it is."""
    if not machine.path("/run/systemd/system").is_dir():
        return [Check("", "absent", "no systemd here: something else must keep the agent running")]
    asked = ["systemctl", "show", UNIT, "--property=LoadState,ActiveState,SubState,NRestarts"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=1.5, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return [Check("", "absent", f"systemctl does not answer: {type(error).__name__}")]
    return [_unit(dict(line.split("=", 1) for line in answer.splitlines() if "=" in line))]


def _unit(told: dict[str, str]) -> Check:
    state = f"{UNIT} is {told.get('ActiveState')} ({told.get('SubState')}), {told.get('NRestarts', '0')} restarts"
    if told.get("LoadState") != "loaded":
        return Check("", "absent", f"{UNIT} is not installed", f"deploy/{UNIT} is one, if this is a node")
    if told.get("ActiveState") == "failed":
        return Check("", "broken", state, f"journalctl -u {UNIT}")
    if told.get("ActiveState") in ("active", "activating", "reloading"):
        return Check("", "ok", state)
    return Check("", "attention", state, f"systemctl enable --now {UNIT}")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
