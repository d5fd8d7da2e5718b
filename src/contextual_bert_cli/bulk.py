"""``complete --data``: all rows of a table, in this process or on a Ray cluster."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from contextual_bert_cli.output import remark, working
from contextual_bert_cli.pipelines import load_pipeline

if TYPE_CHECKING:
    from contextual_bert.inference import BulkSettings, RayCluster


def complete_rows(
    directory: Path,
    data: Path,
    output: Path,
    *,
    settings: "BulkSettings",
    catalogue: Path | None,
    shard_size: int,
    device: str,
    cluster: "RayCluster | None",
) -> None:
    """Complete the rows of a table into a folder, and say what was done.

    Args:
        directory: of the run or export.
        data: the table.
        output: folder of the files.
        settings: columns, constraints and sizes.
        catalogue: file of the shop's items.
        shard_size: rows of the table a file.
        device: where to run.
        cluster: that of --ray; None: this process.

    Raises:
        ConfigurationError: an export with --ray.
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.inference.saved_files import RECORD_FILE
    from contextual_bert.training import counting

    if cluster is not None and (directory / RECORD_FILE).is_file():
        raise ConfigurationError(
            f"{directory} is an export, and --ray computes with a run",
            fix="Name the run that it was made from, or leave --ray out.",
        )
    if cluster is not None:
        from contextual_bert.inference import complete_table_on_ray

        with counting("completing") as progress:
            report = complete_table_on_ray(
                directory, data, output, settings=settings, cluster=cluster, catalogue=catalogue,
                shard_size=shard_size, progress=progress,
            )  # fmt: skip
    else:
        from contextual_bert.inference import complete_table

        with working(f"loading {directory}"):
            reading = settings.catalogue_reading
            pipeline = load_pipeline(directory, device=device, catalogue=catalogue, reading=reading)
        with counting("completing") as progress:
            report = complete_table(pipeline, data, output, settings=settings, shard_size=shard_size, progress=progress)
    remark(*report.lines(), f"wrote {output}")


def chosen_cluster(
    is_wanted: bool, *, address: str | None, workers: int | None, device: str, has_table: bool
) -> "RayCluster | None":
    """The cluster of --ray, or None.

    Raises:
        ConfigurationError: an option of --ray without it, --ray without a table, or a cluster that cannot be.
    """
    from contextual_bert.errors import ConfigurationError

    given = [name for name, value in {"--ray-address": address, "--workers": workers}.items() if value is not None]
    if given and not is_wanted:
        raise ConfigurationError(f"{given[0]} is for --ray", fix="Give that, or leave it out.")
    if is_wanted and not has_table:
        raise ConfigurationError(
            "--ray is for --data: what --set and --input ask is answered here", fix="Leave it out."
        )
    if not is_wanted:
        return None
    if find_spec("ray") is None:
        raise ConfigurationError(
            "--ray needs Ray Data, which is not installed here",
            fix="Run: pip install 'contextual-bert[distributed]'. Or leave it out.",
        )
    from contextual_bert.inference import RayCluster

    return RayCluster(address=address, num_workers=workers, device=device)
