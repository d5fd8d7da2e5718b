"""The same folder of predictions by the workers of a Ray cluster."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contextual_bert.errors import ConfigurationError
from contextual_bert.frames import Frame
from contextual_bert.inference.tables.ray_cluster import RayCluster, ray_data
from contextual_bert.inference.tables.ray_shards import run_on_ray
from contextual_bert.inference.tables.shard_worker import TableJob
from contextual_bert.inference.tables.shards import SHARD_SIZE, BulkReport
from contextual_bert.inference.tables.text_tables import PredictionSettings, TablePredictor, TextShardPlan, is_folder
from contextual_bert.places import PathPlace


@dataclass(frozen=True)
class PredictionJob(TableJob):
    """What a worker loads to predict texts.

    Args:
        settings: columns and sizes.
    """

    settings: PredictionSettings

    def load(self, device: str) -> TablePredictor:
        return TablePredictor.from_run(self.run, self.settings, device=device)


def predict_table_on_ray(
    run: str | Path,
    source: str | Path | Frame,
    output: str | Path,
    *,
    settings: PredictionSettings,
    cluster: RayCluster | None = None,
    shard_size: int = SHARD_SIZE,
    progress: Callable[[int, int], None] | None = None,
) -> BulkReport:
    """``predict_table`` into a folder on the machines of a Ray cluster: the same files and errors, and as restartable.

    Args:
        run: run directory, on a file system that all machines share.
        source: the table: a path or a table; this process reads it, and sends the workers their rows.
        output: folder of the files, on a file system that all machines share.
        settings: columns and sizes.
        cluster: where; default: ``RayCluster()``.
        shard_size: rows of the table a file.
        progress: called with (rows done, rows in all).

    Raises:
        ConfigurationError: Ray is not installed or not to be reached, a worker does not see a folder, the output is a
            file, and as ``predict_table``.
        DataError, SchemaError, UnknownNameError: as ``predict_table``.
        ContextualBertError: Ray lost its workers.
    """
    ray_data()
    run, target = Path(run).absolute(), Path(output).absolute()  # workers have working directories of their own
    if not is_folder(target):
        raise ConfigurationError(
            "is one file, and workers write a file each",
            fix="Give a folder: a name without an ending.",
            place=PathPlace(target),
        )
    predictor = TablePredictor.from_run(run, settings, device="cpu")
    plan = TextShardPlan(predictor, source, target, shard_size=shard_size)
    return run_on_ray(plan, PredictionJob(str(run), settings), cluster or RayCluster(), progress)
