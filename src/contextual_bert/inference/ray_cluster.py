"""The same folder of completions by the workers of a Ray cluster: Ray Data hands out the rows, a worker makes a file.

The only module that imports Ray, and only when it is used: it is an optional extra. What a file holds and when the
folder is done, it leaves to ``shards``; what a worker does, to ``shard_worker``.
"""

import logging
import os
import re
import socket
from collections.abc import Callable, Generator, Iterable, Set
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from contextual_bert.data import read_table
from contextual_bert.errors import ConfigurationError, ContextualBertError, did_you_mean
from contextual_bert.inference.bulk import BulkSettings, TableCompleter
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.shard_worker import ShardJob, ShardWorker, error_of, packed
from contextual_bert.inference.shards import BulkReport, ShardCounts, ShardPlan

START = "Start one with `ray start --head`; where it asks for a token, set RAY_AUTH_MODE=token here, too."
ANSWER_SECONDS = 10
DEVICES = ("auto", "cpu", "cuda")
ENVIRONMENT = {  # of a cluster that is started here, where the user says nothing else
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # Ray Data's own use of actors makes Ray's core print a warning to the terminal
}


@dataclass(frozen=True, kw_only=True)
class RayCluster:
    """Where the files of a bulk completion are computed.

    Args:
        address: as ``ray.init`` takes it: "auto", "local", HOST:PORT. Left out: what this process is connected to, else
            RAY_ADDRESS, else a cluster that runs on this machine, else a new one for the time of the work.
        num_workers: processes that load the run, each with a CPU and, on "cuda", a GPU; default: as many as the cluster
            has room for. There are never more than files.
        device: "cpu", "cuda", or "auto": cuda where the cluster has GPUs.

    Raises:
        ConfigurationError: an address that does not work, a number below 1, no device of that name.

    Relation to its siblings:
        ``complete_table`` computes in this process.

    Example:
        >>> RayCluster(address="auto", num_workers=8).device
        'auto'
    """

    address: str | None = None
    num_workers: int | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.num_workers is not None and self.num_workers < 1:
            raise ConfigurationError(f"num_workers={self.num_workers}: give 1 or more.")
        if self.device not in DEVICES:
            raise ConfigurationError(f"device={self.device!r} on Ray. {did_you_mean(self.device, DEVICES)}")
        check_address(self.address)


def complete_table_on_ray(
    run: str | Path,
    source: str | Path | pa.Table,
    output: Path,
    *,
    settings: BulkSettings,
    cluster: RayCluster | None = None,
    catalogue: str | Path | pa.Table | None = None,
    shard_size: int = 20_000,
    progress: Callable[[int, int], None] | None = None,
) -> BulkReport:
    """``complete_table`` on the machines of a Ray cluster: the same files, checks and errors, and as restartable.

    Args:
        run: run directory, on a file system that all machines share.
        source: the table: a path or a table; this process reads it, and sends the workers their rows.
        output: folder of the files, on a file system that all machines share.
        settings: columns, constraints and sizes.
        cluster: where; default: ``RayCluster()``.
        catalogue: the shop's table of items; this process reads it.
        shard_size: rows of the table a file.
        progress: called with (rows done, rows in all).

    Raises:
        ConfigurationError: Ray is not installed or not to be reached, a worker does not see a folder, and as
            ``complete_table``.
        DataError, SchemaError, UnknownNameError: as ``complete_table``.
        ContextualBertError: Ray lost its workers.
    """
    ray_data()
    cluster = cluster if cluster is not None else RayCluster()
    run, output = Path(run).absolute(), output.absolute()  # workers have working directories of their own
    pipeline = CompletionPipeline.from_pretrained(run, device="cpu", catalogue=catalogue)
    plan = ShardPlan(pipeline, source, output, settings=settings, shard_size=shard_size)
    if not plan.missing:
        return plan.finish((), progress)
    reads = TableCompleter(pipeline, settings).reads(plan.table)
    shop = read_table(catalogue) if catalogue is not None else None
    workers = set[tuple[str, int]]()
    try:
        with connected(cluster), lost_workers(output):
            device, num_workers = workers_of(cluster)
            job = ShardJob(str(run), str(output), settings, plan.manifest, shop, device)
            files = (packed(number, plan.rows(number).select(reads)) for number in plan.missing)
            with closing(computed(job, files, min(num_workers, len(plan.missing)), workers)) as shards:
                report = plan.finish(shards, progress)
    finally:
        for partial in output.glob(".part-*.partial"):  # of workers that were ended while they wrote
            partial.unlink(missing_ok=True)
    return replace(report, computed_by=computed_by(workers, asked=cluster.num_workers))


def computed_by(workers: Set[tuple[str, int]], *, asked: int | None) -> str:
    """Who computed, and how many were asked for if it was fewer.

    Example:
        >>> computed_by({("host-a", 17), ("host-b", 17)}, asked=4)
        'computed by 2 workers (4 asked for) on 2 machines'
    """
    num_machines = len({machine for machine, _ in workers})
    more = f" ({asked} asked for)" if asked is not None and len(workers) < asked else ""
    plurals = ["" if number == 1 else "s" for number in (len(workers), num_machines)]
    return f"computed by {len(workers)} worker{plurals[0]}{more} on {num_machines} machine{plurals[1]}"


def ray_data() -> Any:
    """Ray, with Ray Data; raises ConfigurationError where it is not installed."""
    try:
        import ray  # noqa: PLC0415  (an optional extra)

        _ = ray.data  # imported at this moment, with what it needs
    except ImportError as error:
        fix = "Install it: pip install 'contextual-bert[distributed]'."
        raise ConfigurationError(f"RayCluster needs Ray Data. {fix}") from error
    return ray


def check_address(address: str | None) -> None:
    """Raise ConfigurationError for that of a Ray client."""
    if address is not None and address.startswith("ray://"):
        raise ConfigurationError(
            f"{address} is the address of a Ray client, and Ray Data wants to run in the cluster. Run this on one of "
            "its machines with the address 'auto', or hand it in with `ray job submit`."
        )


def check_answers(address: str | None) -> None:
    """Raise ConfigurationError where nobody answers at HOST:PORT: Ray itself would try for many minutes."""
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        raise ConfigurationError(f"No Ray cluster answers at {address}: {error}. {START}") from error


def computed(
    job: ShardJob, files: Iterable[pa.Table], num_workers: int, workers: set[tuple[str, int]]
) -> Generator[ShardCounts]:
    """What each file holds, as the workers are done with it; who they were goes into ``workers``.

    Raises:
        ContextualBertError, OSError, MemoryError: what a worker met.
    """
    ray = ray_data()
    context = ray.data.DataContext.get_current()
    bars, context.enable_progress_bars = context.enable_progress_bars, False
    logger = logging.getLogger("ray.data")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        answers = ray.data.from_arrow_refs([ray.put(file) for file in files]).map_batches(
            ShardWorker,
            fn_constructor_args=(job,),
            batch_size=1,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=num_workers),
            num_cpus=1,
            num_gpus=1 if job.device == "cuda" else None,
        )
        batches = answers.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0)
        with ended(cast("Generator[pa.Table]", iter(batches))) as tables:
            for answer in (row for table in tables for row in table.to_pylist()):
                if answer["error"] is not None:
                    raise error_of(answer["error"])
                workers.add((answer["machine"], answer["process"]))
                yield ShardCounts(**{name: answer[name] for name in ShardCounts._fields})
    finally:
        context.enable_progress_bars = bars
        logger.setLevel(level)


@contextmanager
def ended(batches: Generator[pa.Table]) -> Generator[Generator[pa.Table]]:
    """What Ray Data gives, whose workers end with the block.

    Ray prints to standard output that it has ended workers which were at work, as if that were an error.
    """
    try:
        yield batches
    finally:
        with redirect_stdout(StringIO()):
            batches.close()


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
        raise ConfigurationError(f"device={device!r}, and the Ray cluster has no {kind}. Start a machine that has one.")
    return device, cluster.num_workers or room


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
                f"address={cluster.address!r}, and this process is connected to Ray already. Leave the address out."
            )
        yield
        return
    address = cluster.address or os.environ.get("RAY_ADDRESS")
    check_address(address)
    check_answers(address)
    absent = {name: value for name, value in ENVIRONMENT.items() if name not in os.environ}
    os.environ.update(absent)
    try:
        try:
            ray.init(address=cluster.address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
            where = f" at {address}" if address else ""
            raise ConfigurationError(f"No Ray cluster{where}: {error}. {START}") from error
        yield
    finally:
        with redirect_stdout(StringIO()):
            ray.shutdown()
        for name in absent:
            os.environ.pop(name, None)


@contextmanager
def lost_workers(output: Path) -> Generator[None]:
    """What becomes of Ray's own errors: of workers that died, not of what they met, which they tell in words."""
    errors = ray_data().exceptions
    try:
        yield
    except errors.UserCodeException:  # a bug of ours
        raise
    except errors.RayError as error:
        absent = re.search(r"No module named \S+", str(error))
        if absent is not None:
            fix = "Install the same version of contextual-bert on all machines of the cluster."
            raise ConfigurationError(f"A worker of Ray cannot start: {absent[0]}. {fix}") from error
        first_line = str(error).strip().split("\n")[0]
        raise ContextualBertError(
            f"Ray lost its workers: {first_line} Finished files in {output} are kept: start the same again."
        ) from error
