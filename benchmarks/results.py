"""What a benchmark's result carries beside its figures, and how it is written. Measures nothing."""

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]


def circumstances() -> dict[str, Any]:
    """Machine, versions, commit and load: without them a timing cannot be compared with another."""
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git.stdout.strip() or None,
        "processor": processor_name(),
        "num_cores": os.cpu_count(),
        "num_threads": torch.get_num_threads(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version_of("transformers"),
    }


def version_of(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed: peers stand in environments of their own."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor_name() -> str:
    """The processor and those of its abilities that bfloat16 depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    abilities = sorted({"amx_bf16", "avx512_bf16"} & set(values.get("flags", "").split()))
    return f"{values.get('model name', platform.machine())} ({', '.join(abilities) or 'no bfloat16 products'})"


def write_result(result: dict[str, Any], path: Path | None) -> None:
    """Print the result, and write it as JSON where a path is given: a temporary name first, then renamed."""
    text = json.dumps({**result, "circumstances": circumstances()}, indent=2) + "\n"
    print(text, end="")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.partial")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
