"""Builds the shim library, so that the real pynvml runs on a machine without a GPU."""

import shutil
import subprocess
from pathlib import Path


def build(folder: Path) -> bool:
    """libnvidia-ml.so.1 in `folder`, for LD_LIBRARY_PATH of a new process; False without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return False
    source = Path(__file__).with_name("nvml_shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", folder / "libnvidia-ml.so.1", source], check=True)
    return True
