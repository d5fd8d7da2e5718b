"""``contextual-bert compare``: methods x seeds on the same split and the same masks, in one report."""

from pathlib import Path
from typing import Annotated

import typer

from contextual_bert_cli import options
from contextual_bert_cli.failures import resumable
from contextual_bert_cli.output import calm_transformers, next_commands, remark, working
from contextual_bert_cli.recipes import (
    check_apart,
    check_tables,
    listed,
    method_of,
    recipe_of,
)
from contextual_bert_cli.studies import finish_study, without_weights
from contextual_bert_cli.wording import in_options

EXAMPLE = """\b
Example:
  contextual-bert compare days.parquet --items items --schema schema.json --conditioning none,concat,global_state \\
      --seeds 3 --baselines bag,bag_context --epochs 20 --output runs/cmp
"""


def command(
    data: options.Data,
    *,
    items: options.ItemsOrText = None,
    text: options.Text = None,
    label: options.Label = None,
    pair: options.Pair = None,
    question: options.Question = None,
    answer: options.AnswerColumn = None,
    answer_start: options.AnswerStart = None,
    checkpoint: options.Checkpoint = None,
    output: Annotated[
        Path,
        typer.Option(
            metavar="DIRECTORY",
            file_okay=False,
            help="Folder of the study: runs, report and plots; complete runs are kept.",
        ),
    ],
    group_by: options.GroupBy = None,
    customer: options.Customer = None,
    time: options.Time = None,
    schema: options.Schema = None,
    exclude: options.Exclude = None,
    min_customers: options.MinCustomers = 10,
    max_categories: options.MaxCategories = 1000,
    hash_buckets: options.HashBuckets = None,
    leaks: options.Leaks = "drop",
    field_selection: options.FieldSelection = "auto",
    sensitive: options.Sensitive = None,
    conditioning: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Methods; default: the paper's five, or that of the run it goes on from."),
    ] = None,
    baselines: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B",
            help="Baselines: popularity, context_popularity, of sets bag, bag_context; of labelled texts ngrams, cnn, "
            "bert_concat_word, bert_concat_text, of these and of tags bilstm, of tags bilstm_crf, each without BERT "
            "with _context too; of any texts bert_context_as_text.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds a method: --seed and the numbers after it.")] = 3,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD", help="What the others are compared with; default: none, or the method it goes on with."
        ),
    ] = None,
    split: options.SplitFile = None,
    split_column: options.SplitColumn = None,
    validation_data: options.ValidationData = None,
    test_data: options.TestData = None,
    split_by: options.SplitBy = None,
    validation: options.Validation = 0.1,
    test: options.Test = 0.1,
    split_seed: options.SplitSeed = 0,
    epochs: options.Epochs = None,
    batch_size: options.BatchSize = None,
    learning_rate: options.LearningRate = None,
    masks_per_set: options.MasksPerSet = None,
    item_vectors: options.ItemVectors = None,
    patience: options.Patience = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = 1,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    settings: options.Settings = None,
    model: options.Model = None,
    compile_model: options.Compile = False,
    drop_items: options.DropItems = None,
    drop_prefixes: options.DropPrefixes = None,
    min_count: options.MinCount = 1,
    min_size: options.MinSize = 1,
    max_size: options.MaxSize = None,
    longer: options.Longer = "drop",
    duplicates: options.Duplicates = "error",
    separator: options.Separator = None,
    delimiter: options.Delimiter = None,
    on_bad_row: options.OnBadRow = "error",
    date_format: options.DateFormat = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    missing_value: options.MissingValue = None,
    max_length: options.MaxLength = None,
    truncation: options.Truncation = None,
    ordinal: options.Ordinal = False,
    order: options.Order = None,
    masking: options.Masking = None,
    mask_rate: options.MaskRate = None,
    max_mask_rate: options.MaxMaskRate = None,
    scored_tokens: options.ScoredTokens = None,
    from_scratch: options.FromScratch = False,
    trained_weights: options.TrainedWeights = None,
    lora: options.Lora = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Train several methods with several seeds on the same split and compare them on the same masked positions."""
    choices = dict(locals())
    from contextual_bert.runs.registry import PAPER_METHODS

    calm_transformers()
    method = method_of(checkpoint)
    methods = (method,) if method is not None else PAPER_METHODS
    names = [*dict.fromkeys((*(listed(conditioning) or methods), *listed(baselines)))]
    base = recipe_of({**choices, "conditioning": names[0]})
    check_tables(data, validation_data, test_data)

    from contextual_bert.runs import Peers, as_row, prepare_for, study
    from contextual_bert.runs.registry import check_read, check_recipe, check_study, keeps_weights
    from contextual_bert.runs.run_directories import clear_run
    from contextual_bert.runs.selected_fields import with_selected_fields
    from contextual_bert.runs.sweep import run_directory
    from contextual_bert.runs.tasks import task_of
    from contextual_bert.training import counting

    recipes = [as_row(base, name).with_seed(seed + number) for name in names for number in range(seeds)]
    check_read(base, recipes)
    reference = reference or (method if method in names else "none")
    check_study(recipes, reference=reference)
    for recipe in recipes[::seeds]:
        check_recipe(recipe)
    if overwrite:
        check_apart([checkpoint], [run_directory(output, recipe) for recipe in recipes])
    with resumable(output):
        with working(f"reading {data}"):
            ready = prepare_for(recipes[0])
        folders = [] if overwrite else [run_directory(output, recipe) for recipe in recipes]
        with counting("choosing the fields of the context") as progress:
            ready = with_selected_fields(ready, recipes, remembered=folders, progress=progress)
        remark(*map(in_options, ready.lines()), *ready.remarks())
        if overwrite:
            for recipe in recipes:
                task_of(ready).check(ready.resolve(recipe))
            for recipe in recipes:
                clear_run(run_directory(output, recipe))
        found = study(
            f"Methods compared on {data}",
            recipes,
            output,
            prepared=ready,
            peers=Peers(reference=reference),
            num_jobs=jobs,
            say=remark,
        )
    finish_study(found, output, runs=output / "METHOD" / "seed-N")
    ranking, firsts = found.ranking(), {recipe.label: recipe for recipe in reversed(recipes)}
    usable = next((firsts[name] for name in ranking if keeps_weights(firsts[name])), None)
    if usable is not None:
        remark(*without_weights(ranking[0], usable))
        folder = run_directory(output, usable)
        next_commands(["evaluate", str(folder), "--part", ready.evaluated_part, "--output", f"{folder}/evaluation"])
