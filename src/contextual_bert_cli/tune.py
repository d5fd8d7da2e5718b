"""``contextual-bert tune``: a search over settings, on Ray, that stops early what falls behind."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from contextual_bert.options import MAIN
from contextual_bert_cli import clusters, options
from contextual_bert_cli.failures import resumable
from contextual_bert_cli.output import calm_transformers, next_commands, remark, show, working
from contextual_bert_cli.recipe_options import with_recipe_options
from contextual_bert_cli.recipes import method_of_start, preset_lines, recipe_of

EXAMPLE = """\b
Example:
  contextual-bert tune days.parquet --items items --epochs 20 --trials 30 --output runs/tune \\
      --search learning_rate=3e-4..3e-3 --search weight_decay=0.01..3 --search model.hidden_size=64,128
  contextual-bert tune reviews.csv --text review --label stars --checkpoint bert-base-uncased --trials 12 \\
      --search learning_rate=1e-5..1e-4 --search num_train_epochs=2,3,4 --ray-address auto --output runs/tune
"""
_SEARCH = "Search"
_SHOWN = 10  # trials


@with_recipe_options(without=("retire_missing_items",))
def command(
    data: options.Data,
    *,
    output: Annotated[
        Path,
        typer.Option(
            metavar="DIRECTORY",
            file_okay=False,
            rich_help_panel=MAIN,
            help="Folder of the trials; the same command goes on where it was interrupted.",
        ),
    ],
    search: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=LOW..HIGH|NAME=A,B",
            rich_help_panel=_SEARCH,
            help="A setting and what it may be: a name that --set takes, or model. and one that --model takes. A "
            "range of ten times or more is drawn from by its logarithm. Repeatable.",
        ),
    ],
    trials: Annotated[int, typer.Option(min=2, rich_help_panel=_SEARCH, help="Trials that are drawn, by --seed.")] = 20,
    ray_address: clusters.Address = None,
    workers: clusters.Workers = None,
    given: Mapping[str, Any],
) -> None:
    """Search settings on the validation part: trials beside each other on Ray, the worse ones stopped early.

    After an epoch, and after 3, 9, 27, ... of them, a trial goes on where it is among the best third of those that
    came as far (ASHA). They are judged by what chooses the best epoch, as --set metric_for_best_model=ndcg@10 says it.
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.runs.registry import check_recipe
    from contextual_bert.runs.search_space import SearchedSetting, as_options

    calm_transformers()
    space = [SearchedSetting.read(text) for text in search]
    names = [each.name for each in space]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError("is searched twice", setting="--search", value=repeated[0], fix="Name it once.")
    recipe = recipe_of({**given, "data": data})
    remark(*preset_lines(recipe))
    checkpoint = given["checkpoint"]
    if given["conditioning"] is None and recipe.preset is None and (method := method_of_start(checkpoint)) is not None:
        recipe = replace(recipe, conditioning=method)
    check_recipe(recipe)
    cluster = clusters.chosen_cluster(True, address=ray_address, workers=workers, device=recipe.device)

    from contextual_bert.evaluation.tables import Table
    from contextual_bert.runs import prepare
    from contextual_bert.runs.selected_fields import with_selected_fields
    from contextual_bert.runs.tuning import TRIALS, TRIALS_FILE, tune_settings
    from contextual_bert.training import counting

    with resumable(output):
        with working(f"reading {data}"):
            ready = prepare(recipe)
        with counting("choosing the fields of the context") as progress:
            ready = with_selected_fields(ready, [recipe], remembered=[], progress=progress)
        remark(*ready.lines(), *ready.remarks)
        found = tune_settings(recipe, space, output, ready=ready, num_trials=trials, cluster=cluster, say=remark)
    rows = tuple(
        (
            str(each.number),
            "" if each.value is None else f"{each.value:.4f}",
            f"{each.num_epochs:g}",
            each.state,
            *(str(each.settings[name]) for name in names),
        )
        for each in found.trials[:_SHOWN]
    )
    headings = ("trial", found.metric, "epochs", "", *names)
    show(Table(f"The best {len(rows)} of {len(found.trials)} trials, on validation", headings, rows))
    remark(*dict.fromkeys(f"failed: {each.reason}" for each in found.trials if each.reason is not None))
    best = found.best
    assert best is not None  # else an error was raised
    remark(
        "",
        f"wrote {output / TRIALS_FILE}; the runs of complete trials are in {output / TRIALS}",
        f"the best complete trial is {best.number}: {' '.join(as_options(best.settings))}",
    )
    folder = output / TRIALS / f"{best.number:03}"
    part = ready.evaluated_part
    next_commands(["evaluate", str(folder), *(["--part", part] if part is not None else [])])
