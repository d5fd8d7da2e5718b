"""``contextual-bert export``: a run as an ONNX file with everything that serving it needs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.inputs import one_of
from contextual_bert_cli.output import calm_transformers, check_output_path, remark, working

if TYPE_CHECKING:
    from contextual_bert.inference.exported.completion_graph import OutputMatrix

EXAMPLE = """\b
Example:
  contextual-bert export runs/gsu
  contextual-bert export runs/gsu --output serve/gsu --top 20 --output-matrix int8
"""


def command(
    directory: options.RunOfSets,
    *,
    output_format: Annotated[str, typer.Option("--format", **one_of(("onnx",)), help="What to write.")] = "onnx",
    output: Annotated[
        Path | None, typer.Option(metavar="DIRECTORY", file_okay=False, help="Folder to write to; default: RUN/onnx.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="The most proposals a [MASK] that can be asked later.")] = 10,
    output_matrix: Annotated[
        str, typer.Option(**one_of(("float32", "int8")), help="int8: the output product reads a quarter of the memory.")
    ] = "float32",
) -> None:
    """Write a run as ONNX: top-k and constraints inside the graph, and compare the graph with the model."""
    calm_transformers()
    load_arrow()
    from contextual_bert.runs.run_directory import load_recipe

    load_recipe(directory)

    folder = output if output is not None else directory / "onnx"
    check_output_path(folder)
    from contextual_bert.inference import export_onnx

    with working(f"exporting {directory}"):
        record = export_onnx(directory, folder, top_k=top, output_matrix=cast("OutputMatrix", output_matrix))
    parity = record["parity"]
    remark(
        f"wrote {folder}",
        f"on {parity['num_rows']} random sets: at most {parity['max_difference_nats']:.1g} nats from the model, "
        f"{parity['recall']:.1%} of its {record['top_k']} best items found",
    )
