"""A real Alertmanager: LOCKSTEP_TEST_ALERTMANAGER, what is installed, or Debian's package unpacked into a folder."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

SHARED = b"/usr/share/prometheus/alertmanager"
CONFIG = "route:\n  receiver: nobody\nreceivers:\n- name: nobody\n"


class Unavailable(Exception):
    """Why there is none on this machine."""


def binary(folder: Path) -> Path:
    """The program; Unavailable with the reason where it cannot be had."""
    named = os.environ.get("LOCKSTEP_TEST_ALERTMANAGER") or shutil.which("prometheus-alertmanager")
    if named:
        return Path(named)
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Unavailable("no Alertmanager here, and no apt-get to get Debian's package")
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockstep-tests" / "alertmanager"
    program = kept / "usr" / "bin" / "prometheus-alertmanager"
    if program.exists():
        return program
    command = ["apt-get", "download", "-q", "prometheus-alertmanager"]
    got = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    packages = list(folder.glob("prometheus-alertmanager_*.deb"))
    if got.returncode or not packages:
        raise Unavailable(f"Debian's package of Alertmanager cannot be downloaded: {got.stderr.strip()[-200:]}")
    kept.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg-deb", "-x", packages[0], kept], check=True, capture_output=True, timeout=60)
    # Debian's build opens its template where the package would have put it: a path of the same length that means the
    # folder it is started in spares the installation.
    here = b"." + b"/" * (len(SHARED) - 1)
    program.write_bytes(program.read_bytes().replace(SHARED, here))
    return program


@contextlib.contextmanager
def alertmanager(folder: Path) -> Iterator[str]:
    """Its base address while it runs."""
    program = binary(folder)
    (folder / "alertmanager.yml").write_text(CONFIG)
    for template in (program.parents[1] / "share" / "prometheus" / "alertmanager").glob("*.tmpl"):
        shutil.copy(template, folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "alertmanager.log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(program), f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
            ],
            cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            _wait(f"http://127.0.0.1:{port}/-/ready", process, folder / "alertmanager.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(10)


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=1):
            return
        time.sleep(0.05)
    raise Unavailable(f"Alertmanager does not start: {log.read_text()[-300:]}")
