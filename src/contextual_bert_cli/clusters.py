"""The options of --ray, and the cluster that they name."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contextual_bert.inference import RayCluster

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
