"""The options that several commands share, each described once.

Those of the recipe's fields are in ``recipe_options``. Imports nothing heavy, for the sake of ``--help``.
"""

from pathlib import Path
from typing import Annotated

import typer

from contextual_bert.options import TRAINING
from contextual_bert_cli.inputs import PARTS, checking, one_of
from contextual_bert_cli.recipe_options import option_info

DATA_FORMATS = ".parquet, .csv, .tsv, .json or .jsonl; text also packed as .gz, .bz2 or .zst"

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        callback=checking("table"),
        help=f"Table with one row a set, or text: {DATA_FORMATS}; of one item a row with --group-by.",
    ),
]
RunDirectory = Annotated[
    Path, typer.Argument(metavar="RUN", callback=checking("run"), help="Run directory, the --output of train.")
]
RunOfSets = Annotated[
    Path, typer.Argument(metavar="RUN", callback=checking("run of sets"), help="Run directory, the --output of train.")
]
ExplainedRun = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", callback=checking("run that is explained"), help="Run directory, the --output of train."
    ),
]
RunOrExport = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        callback=checking("run of sets or export"),
        help="Run directory, the --output of train, or of export.",
    ),
]
ServedRunOrExport = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        callback=checking("served run or export"),
        help="Run directory, of sets or of texts, the --output of train, or of export.",
    ),
]
_TEXT_MODEL = "Folder that a text model and its processor were saved in."
ModelOfLabels = Annotated[Path, typer.Argument(metavar="RUN", callback=checking("model of labels"), help=_TEXT_MODEL)]
ModelOfWords = Annotated[Path, typer.Argument(metavar="RUN", callback=checking("model of words"), help=_TEXT_MODEL)]
ModelThatWrites = Annotated[
    Path, typer.Argument(metavar="RUN", callback=checking("model that writes"), help=_TEXT_MODEL)
]
ModelOfVectors = Annotated[Path, typer.Argument(metavar="RUN", callback=checking("model of vectors"), help=_TEXT_MODEL)]
Exact = Annotated[
    bool,
    typer.Option("--exact", help="Rank all items, though RUN has an index of them (contextual-bert index makes one)."),
]
Times = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,",
        help="Of a run with --time-gaps: the time of each item of --set, as in training, or a JSON list of them; null, "
        "or nothing, where it is not known.",
    ),
]

# Of a finished run: what is left out is as the run has it.
RunData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FILE",
        callback=checking("table"),
        help=f"Table: {DATA_FORMATS}; left out, the run's own.",
    ),
]
RunPart = Annotated[
    str | None,
    typer.Option("--part", **one_of(PARTS), help="Part of the split; default: test, or all without one."),
]
RunItems = Annotated[
    str | None,
    typer.Option("--items", metavar="COLUMN", help="Column of items, of a run on sets; left out, as it was trained."),
]
RunCustomer = Annotated[
    str | None,
    typer.Option("--customer", metavar="COLUMN", help="Column of customers; left out, as the run was trained."),
]
RunGroupBy = Annotated[
    list[str] | None,
    typer.Option(
        "--group-by",
        metavar="A,B",
        help="Columns that name a set, where the table has one item a row, or '' where it has one set a row; left out, "
        "as the run was trained.",
    ),
]
RunOrder = Annotated[
    str | None,
    typer.Option(
        "--order",
        metavar="COLUMN",
        help="Column that puts the items of a set in order, of a run that was trained with one; left out, that one.",
    ),
]
RunBatchSize = Annotated[
    int | None, typer.Option("--batch-size", min=1, help="Masked sets, or texts, a forward pass; default: the run's.")
]

Coverage = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Of a run that calibrate has calibrated: add the set that holds the true one so often, as 0.9, and temper "
        "the probabilities.",
    ),
]

# Of the recipe's fields, for commands that have no others.
SplitFile = Annotated[Path | None, option_info("split")]
ScoredTokens = Annotated[str | None, option_info("scored_tokens")]
Device = Annotated[str, option_info("device")]
Dtype = Annotated[str, option_info("dtype")]

Jobs = Annotated[
    int,
    typer.Option(
        min=1,
        rich_help_panel=TRAINING,
        help="Runs trained beside each other, each with its share of the cores, all on one accelerator. Small models "
        "are done sooner so: 2 on two cores, 8 or more on a GPU.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", rich_help_panel=TRAINING, help="Go on at the last whole checkpoint of an interrupted run."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")]
FormatChoice = Annotated[
    str, typer.Option("--format", **one_of(("table", "markdown", "json")), help="How to print the result.")
]
