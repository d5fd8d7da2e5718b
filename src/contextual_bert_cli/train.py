"""``contextual-bert train``: one run, from a table to a run directory."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from contextual_bert.options import MAIN
from contextual_bert_cli import options
from contextual_bert_cli.failures import Interrupted, is_main_process
from contextual_bert_cli.output import calm_transformers, next_commands, remark, show, working
from contextual_bert_cli.recipe_options import with_recipe_options
from contextual_bert_cli.recipes import (
    check_apart,
    method_of_start,
    preset_lines,
    recipe_of,
    use_of,
)

EXAMPLE = """\b
Example:
  contextual-bert train days.parquet --items items --schema schema.json --conditioning global_state_update \\
      --epochs 20 --dtype bfloat16 --set weight_decay=0.1 --model hidden_size=256 --output runs/gsu
  contextual-bert train reviews.csv --text review --label stars --checkpoint bert-base-uncased --output runs/stars
  contextual-bert train menus.parquet --text menu --question question --answer answer \\
      --checkpoint bert-base-uncased --output runs/answers
  contextual-bert train train.ss --validation-data dev.ss --test-data test.ss --text text --label rating \\
      --preset ma-bert --output runs/ma-bert
  torchrun --nproc-per-node 2 --no-python contextual-bert train days.parquet --items items --output runs/two
"""


@with_recipe_options()
def command(
    data: options.Data,
    *,
    output: Annotated[
        Path,
        typer.Option(metavar="DIRECTORY", file_okay=False, rich_help_panel=MAIN, help="Run directory to write."),
    ],
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    given: Mapping[str, Any],
) -> None:
    """Train a model on a table of sets or texts, keep its best epoch, evaluate it, write a run directory."""
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.training.recipe import Recipe

    checkpoint, init_from, conditioning = given["checkpoint"], given["init_from"], given["conditioning"]
    calm_transformers()
    if resume and overwrite:
        raise ConfigurationError(
            "goes on with a run and --overwrite replaces it", fix="Give one of them.", setting="--resume"
        )
    if overwrite:
        check_apart((init_from, checkpoint, given["elmo"]), [output])
    usual = Recipe.load(init_from).conditioning if init_from is not None else None
    recipe = recipe_of({**given, "data": data, "conditioning": conditioning or usual})
    remark(*preset_lines(recipe))
    if conditioning is None and recipe.preset is None and (method := method_of_start(checkpoint)) is not None:
        recipe = replace(recipe, conditioning=method)
    from contextual_bert.folder_lock import locked_folder
    from contextual_bert.runs.registry import check_recipe, keeps_weights
    from contextual_bert.runs.run_directory import (
        CHECKPOINTS,
        checkpoint_to_resume,
        last_checkpoint,
        load_metrics,
        passed_over,
    )

    if not overwrite:  # asked again under the lock
        checkpoint_to_resume(output, is_resumed=resume)
    check_recipe(recipe)

    from contextual_bert.runs import prepare, run
    from contextual_bert.runs.field_importance import importance_lines
    from contextual_bert.runs.model_factory import training_lines
    from contextual_bert.runs.selected_fields import with_selected_fields
    from contextual_bert.runs.sigterm import Terminated, ending_at_sigterm
    from contextual_bert.runs.trial_models import check_model_fields
    from contextual_bert.training import counting, emulation_lines

    def told(happened: str) -> str:
        left = last_checkpoint(output)
        if left is None:
            return f"{happened} before the first checkpoint: there is nothing to go on with."
        return (
            f"{happened}. The last checkpoint is whole: {left}. Give the same command with --resume to go on there, "
            "to the same result as without the interruption."
        )

    try:
        with locked_folder(output), ending_at_sigterm("Stopped by SIGTERM"):
            if not overwrite:
                found = checkpoint_to_resume(output, is_resumed=resume)
                if resume:
                    remark(
                        *(
                            f"{each} is not whole, or has no manifest: passed over"
                            for each in passed_over(output, found)
                        )
                    )
                    remark(
                        f"going on at {found}"
                        if found
                        else f"{output} holds no whole checkpoint: starting from the beginning"
                    )
            check_model_fields(recipe)
            with working(f"reading {data}"):
                ready = prepare(recipe)
            with counting("choosing the fields of the context", is_quiet=not is_main_process()) as progress:
                ready = with_selected_fields(ready, [recipe], remembered=[output] if resume else [], progress=progress)
            remark(*ready.lines(), *ready.remarks, *emulation_lines(recipe.device, recipe.dtype))
            own = ready.resolve(recipe)
            lines = training_lines(own, ready, defaults=ready.default_training(own))
            remark(*lines)
            report = run(
                recipe,
                output,
                prepared=ready,
                is_resumed=resume,
                is_overwritten=overwrite,
                is_quiet=not is_main_process(),
            )
    except KeyboardInterrupt:
        raise Interrupted(told("Interrupted")) from None
    except Terminated as error:
        raise Terminated(told(error.sentence)) from None
    part = ready.evaluated_part
    if report is not None and part is not None:
        # That nothing was learned is said below, with options in place of settings.
        is_said = report.learned is not None and not report.learned.has_learned
        show((replace(report, learned=None) if is_said else report).to_rich())
    if report is not None and report.learned is not None and not report.learned.has_learned:
        remark("", report.learned.note())
    remark(*importance_lines(load_metrics(output)))
    if not keeps_weights(recipe):
        remark("", f"wrote {output}: schema, split, recipe, scores, metrics, README.md; its weights are not kept")
        return
    remark(
        "",
        f"wrote {output}: model, processor, schema, split, recipe, metrics, README.md; curves in {output}/tensorboard",
    )
    remark(f"its checkpoints ({output / CHECKPOINTS}) are no longer needed")
    next_ones = [use_of(own, output)]
    if part is not None:
        next_ones.insert(0, ["evaluate", str(output), "--part", part, "--output", f"{output}/evaluation"])
    next_commands(*next_ones)
