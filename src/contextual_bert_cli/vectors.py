"""``contextual-bert vectors``: the vectors of a run's items as a file, for search engines and other programs."""

from pathlib import Path
from typing import Annotated

import typer

from contextual_bert.nouns import counted
from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.output import calm_transformers, check_output_path, remark, working

EXAMPLE = """\b
Example:
  contextual-bert vectors runs/gsu --output vectors.parquet
"""


def command(
    directory: options.RunOfSets,
    *,
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="File to write, .parquet or .jsonl; what is there is replaced.")
    ],
    device: options.Device = "auto",
) -> None:
    """Write a row an item: its vectors of input and output, its bias, whether it is new, its count in training."""
    calm_transformers()
    load_arrow()
    import pyarrow as pa

    from contextual_bert.data.writers import check_writable, write_table

    check_writable(output, pa.schema([("input_vector", pa.list_(pa.float32()))]))
    check_output_path(output)
    from contextual_bert.runs.run_directory import finished_run

    run = finished_run(directory)
    from contextual_bert import CompletionPipeline
    from contextual_bert.inference import item_vectors
    from contextual_bert.runs.item_counts import item_counts
    from contextual_bert.training import chosen_device

    with working(f"loading {directory}"):
        pipeline = CompletionPipeline.from_pretrained(directory, device=chosen_device(device))
    with working(f"counting the items of {run.recipe.data}"):
        known = item_counts(run)
    table = item_vectors(pipeline, training_counts=known.counts)
    write_table(table, output)
    size = table.schema.field("output_vector").type.list_size
    remark(f"wrote {output}: {counted(table.num_rows, 'item')}, vectors of {size} numbers")
    remark(*([known.reason] if known.reason is not None else []))
