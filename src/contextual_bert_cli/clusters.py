"""The options of --ray, and the cluster that they name."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contextual_bert.inference import RayCluster

ShardSize = Annotated[int | None, typer.Option(min=1, help="Rows of --data a file of --output (default: 20000).")]
Ray = Annotated[
    bool,
    typer.Option("--ray", help="Compute the files of --data on a Ray cluster: the one that is there, or a local one."),
]
Address = Annotated[
    str | None,
    typer.Option(metavar="auto|local|HOST:PORT", help="With --ray: which cluster, as ray.init takes it."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="With --ray: processes, each with a CPU, or a GPU (default: what the cluster has)."),
]


def chosen_cluster(is_wanted: bool, *, address: str | None, workers: int | None, device: str) -> "RayCluster | None":
    """The cluster of --ray, or None.

    Raises:
        ConfigurationError: an option of --ray without it, no Ray, or a cluster that cannot be.
    """
    from contextual_bert.errors import ConfigurationError

    given = [name for name, value in {"--ray-address": address, "--workers": workers}.items() if value is not None]
    if given and not is_wanted:
        raise ConfigurationError("is for --ray", setting=given[0], fix="Give that, or leave it out.")
    if not is_wanted:
        return None
    if find_spec("ray") is None:
        raise ConfigurationError(
            "needs Ray, which is not installed here",
            fix="Run: pip install 'contextual-bert[distributed]'. Or leave it out.",
            setting="--ray",
        )
    from contextual_bert.inference import RayCluster

    return RayCluster(address=address, num_workers=workers, device=device)


def check_is_run(directory: Path) -> None:
    """Raise ConfigurationError where a cluster is to compute with an export.

    Args:
        directory: of the run or export.
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.inference.saved_files import RECORD_FILE
    from contextual_bert.places import PathPlace

    if (directory / RECORD_FILE).is_file():
        raise ConfigurationError(
            "is an export, and --ray computes with a run",
            fix="Name the run that it was made from, or leave --ray out.",
            place=PathPlace(directory),
        )
