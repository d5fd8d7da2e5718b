"""``contextual-bert export``: a run as ONNX files with everything that answering needs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.inputs import one_of
from contextual_bert_cli.output import calm_transformers, check_output_path, remark, working

if TYPE_CHECKING:
    from contextual_bert.inference import OnnxExport, OnnxTextExport
    from contextual_bert.inference.exported.record import OutputMatrix

SENTENCE_TRANSFORMERS = "sentence-transformers"
EXAMPLE = """\b
Example:
  contextual-bert export runs/gsu
  contextual-bert export runs/gsu --output serve/gsu --top 20 --output-matrix int8
  contextual-bert export runs/verdict --output serve/verdict
  contextual-bert export runs/search --format sentence-transformers --output search
"""


def command(
    directory: options.RunDirectory,
    *,
    output_format: Annotated[
        str,
        typer.Option(
            "--format",
            **one_of(("onnx", SENTENCE_TRANSFORMERS)),
            help="What to write; of a run of --objective contrastive without a context what sentence-transformers "
            "loads.",
        ),
    ] = "onnx",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            file_okay=False,
            help="Folder to write to; default: RUN/onnx, or RUN/sentence-transformers.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1, help="Of a run of sets: the most proposals a [MASK] that can be asked later (default: 10)."
        ),
    ] = None,
    output_matrix: Annotated[
        str | None,
        typer.Option(
            **one_of(("float32", "int8")),
            help="Of a run of sets: int8 lets the output product read a quarter of the memory (default: float32).",
        ),
    ] = None,
) -> None:
    """Write a run as ONNX and compare the graph with the model: sets with top-k and constraints, texts with labels,
    tags or answers. Or write a sentence encoder as sentence-transformers saves one.
    """
    calm_transformers()
    load_arrow()
    from contextual_bert.runs.run_directory import load_recipe

    load_recipe(directory)

    folder = output if output is not None else directory / output_format
    check_output_path(folder)
    if output_format == SENTENCE_TRANSFORMERS:
        from contextual_bert.errors import ConfigurationError
        from contextual_bert.inference import write_sentence_transformers

        given = next((name for name, value in {"--top": top, "--output-matrix": output_matrix}.items() if value), None)
        if given is not None:
            raise ConfigurationError("is for ONNX", setting=given, fix="Leave it out.")
        with working(f"exporting {directory}"):
            told = write_sentence_transformers(directory, folder)
        remark(f"wrote {folder}: sentence_transformers.SentenceTransformer({str(folder)!r}) loads it", *told)
        return
    from contextual_bert.inference import export_onnx

    with working(f"exporting {directory}"):
        record = export_onnx(directory, folder, top_k=top, output_matrix=cast("OutputMatrix | None", output_matrix))
    remark(f"wrote {folder}", parity_in_words(record))


def parity_in_words(record: "OnnxExport | OnnxTextExport") -> str:
    """Return how far an export is from its model."""
    if "kind" in record:
        parity = record["parity"]
        return f"on {parity['num_rows']} random texts: at most {parity['max_difference']:.1g} from the model in a logit"
    parity = record["parity"]
    return (
        f"on {parity['num_rows']} random sets: at most {parity['max_difference_nats']:.1g} nats from the model, "
        f"{parity['recall']:.1%} of its {record['top_k']} best items found"
    )
