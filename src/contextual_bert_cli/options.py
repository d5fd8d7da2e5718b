"""The options that several commands share, each described once. Imports no library, for the sake of ``--help``."""

from pathlib import Path
from typing import Annotated

import typer

DATA_FORMATS = ".parquet, .csv, .tsv, .json or .jsonl; text also packed as .gz, .bz2 or .zst"

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help=f"Table with one row a set, or text: {DATA_FORMATS}; of one item a row with --group-by."
    ),
]
RunDirectory = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, the --output of train.")]
RunOrExport = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, the --output of train, or of export.")]
TextRun = Annotated[
    Path, typer.Argument(metavar="RUN", help="Folder that a text model and its processor were saved in.")
]

# Of a finished run: what is left out is as the run has it.
RunData = Annotated[
    Path | None, typer.Option("--data", metavar="FILE", help=f"Table: {DATA_FORMATS}; left out, the run's own.")
]
RunPart = Annotated[
    str | None,
    typer.Option(
        "--part", metavar="train|validation|test|all", help="Part of the split; default: test, or all without one."
    ),
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
RunBatchSize = Annotated[
    int | None, typer.Option("--batch-size", min=1, help="Masked sets, or texts, a forward pass; default: the run's.")
]

ItemsOrText = Annotated[
    str | None,
    typer.Option(
        "--items", metavar="COLUMN", help="Column of items: a list a row, or text with --separator between items."
    ),
]
Text = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Column of texts, in place of --items; of lists of words where tags are learned."
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="With --text: labels, or lists of tags; left out, hidden words are learned (masked language model).",
    ),
]
Pair = Annotated[str | None, typer.Option(metavar="COLUMN", help="With --text: column of second texts.")]
Question = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="With --text and --answer: questions, each about the text of its row."),
]
AnswerColumn = Annotated[
    str | None,
    typer.Option(
        "--answer",
        metavar="COLUMN",
        help="With --question: the piece of the text that answers it, letter by letter; empty where there is none.",
    ),
]
AnswerStart = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="With --answer: the character where it begins, from 0 on; left out, where it is first."
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="BERT",
        help="With --text: folder of a BERT checkpoint, its name on the Hub, or a run on texts to go on from.",
    ),
]
MaxLength = Annotated[
    int | None, typer.Option(min=3, help="With --text: tokens kept of a text; default: what the checkpoint allows.")
]
Truncation = Annotated[
    str | None,
    typer.Option(
        metavar="head|head_tail", help="What is kept of longer texts: the beginning, or a quarter and the end."
    ),
]
Ordinal = Annotated[
    bool,
    typer.Option(
        "--ordinal",
        help="The labels are grades of one scale: numbers, halves too; words need --order. Classes are mostly better.",
    ),
]
Order = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B",
        help="The labels are grades of one scale: all of them, the lowest first, as bad,fair,good; repeatable or with "
        "commas.",
    ),
]
Masking = Annotated[
    str | None,
    typer.Option(metavar="token|word|span", help="With --text and no --label: what is hidden (default token)."),
]
MaskRate = Annotated[
    float | None, typer.Option(help="With --text and no --label: share of tokens hidden (default 0.15).")
]
MaxMaskRate = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Each text hides a share of its own, between --mask-rate and this: 1 for a run that sample draws from.",
    ),
]
ScoredTokens = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|all",
        help="With --text and no --label: hidden tokens scored of each part, drawn by a hash (default 2000).",
    ),
]
FromScratch = Annotated[
    bool,
    typer.Option("--from-scratch", help="With --text: take the checkpoint's sizes and tokenizer, not its weights."),
]
TrainedWeights = Annotated[
    str | None,
    typer.Option(
        metavar="all|new|lora",
        help="With --text: train all weights, only those the checkpoint lacks, or beside those low-rank changes of its "
        "queries and values. Of methods: a baseline trains all that is its own.",
    ),
]
Lora = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="With --trained-weights lora: rank, alpha or dropout; repeatable."),
]
Customer = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column that says whose set or text it is: the unit of splits and intervals."),
]
Time = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column that says when: a date, a timestamp, or text as 2016-03-05."),
]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="A,B", help="Columns that are no context; repeatable or with commas.")
]
GroupBy = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B",
        help="Where the table has one item a row: the columns that name a set, such as order; repeatable or with "
        "commas. A cell is then one item, unless --separator names another mark than the comma.",
    ),
]
MinCustomers = Annotated[
    int,
    typer.Option(
        min=1,
        help="Fewest customers of a value, or a bin of numbers, in an inferred schema; without --customer fewest rows. "
        "Below 10 the run may hold values of single people.",
    ),
]
MaxCategories = Annotated[
    int,
    typer.Option(
        min=1,
        help="Most values of a column with a vector of their own in an inferred schema, the most frequent ones.",
    ),
]
HashBuckets = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="How many vectors the rarer values of a column share, by a hash; 0: none, they count as unknown. Left "
        "out: one for each --min-customers of them.",
    ),
]
FieldSelection = Annotated[
    str,
    typer.Option(
        metavar="auto|off",
        help="auto: fields of the context that the training sets show to say nothing are read as missing; off: all are "
        "read. Texts keep all fields.",
    ),
]
Leaks = Annotated[
    str,
    typer.Option(
        metavar="drop|keep",
        help="Columns that give the set or label away, as a sum over its items does: left out of an inferred schema, "
        "or kept.",
    ),
]
Sensitive = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B",
        help="Columns of the context whose values stand in no card, report, log or OpenAPI document; as --exclude.",
    ),
]

DropItems = Annotated[
    list[str] | None, typer.Option(metavar="A,B", help="Items to drop, by name; repeatable or with commas.")
]
DropPrefixes = Annotated[
    list[str] | None, typer.Option(metavar="A,B", help="Drop items that start with one of these; as --drop-items.")
]
MinCount = Annotated[
    int, typer.Option(help="Drop items that occur fewer times than this in the training part (1 keeps all).")
]
MinSize = Annotated[int, typer.Option(help="Drop sets of fewer items.")]
MaxSize = Annotated[int | None, typer.Option(help="Most items of a set; left out, there is no limit.")]
Longer = Annotated[str, typer.Option(metavar="drop|sample", help="What happens to sets of more than --max-size items.")]
Duplicates = Annotated[
    str, typer.Option(metavar="error|drop|keep", help="What happens to an item that occurs twice in a set.")
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="What stands between the cells of a row of CSV: ';', '|' or tab; left out, a comma, or as in the header.",
    ),
]
OnBadRow = Annotated[
    str,
    typer.Option(metavar="error|drop", help="What happens to a broken row: stop there, or leave it out and count it."),
]
DateFormat = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FORMAT",
        help="How dates are written that are not 2016-03-05, as strptime has it: '%d/%m/%Y %H:%M:%S'; repeatable.",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        metavar=".|,",
        help="Mark before the decimals of numbers in text: ',' reads 1.234,50 and 1 234,50; '.' reads 1,234.50 and "
        "1'234.50. Left out: a point, and nothing between thousands.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Encoding of a file of text that is not UTF-8, as Python names it: cp1252."),
]
MissingValue = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=VALUE",
        help="Value of a context column that stands for a missing one, as age=999 or born=1900-01-01; without COLUMN= "
        "of each column; repeatable.",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        help="What stands between the items of one cell of text (CSV): a comma if left out; with --group-by nothing."
    ),
]

Schema = Annotated[
    Path | None, typer.Option(metavar="FILE", help="schema.json of inspect; left out, it is inferred from the table.")
]
SplitFile = Annotated[
    Path | None, typer.Option("--split", metavar="FILE", help="Split file of the command split, made for this table.")
]
SplitColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column that says the part of each row: train, validation or test."),
]
ValidationData = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Table that is the validation part; DATA is the rest."),
]
TestData = Annotated[Path | None, typer.Option(metavar="FILE", help="Table that is the test part; DATA is the rest.")]
SplitBy = Annotated[
    str | None,
    typer.Option(metavar="customer|time|row", help="How to split without a split file; default: customer if named."),
]
Validation = Annotated[
    float,
    typer.Option(min=0.0, help="Share, 0 to below 1, that chooses the best epoch (0: the last is kept)."),
]
Test = Annotated[float, typer.Option(min=0.0, help="Share, 0 to below 1, that the final numbers come from.")]
SplitSeed = Annotated[int, typer.Option(min=0, help="Seed of the split, beside which nothing random decides it.")]

Jobs = Annotated[
    int,
    typer.Option(
        min=1,
        help="Runs trained beside each other, each with its share of the cores, all on one accelerator. Small models "
        "are done sooner so: 2 on two cores, 8 or more on a GPU.",
    ),
]
Epochs = Annotated[
    float | None, typer.Option(help="Passes over the training part, above 0 (default by the number of rows).")
]
BatchSize = Annotated[
    int | None, typer.Option(help="Sets a training step and process (default 64 to 256 by their number, for texts 32).")
]
LearningRate = Annotated[
    float | None, typer.Option(help="Peak learning rate, above 0 (default 0.001, for texts 0.0001).")
]
MasksPerSet = Annotated[
    int | None, typer.Option(help="Items masked in each set and step, 1 or more (default 2, then 1).")
]
ItemVectors = Annotated[
    str | None,
    typer.Option(
        metavar="cooccurrence|random",
        help="What the item vectors of a new model say: what each comes with in training sets, or nothing "
        "(default cooccurrence).",
    ),
]
Patience = Annotated[
    int | None,
    typer.Option(
        help="Stop after so many epochs without a better validation cross-entropy, of tags accuracy, or whatever "
        "--set metric_for_best_model=NAME says: accuracy, macro_f1, rmse, entity_f1, mrr, recall@5 ..."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of initialisation, masks, dropout and order.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda|mps", help="Where to run; auto takes an accelerator.")]
Dtype = Annotated[
    str,
    typer.Option(
        metavar="auto|float32|bfloat16",
        help="bfloat16 runs under autocast, weights and loss stay float32. Fast on accelerators and on many processors "
        "with AMX or AVX512-BF16, slower than float32 on others; auto takes the faster one.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other training argument, e.g. weight_decay=0.1; repeatable."),
]
Model = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Any field of the model's config, e.g. hidden_size=256; repeatable."),
]
Compile = Annotated[bool, typer.Option("--compile", help="Use torch.compile: slow to start, then faster.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on at the last whole checkpoint of an interrupted run.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")]
FormatChoice = Annotated[str, typer.Option("--format", metavar="table|markdown|json", help="How to print the result.")]
