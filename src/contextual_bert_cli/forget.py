"""``contextual-bert forget``: what runs hold of a customer, taken out, and trained again without."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contextual_bert.nouns import counted
from contextual_bert_cli import options
from contextual_bert_cli.inputs import checking
from contextual_bert_cli.output import calm_transformers, next_commands, remark, show_json, show_text, working

if TYPE_CHECKING:
    from contextual_bert.runs.forgetting import ForgetPlan

EXAMPLE = """\b
Example:
  contextual-bert forget runs --customer c-1042 --dry-run
  contextual-bert forget runs --customer c-1042
  contextual-bert forget runs/gsu --customer c-1042 --retrain
"""


def command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            callback=checking("runs"),
            help="Run directories, or folders that are searched for runs.",
        ),
    ],
    *,
    customer: Annotated[str, typer.Option(metavar="ID", help="The customer, as the table of the run spells it.")],
    customer_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of customers in the run's table; left out, as it was trained."),
    ] = None,
    data: options.RunData = None,
    is_retrained: Annotated[
        bool,
        typer.Option(
            "--retrain",
            help="Train each run again without the customer, as RUN-retrained; an interrupted training goes on.",
        ),
    ] = False,
    is_dry: Annotated[bool, typer.Option("--dry-run", help="Say what is found, and change nothing.")] = False,
    is_json: Annotated[bool, typer.Option("--json", help="Print what is found as JSON.")] = False,
) -> None:
    """Take a customer out of runs: rows of scores, places in the split, the id in schema, weights and reports.

    The table is not changed. What was learned from the rows stays until a run is trained again; what stays is listed.
    """
    calm_transformers()
    from contextual_bert.errors import ConfigurationError

    if not customer.strip():
        raise ConfigurationError("is empty", setting="--customer", value=customer, fix="Give the id of a customer.")

    from contextual_bert.runs.forgetting import CustomerTables, forget, plan_of, runs_in

    runs = runs_in(folders)
    tables = CustomerTables(customer, data)
    with working(f"looking through {counted(len(runs), 'run')}"):
        plans = [plan_of(run, tables, column=customer_column, others=_around(folders)) for run in runs]
    chosen = [plan for plan in plans if plan.traces.has_data]
    if not is_dry:
        for plan in chosen:
            forget(plan)
    retrained = {
        plan.run: _retrained(plan.run, data, is_dry=is_dry) for plan in plans if is_retrained and _is_due(plan)
    }
    if is_json:
        found = [
            {**plan.traces.to_dict(), "retrained": str(retrained[plan.run]) if plan.run in retrained else None}
            for plan in plans
        ]
        show_json({"is_dry_run": is_dry, "num_runs": len(runs), "runs": found}, indent=1)
        return
    for plan in plans:
        if plan.traces.has_data or plan.traces.is_forgotten:
            show_text("\n".join(plan.traces.lines()))
    if not any(plan.traces.has_data or plan.traces.is_forgotten for plan in plans):
        show_text(f"no run holds data of this customer ({counted(len(runs), 'run')} looked through)")
        return
    if is_dry:
        remark("", "nothing was changed")
        return
    remark("", "The table still has the rows, and so may backups, outputs of predict and complete, and logs.")
    for run, folder in retrained.items():
        remark(f"trained again without the customer: {folder}. When it serves in place of {run}, remove that.")
    if not retrained:
        next_commands(["forget", *map(str, folders), "--customer", customer, "--retrain"])


def _around(folders: list[Path]) -> list[Path]:
    """Return the folders in which exports and further runs are looked for: what was named, or a run's own folder."""
    from contextual_bert.runs.run_directory import is_run

    return [folder.absolute().parent if is_run(folder) else folder for folder in folders]


def _is_due(plan: "ForgetPlan") -> bool:
    """Return whether a finished run may have learned from rows of the customer."""
    return plan.is_finished and (plan.traces.has_data or plan.traces.is_forgotten)


def _retrained(run: Path, data: Path | None, *, is_dry: bool) -> Path:
    """Train a run again, and return the folder of the new one."""
    from contextual_bert.runs.retraining import retrain_without, retrained_folder

    output = retrained_folder(run)
    if not is_dry:
        remark(f"training {output}")
        retrain_without(run, output, data=data)
    return output
