"""``contextual-bert compare``: methods x seeds on the same split and the same masks, in one report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from contextual_bert.baselines.names import SET_BASELINES, baselines_of
from contextual_bert.options import MAIN, TRAINING
from contextual_bert_cli import clusters, options
from contextual_bert_cli.failures import resumable
from contextual_bert_cli.option_values import split_commas
from contextual_bert_cli.output import calm_transformers, next_commands, remark, working
from contextual_bert_cli.recipe_options import TYPED, with_recipe_options
from contextual_bert_cli.recipes import (
    check_apart,
    method_of_start,
    preset_lines,
    recipe_of,
)
from contextual_bert_cli.studies import finish_study, without_weights

EXAMPLE = """\b
Example:
  contextual-bert compare days.parquet --items items --schema schema.json --conditioning none,concat,global_state \\
      --seeds 3 --baselines bag,bag_context --epochs 20 --output runs/cmp
"""
_COMPARED = "Comparison"


@with_recipe_options(without=("conditioning", "init_from", "retire_missing_items"))
def command(
    data: options.Data,
    *,
    output: Annotated[
        Path,
        typer.Option(
            metavar="DIRECTORY",
            file_okay=False,
            rich_help_panel=MAIN,
            help="Folder of the study: runs, report and plots; complete runs are kept.",
        ),
    ],
    conditioning: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B",
            rich_help_panel=MAIN,
            help="Methods; default: the paper's five, that of the run it goes on from, or of texts with --baselines "
            "and no --checkpoint, none of them.",
        ),
    ] = None,
    baselines: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B",
            rich_help_panel=_COMPARED,
            help=f"Baselines of sets: {', '.join(SET_BASELINES)}. Of labelled texts: "
            f"{', '.join(baselines_of('classification'))}. Of tags: {', '.join(baselines_of('tagging'))}. Of "
            f"documents: {', '.join(baselines_of('contrastive_text'))}. Of other texts: "
            f"{', '.join(baselines_of('masked_text'))}.",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, rich_help_panel=_COMPARED, help="Seeds a method: --seed and the numbers after it.")
    ] = 3,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            rich_help_panel=_COMPARED,
            help="What the others are compared with; default: the method it goes on with, none, or the first.",
        ),
    ] = None,
    jobs: options.Jobs = 1,
    ray: Annotated[
        bool,
        typer.Option(
            "--ray",
            rich_help_panel=TRAINING,
            help="Train the runs on a Ray cluster: the one that is there, or a local one. Its machines share --output.",
        ),
    ] = False,
    ray_address: clusters.Address = None,
    workers: clusters.Workers = None,
    overwrite: options.Overwrite = False,
    given: Mapping[str, Any],
) -> None:
    """Train several methods with several seeds on the same split and compare them on the same masked positions."""
    calm_transformers()
    from contextual_bert.conditioning.registry import PAPER_METHODS
    from contextual_bert.errors import ConfigurationError, UnknownNameError
    from contextual_bert.places import SettingPlace
    from contextual_bert.runs.registry import (
        as_row,
        check_read,
        check_recipe,
        check_study,
        keeps_weights,
        reads_elmo,
        reads_time_gaps,
    )
    from contextual_bert.training.presets import get_preset
    from contextual_bert.training.recipe_checks import check_conditioning

    seed = given["seed"]
    typed = given.get(TYPED, frozenset())
    # Here methods are names of rows.
    base = recipe_of({**given, "data": data, "conditioning": "none", TYPED: typed - {"conditioning"}})
    checkpoint = base.task.checkpoint_to_read
    preset = get_preset(base.preset) if base.preset is not None else None
    if preset is not None and "seeds" not in typed:
        seeds = preset.num_seeds
    for option, given_names in {
        "--conditioning": split_commas(conditioning),
        "--baselines": split_commas(baselines),
    }.items():
        for name in given_names:
            try:
                check_conditioning(name, task=base.task)
            except UnknownNameError as error:
                raise error.at(SettingPlace(option)) from None
    if preset is not None and conditioning and preset.conditioning not in split_commas(conditioning):
        raise ConfigurationError(
            f"lacks {preset.conditioning!r}, the method of --preset {base.preset}",
            setting="--conditioning",
            value=",".join(split_commas(conditioning)),
            fix="Name it, too, or leave one of the two out.",
        )
    method = method_of_start(checkpoint) if preset is None else preset.conditioning
    methods = (method,) if method is not None else PAPER_METHODS
    if not base.task.reads_context:
        methods = ("none",)
    if split_commas(baselines) and given["text"] is not None and checkpoint is None:
        methods = ()  # without a checkpoint only baselines can be had
    names = [*dict.fromkeys((*(split_commas(conditioning) or methods), *split_commas(baselines)))]
    recipes = [as_row(base, name).with_seed(seed + number) for name in names for number in range(seeds)]
    check_read(base, recipes)
    remark(*preset_lines(base))
    reference = reference or (method if method in names else "none" if "none" in names else names[0])
    check_study(recipes, reference=reference)
    if ray and jobs > 1:
        raise ConfigurationError(
            "does not go with --ray, whose --workers say how many runs are trained beside each other",
            setting="--jobs",
            value=jobs,
            fix="Leave one of the two out.",
        )
    cluster = clusters.chosen_cluster(ray, address=ray_address, workers=workers, device=base.device)
    if jobs > 1:
        from contextual_bert.runs.processes import start_imports

        start_imports()
    for recipe in recipes[::seeds]:
        check_recipe(recipe)

    from contextual_bert.runs import Peers, prepare, study
    from contextual_bert.runs.run_directory import clear_run
    from contextual_bert.runs.selected_fields import with_selected_fields
    from contextual_bert.runs.sweep import run_directory
    from contextual_bert.runs.trial_models import check_model_fields
    from contextual_bert.training import counting

    if overwrite:
        check_apart([checkpoint, given["elmo"]], [run_directory(output, recipe) for recipe in recipes])
    for recipe in recipes[::seeds]:
        check_model_fields(recipe)
    with resumable(output):
        with working(f"reading {data}"):
            read_most = (each for each in recipes if reads_time_gaps(each) or reads_elmo(each))
            ready = prepare(next(read_most, recipes[0]))
        folders = [] if overwrite else [run_directory(output, recipe) for recipe in recipes]
        with counting("choosing the fields of the context") as progress:
            ready = with_selected_fields(ready, recipes, remembered=folders, progress=progress)
        remark(*ready.lines(), *ready.remarks)
        if overwrite:
            for recipe in recipes:
                ready.check(ready.resolve(recipe))
            for recipe in recipes:
                clear_run(run_directory(output, recipe))
        try:
            found = study(
                f"Methods compared on {data}",
                recipes,
                output,
                prepared=ready,
                peers=Peers(reference=reference),
                num_jobs=cluster or jobs,
                say=remark,
            )
        except ConfigurationError as error:
            if error.place == SettingPlace("conditioning") and error.value in split_commas(baselines):
                raise error.at(SettingPlace("--baselines")) from None
            raise
    finish_study(found, output, runs=output / "METHOD" / "seed-N")
    ranking, firsts = found.ranking(), {recipe.label: recipe for recipe in reversed(recipes)}
    usable = next((firsts[name] for name in ranking if keeps_weights(firsts[name])), None)
    if usable is not None:
        remark(*without_weights(ranking[0], usable))
        folder = run_directory(output, usable)
        next_commands(["evaluate", str(folder), "--part", ready.evaluated_part, "--output", f"{folder}/evaluation"])
