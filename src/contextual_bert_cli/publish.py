"""``contextual-bert publish``: a run on the Hugging Face Hub, without what is nobody's business."""

from typing import Annotated

import typer

from contextual_bert.nouns import counted
from contextual_bert_cli import options
from contextual_bert_cli.output import calm_transformers, remark, working

EXAMPLE = """\b
Example:
  contextual-bert publish --dry-run runs/gsu my-shop/outfits
  hf auth login
  contextual-bert publish runs/gsu my-shop/outfits
  hf download my-shop/outfits --local-dir outfits
  contextual-bert complete outfits --set 'coat-1,[MASK]'
"""


def command(
    directory: options.RunDirectory,
    repository: Annotated[
        str, typer.Argument(metavar="OWNER/NAME", help="Repository on the Hub; it is made where it is not there.")
    ],
    *,
    is_public: Annotated[
        bool, typer.Option("--public", help="Make a new repository public. One that is there stays what it is.")
    ] = False,
    is_dry: Annotated[
        bool, typer.Option("--dry-run", help="Name the files that would be sent, and send none.")
    ] = False,
) -> None:
    """Upload a run to the Hugging Face Hub: model, processor, schema, recipe, metrics and card.

    Scores of single rows, checkpoints and curves stay here, and of the paths in the files their last parts alone go.
    The token is the one of `hf auth login`, or of HF_TOKEN; another hub is named by HF_ENDPOINT.
    """
    calm_transformers()
    from contextual_bert.runs.publishing import check_repository, publish_run, published_files

    check_repository(repository)
    names = published_files(directory)
    size = sum((directory / name).stat().st_size for name in names)
    remark(f"{counted(len(names), 'file')} and their manifest, {size / 1e6:,.1f} MB: {', '.join(names)}")
    if is_dry:
        return
    with working(f"sending {directory}"):
        address = publish_run(directory, repository, is_private=not is_public)
    remark(f"published {directory} at {address}")
