"""A Ray cluster for the tests of a file."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@contextmanager
def local_ray(num_cpus: int) -> Generator[None]:
    """A cluster of this process and of nobody else, whatever runs beside it."""
    ray: Any = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # else they give way to all else that this machine does
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)  # tasks that stand in a test are found by its module
        ray.init(address="local", num_cpus=num_cpus, include_dashboard=False, log_to_driver=False)
        try:
            yield
        finally:
            ray.shutdown()
