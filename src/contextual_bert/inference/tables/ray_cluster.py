"""A Ray cluster: which one, what it has room for, and what becomes of Ray's own errors.

The only module that imports Ray, and only when it is used: it is an optional extra. It does not know what is computed.
"""

import logging
import os
import re
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contextual_bert.errors import ConfigurationError, ContextualBertError, did_you_mean

START = "Start one with `ray start --head`; where it asks for a token, set RAY_AUTH_MODE=token here, too."
ANSWER_SECONDS = 10
DEVICES = ("auto", "cpu", "cuda")
ENVIRONMENT = {  # of a cluster that is started here, where the user says nothing else
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # Ray Data's own use of actors makes Ray's core print a warning to the terminal
}


@dataclass(frozen=True, kw_only=True)
class RayCluster:
    """Cluster that computes the files of a bulk completion, or trains the runs of a study.

    Args:
        address: as ``ray.init`` takes it: "auto", "local", HOST:PORT. Left out: what this process is connected to, else
            RAY_ADDRESS, else a cluster that runs on this machine, else a new one for the time of the work.
        num_workers: processes that work, each with a CPU and, on "cuda", a GPU; default: as many as the cluster has
            room for. There are never more than files, or runs.
        device: "cpu", "cuda", or "auto": cuda where the cluster has GPUs.

    Raises:
        ConfigurationError: an address that does not work, a number below 1, no device of that name.

    Relation to its siblings:
        For ``complete_table_on_ray`` and ``study``; ``complete_table`` computes in this process.

    Example:
        >>> RayCluster(address="auto", num_workers=8).device
        'auto'
    """

    address: str | None = None
    num_workers: int | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.num_workers is not None and self.num_workers < 1:
            raise ConfigurationError(
                "is not allowed", setting="num_workers", value=self.num_workers, fix="Give 1 or more."
            )
        if self.device not in DEVICES:
            raise ConfigurationError(
                "on Ray", setting="device", value=self.device, allowed=did_you_mean(self.device, DEVICES)
            )
        check_address(self.address)


def ray_data() -> Any:
    """Ray, with Ray Data; raises ConfigurationError where it is not installed."""
    try:
        import ray  # noqa: PLC0415  (an optional extra)

        _ = ray.data  # imported at this moment, with what it needs
    except ImportError as error:
        fix = "Install it: pip install 'contextual-bert[distributed]'."
        raise ConfigurationError("RayCluster needs Ray Data", fix=fix) from error
    return ray


def ray_tune() -> Any:
    """Ray Tune with its schedulers; raises ConfigurationError where it is not installed."""
    try:
        # An optional extra, of which tune loads no schedulers by itself.
        import ray.tune.schedulers  # noqa: PLC0415  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        fix = "Install it: pip install 'contextual-bert[distributed]'."
        raise ConfigurationError("A search over settings needs Ray Tune", fix=fix) from error
    return ray.tune


def shared_queue() -> Any:
    """Return a queue that lives in the cluster, and that every task can write into."""
    from ray.util.queue import Queue  # noqa: PLC0415  (an optional extra)

    return Queue(actor_options={"num_cpus": 0})


def check_address(address: str | None) -> None:
    """Raise ConfigurationError for that of a Ray client."""
    if address is not None and address.startswith("ray://"):
        raise ConfigurationError(
            "is the address of a Ray client, and Ray Data wants to run in the cluster",
            setting="ray_address",
            value=address,
            fix="Run this on one of its machines with the address 'auto', or hand it in with `ray job submit`.",
        )


def check_answers(address: str | None) -> None:
    """Raise ConfigurationError where nobody answers at HOST:PORT: Ray itself would try for many minutes."""
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(
            f"answers nothing: {reason}", setting="ray_address", value=address, fix=START
        ) from error


def workers_of(cluster: RayCluster) -> tuple[str, int]:
    """The device, and how many workers are asked for.

    Raises:
        ConfigurationError: the cluster has nothing of the kind; Ray would wait for ever.
    """
    ray = ray_data()
    there: dict[str, Any] = ray.cluster_resources()
    device = cluster.device if cluster.device != "auto" else ("cuda" if there.get("GPU", 0) >= 1 else "cpu")
    kind = {"cpu": "CPU", "cuda": "GPU"}[device]
    room = int(there.get(kind, 0))
    if room < 1:
        raise ConfigurationError(
            f"is not there: the Ray cluster has no {kind}",
            setting="device",
            value=device,
            fix="Start a machine that has one.",
        )
    return device, cluster.num_workers or room


@contextmanager
def unless_set(variables: Mapping[str, str]) -> Generator[None]:
    """Set those of some environment variables that the user has not set, for the block."""
    absent = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(absent)
    try:
        yield
    finally:
        for name in absent:
            os.environ.pop(name, None)


@contextmanager
def connected(cluster: RayCluster) -> Generator[None]:
    """Ray, connected for the block; a connection that this process had before stays.

    Raises:
        ConfigurationError: no cluster there, or another one is connected.
    """
    ray = ray_data()
    if ray.is_initialized():
        if cluster.address is not None:
            raise ConfigurationError(
                "is not possible: this process is connected to Ray already",
                setting="address",
                value=cluster.address,
                fix="Leave the address out.",
            )
        yield
        return
    address = cluster.address or os.environ.get("RAY_ADDRESS")
    check_address(address)
    check_answers(address)
    with unless_set(ENVIRONMENT):
        try:
            try:
                ray.init(
                    address=cluster.address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
                )
            except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
                where = f" at {address}" if address else ""
                raise ConfigurationError(f"No Ray cluster{where}: {error}", fix=START) from error
            yield
        finally:
            ray.shutdown()


@contextmanager
def lost_workers(output: Path) -> Generator[None]:
    """Turn Ray's own errors on dead workers into errors of this library. Errors of the work pass."""
    errors = ray_data().exceptions
    try:
        yield
    except errors.UserCodeException:  # a bug of ours
        raise
    except errors.RayError as error:
        absent = re.search(r"No module named \S+", str(error))
        if absent is not None:
            fix = "Install the same version of contextual-bert on all machines of the cluster."
            raise ConfigurationError(f"A worker of Ray cannot start: {absent[0]}", fix=fix) from error
        first_line = str(error).strip().split("\n")[0]
        raise ContextualBertError(
            f"Ray lost its workers: {first_line} Finished files in {output} are kept", fix="Start the same again."
        ) from error
