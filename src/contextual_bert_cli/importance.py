"""``contextual-bert importance``: which feature of the context a run's gain comes from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.inputs import check_asked_columns, one_of
from contextual_bert_cli.option_values import split_commas
from contextual_bert_cli.output import (
    calm_transformers,
    check_output_path,
    next_commands,
    remark,
    show_numbers,
)
from contextual_bert_cli.recipe_options import READING, typed, with_recipe_options
from contextual_bert_cli.recipes import check_reads, evaluation_overrides

EXAMPLE = """\b
Example:
  contextual-bert importance runs/gsu --output runs/gsu/importance
  contextual-bert importance runs/gsu --replace missing
  contextual-bert importance runs/gsu --flip gender
  contextual-bert importance runs/gsu --part validation --permutations 5 --format json > importance.json
"""


@with_recipe_options(only=READING)
def command(
    directory: options.RunDirectory,
    *,
    data: options.RunData = None,
    split: options.SplitFile = None,
    part: options.RunPart = None,
    items: options.RunItems = None,
    group_by: options.RunGroupBy = None,
    order: options.RunOrder = None,
    customer: options.RunCustomer = None,
    permutations: Annotated[
        int, typer.Option(min=1, help="Permutations of each feature, whose mean is taken: more is less chance.")
    ] = 1,
    replace: Annotated[
        str,
        typer.Option(
            **one_of(("permute", "missing")),
            help="What each feature is replaced by: the value of another row, or the state missing, which also judges "
            "a feature that is the same in every row.",
        ),
    ] = "permute",
    flip: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Instead: how often the answer changes when this field says something else, each value in turn.",
        ),
    ] = None,
    output_format: options.FormatChoice = "table",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            file_okay=False,
            help="Write importance.md, importance.json and importance.png there.",
        ),
    ] = None,
    batch_size: options.RunBatchSize = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    given: Mapping[str, Any],
) -> None:
    """Permute each feature among the sets or texts, or take it away: how much worse the run gets, with intervals."""
    from contextual_bert.errors import ConfigurationError

    calm_transformers()
    check_output_path(output)
    if flip is not None and (replace != "permute" or permutations > 1):
        raise ConfigurationError(
            "gives each row each other value, and permutes none",
            setting="--flip",
            value=flip,
            fix="Leave --replace and --permutations out.",
        )
    if replace == "missing" and permutations > 1:
        raise ConfigurationError(
            "is for --replace permute: what is missing is so once",
            setting="--permutations",
            value=permutations,
            fix="Leave one of the two out.",
        )
    load_arrow()
    check_reads({**given, "data": data}, ("data",))
    from contextual_bert.runs.run_directory import finished_run

    run = finished_run(directory)

    asked = {"data": data, "split": split, "items": items, "order": order, "customer": customer}
    overrides = evaluation_overrides(asked, given, reading=run.recipe.reading, group_by=group_by)
    reading = overrides.get("reading", run.recipe.reading)
    check_asked_columns(data or run.recipe.data, (items, order, customer, *split_commas(group_by)), settings=reading)

    if flip is not None:
        from contextual_bert.runs.flips import flip_field
        from contextual_bert.runs.report_files import write_flips
        from contextual_bert.training import counting

        overrides |= {"device": device, "dtype": dtype}
        with counting(f"answering for each {flip}") as progress:
            flipped = flip_field(run, flip, overrides=overrides, part=part, batch_size=batch_size, progress=progress)
        remark(*flipped.lines)
        show_numbers(flipped.flips, output_format)
        if output is not None:
            remark(f"wrote {', '.join(str(path) for path in write_flips(flipped.flips, output))}")
        return

    from contextual_bert.runs.permutation_importance import ablate_features, permute_features
    from contextual_bert.runs.report_files import write_importance
    from contextual_bert.training import counting

    with counting(f"scoring with each feature {'permuted' if replace == 'permute' else 'missing'}") as progress:
        how: dict[str, Any] = {
            "overrides": {**overrides, "device": device, "dtype": dtype},
            "part": part,
            "batch_size": batch_size,
            "progress": progress,
        }
        if replace == "missing":
            found = ablate_features(run, **how)
        else:
            found = permute_features(run, num_permutations=permutations, **how)
    remark(*found.lines)
    show_numbers(found.importances, output_format)
    if output is not None:
        remark(f"wrote {', '.join(str(path) for path in write_importance(found.importances, output))}")
    same = [
        part
        for name, value in {**asked, "part": part}.items()
        if value is not None
        for part in (f"--{name}", str(value))
    ]
    next_commands(["evaluate", str(directory), *same, *typed(READING, given), "--output", f"{directory}/evaluation"])
