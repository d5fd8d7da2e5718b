"""Environment of a run: versions, the commit of the code, the hardware."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import numpy as np

from contextual_bert import training


def environment() -> dict[str, str]:
    """Versions, commit and hardware: what a number depends on beside its recipe."""
    versions = {"python": platform.python_version(), "torch": version("torch"), "numpy": np.__version__}
    return {**versions, "commit": commit() or "unknown", "hardware": hardware()}


def commit() -> str | None:
    """The commit of the code that runs, with "+" if files differ from it; None outside a checkout."""
    folder = Path(__file__).parents[1]  # the whole package
    try:
        revision = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
        )
        changes = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no", "--", "."],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return revision.stdout.strip() + ("+" if changes.stdout.strip() else "")


def hardware() -> str:
    """Processor and accelerator, in words."""
    accelerator = training.accelerator_name()
    if accelerator is not None:
        return accelerator
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{os.cpu_count()} cores of {model}"
