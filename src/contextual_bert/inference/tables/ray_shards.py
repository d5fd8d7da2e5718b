"""The files of a table by the workers of a Ray cluster: Ray Data hands out the rows, a worker makes a file.

What a file holds and when the folder is done, it leaves to ``shards``; what a worker does, to ``shard_worker``.
"""

import logging
from collections.abc import Callable, Generator, Iterable, Set
from contextlib import ExitStack, closing, redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import cast

import pyarrow as pa

from contextual_bert.inference.tables.ray_cluster import RayCluster, connected, lost_workers, ray_data, workers_of
from contextual_bert.inference.tables.shard_worker import ShardJob, ShardWorker, TableJob, error_of, packed
from contextual_bert.inference.tables.shards import BulkReport, ShardCounts, ShardPlan


def run_on_ray(
    plan: ShardPlan, table_job: TableJob, cluster: RayCluster, progress: Callable[[int, int], None] | None = None
) -> BulkReport:
    """Compute the missing files of a plan on the machines of a Ray cluster.

    Args:
        plan: its folder is on a file system that all machines share, under an absolute path.
        table_job: what a worker loads; its run is on one, too.
        cluster: where.
        progress: called with (rows done, rows in all).

    Raises:
        ConfigurationError: Ray is not installed or not to be reached, a worker does not see a folder.
        ContextualBertError: Ray lost its workers; what a worker met.
    """
    ray_data()
    if not plan.missing:
        return plan.run((), progress)
    reads = plan.worker.reads(plan.table)
    workers = set[tuple[str, int]]()
    try:
        with ExitStack() as silence, connected(cluster), lost_workers(plan.output):
            device, num_workers = workers_of(cluster)
            job = ShardJob(table_job, str(plan.output), plan.manifest, device)
            files = (packed(number, plan.rows(number).select(reads)) for number in plan.missing)
            num_workers = min(num_workers, len(plan.missing))
            with closing(computed(job, files, num_workers, workers=workers, silence=silence)) as shards:
                report = plan.run(shards, progress)
    finally:
        for partial in plan.output.glob(".part-*.partial"):  # of workers that were ended while they wrote
            partial.unlink(missing_ok=True)
    return replace(report, computed_by=computed_by(workers, asked=cluster.num_workers))


def computed_by(workers: Set[tuple[str, int]], *, asked: int | None) -> str:
    """Return a sentence on the workers that computed, and on how many were asked for if fewer did.

    Example:
        >>> computed_by({("host-a", 17), ("host-b", 17)}, asked=4)
        'computed by 2 workers (4 asked for) on 2 machines'
    """
    num_machines = len({machine for machine, _ in workers})
    more = f" ({asked} asked for)" if asked is not None and len(workers) < asked else ""
    plurals = ["" if number == 1 else "s" for number in (len(workers), num_machines)]
    return f"computed by {len(workers)} worker{plurals[0]}{more} on {num_machines} machine{plurals[1]}"


def computed(
    job: ShardJob, files: Iterable[pa.Table], num_workers: int, *, workers: set[tuple[str, int]], silence: ExitStack
) -> Generator[ShardCounts]:
    """Yield the counts of each file as workers finish it.

    Args:
        job: what a worker has to know.
        files: what is to be computed, each one packed.
        num_workers: how many workers are asked for.
        workers: who they were is added here.
        silence: what closes when Ray has nothing to print any more. It prints to standard output that it has ended
            workers which were at work, as if that were an error.

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
        batches = iter(answers.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0))
        with closing(cast("Generator[pa.Table]", batches)) as tables:
            try:
                for answer in (row for table in tables for row in table.to_pylist()):
                    if answer["error"] is not None:
                        raise error_of(answer["error"])
                    workers.add((answer["machine"], answer["process"]))
                    yield ShardCounts(
                        answer["number"], answer["num_rows"], answer["num_written"], tuple(answer["noted"])
                    )
            finally:
                silence.enter_context(redirect_stdout(StringIO()))
    finally:
        context.enable_progress_bars = bars
        logger.setLevel(level)
