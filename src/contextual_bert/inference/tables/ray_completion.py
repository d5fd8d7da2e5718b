"""The same folder of completions by the workers of a Ray cluster."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from contextual_bert.data import read_table
from contextual_bert.data.column_types import EVERY_COLUMN
from contextual_bert.frames import Frame
from contextual_bert.inference.applied_calibration import calibrate_by_run
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.tables.bulk import BulkSettings, TableCompleter
from contextual_bert.inference.tables.ray_cluster import RayCluster, ray_data
from contextual_bert.inference.tables.ray_shards import run_on_ray
from contextual_bert.inference.tables.set_shards import SetShardPlan
from contextual_bert.inference.tables.shard_worker import TableJob
from contextual_bert.inference.tables.shards import SHARD_SIZE, BulkReport


@dataclass(frozen=True)
class CompletionJob(TableJob):
    """What a worker loads to complete sets.

    Args:
        settings: columns, constraints and sizes.
        catalogue: the shop's table of items.
    """

    settings: BulkSettings
    catalogue: pa.Table | None

    def load(self, device: str) -> TableCompleter:
        return TableCompleter(loaded(self.run, self.settings, catalogue=self.catalogue, device=device), self.settings)


def complete_table_on_ray(
    run: str | Path,
    source: str | Path | Frame,
    output: Path,
    *,
    settings: BulkSettings,
    cluster: RayCluster | None = None,
    catalogue: str | Path | Frame | None = None,
    shard_size: int = SHARD_SIZE,
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
    run, output = Path(run).absolute(), output.absolute()  # workers have working directories of their own
    reading = settings.catalogue_reading
    shop = read_table(catalogue, code_columns=EVERY_COLUMN, settings=reading) if catalogue is not None else None
    job = CompletionJob(str(run), settings, shop)
    # The catalogue is read from its file here, so that errors name it.
    pipeline = loaded(run, settings, catalogue=catalogue, device="cpu")
    plan = SetShardPlan(pipeline, source, output, settings=settings, shard_size=shard_size)
    return run_on_ray(plan, job, cluster if cluster is not None else RayCluster(), progress)


def loaded(
    run: str | Path, settings: BulkSettings, *, catalogue: str | Path | Frame | None, device: str
) -> CompletionPipeline:
    """Return the pipeline of a run as settings ask for it."""
    pipeline = CompletionPipeline.from_pretrained(
        run, device=device, catalogue=catalogue, reading=settings.catalogue_reading, is_exact=settings.is_exact
    )
    if settings.coverage is not None:
        calibrate_by_run(pipeline, run, settings.coverage)
    return pipeline
