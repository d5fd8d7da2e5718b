"""``contextual-bert complete``: raw values in, proposals out, for one set or for all rows of a table."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contextual_bert.nouns import counted, plural
from contextual_bert_cli import clusters, constraint_options, options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.asked_queries import SET, asked_queries, items_of
from contextual_bert_cli.constraint_options import CONSTRAINT_OPTIONS, given_constraints, given_everywhere
from contextual_bert_cli.inputs import check_asked_columns, checking, one_of
from contextual_bert_cli.option_values import split_commas
from contextual_bert_cli.output import calm_transformers, remark, remark_unknown, show, working
from contextual_bert_cli.pipelines import calibrate_by, load_pipeline, load_with_notes
from contextual_bert_cli.recipe_options import READING, with_recipe_options
from contextual_bert_cli.recipes import check_reads, reading_of, reading_of_trained, reading_over, separator_of

if TYPE_CHECKING:
    from contextual_bert.inference import Answer, BulkSettings, Candidate, JointAnswer, RayCluster

EXAMPLE = """\b
Example:
  contextual-bert complete runs/gsu --set '020101,050101,[MASK]' --context '{"age": 34, "weekday": "Sunday"}' --top 10
  contextual-bert complete runs/gsu --set 'coat-17,[MASK]' --catalogue shop.csv --where 'category=hat' --max-price 80
  contextual-bert complete runs/gsu --input queries.jsonl > answers.jsonl
  contextual-bert complete runs/gsu --data sets.parquet --output out --keep customer_id
  contextual-bert complete runs/gsu --data sets.parquet --output /shared/out --ray --ray-address auto --workers 16
  where a line of queries.jsonl is {"items": ["020101", "[MASK]"], "context": {"age": 34}, "deny": ["010101"]}
"""


def show_answer(answer: "Answer", *, num_items: int) -> None:
    """A table of candidates for each [MASK], then in words what the model did not know."""
    from contextual_bert.evaluation.tables import Table

    for slot in answer["slots"]:
        headings, rows = table_of(slot["candidates"])
        title = f"{', '.join(answer['items'])}: item {slot['position'] + 1}, the best {len(rows)} of "
        is_limited = bool(set(slot["removed"]) - {"repeats"})
        title += counted(slot["num_permitted"], "permitted item") if is_limited else counted(num_items, "item")
        show(Table(title, headings, rows, num_label_columns=2))
        if is_limited:
            remark(
                f"Probabilities are among the permitted items; the model gives {slot['excluded_probability']:.2%} "
                f"to the {num_items - slot['num_permitted']:,} others."
            )
        if "prediction_set" in slot:
            sure: Any = slot
            remark(
                f"The prediction set, which holds the true item {sure['coverage']:.0%} of the time: "
                f"{', '.join(sure['prediction_set']) or 'nothing that is permitted'}."
            )
            if sure["num_forbidden"]:
                remark(f"The query forbids {counted(sure['num_forbidden'], 'item')} of it, and they are left out.")
    show_remarks(answer)


def table_of(candidates: "Sequence[Candidate]") -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the headings and rows of proposals; the last column says which are new, where one is.

    Example:
        >>> table_of([{"item": "coat", "probability": 0.5}, {"item": "hat", "probability": 0.25, "is_new": True}])[1]
        (('1', 'coat', '50.00%', ''), ('2', 'hat', '25.00%', 'new'))
    """
    rows = [(str(rank), each["item"], f"{each['probability']:.2%}") for rank, each in enumerate(candidates, 1)]
    headings = ("rank", "item", "probability")
    if not any(each.get("is_new") for each in candidates):
        return headings, tuple(rows)
    marks = ("new" if each.get("is_new") else "" for each in candidates)
    return (*headings, ""), tuple((*row, mark) for row, mark in zip(rows, marks, strict=True))


def show_joint_answer(answer: "JointAnswer", *, noun: str) -> None:
    """A table of whole sets, then in words how they were found and what the model did not know; ``noun``: of what."""
    from contextual_bert.evaluation.tables import Table

    found = answer["completions"]
    rows = tuple(
        (
            str(rank),
            ", ".join(each["filled"]),
            f"{each['log_probability']:.2f}",
            "" if each["probability"] is None else f"{each['probability']:.2%}",
            f"{each['pseudo_log_likelihood']:.2f}",
            "" if each["price"] is None else f"{each['price']:.2f}",
        )
        for rank, each in enumerate(found, 1)
    )
    headings = ("rank", "items", "log-probability", "probability", "pseudo-log-likelihood", "price")
    title = f"{', '.join(answer['items'])}: the best {len(rows)} {plural(noun)}"
    show(Table(title, headings, rows, num_label_columns=2))
    passes = counted(answer["num_forward_passes"], "forward pass")
    if answer["excluded_probability"] is None:
        remark(f"{answer['method']}, {passes}: there may be better {plural(noun)}.")
    else:
        remark(
            f"{answer['method']}, {passes}: probabilities are among all permitted {plural(noun)}; the model gives "
            f"{answer['excluded_probability']:.2%} to the others."
        )
    show_remarks(answer)


def show_remarks(answer: "Answer | JointAnswer") -> None:
    """In words what the model did not know, and notes."""
    unknown = answer["unknown_items"]
    if unknown:
        remark(f"unknown items, of which the model knows only that something is there: {', '.join(unknown)}")
    remark_unknown(answer["unknown_context"])
    remark(*answer["notes"])


def complete_rows(
    directory: Path,
    data: Path,
    output: Path,
    *,
    settings: "BulkSettings",
    catalogue: Path | None,
    shard_size: int,
    device: str,
    cluster: "RayCluster | None",
) -> None:
    """Complete the rows of a table into a folder, and say what was done.

    Args:
        directory: of the run or export.
        data: the table.
        output: folder of the files.
        settings: columns, constraints and sizes.
        catalogue: file of the shop's items.
        shard_size: rows of the table a file.
        device: where to run.
        cluster: that of --ray; None: this process.

    Raises:
        ConfigurationError: an export with --ray.
    """
    from contextual_bert.training import counting

    if cluster is not None:
        clusters.check_is_run(directory)
        from contextual_bert.inference import complete_table_on_ray

        with counting("completing") as progress:
            report = complete_table_on_ray(
                directory, data, output, settings=settings, cluster=cluster, catalogue=catalogue,
                shard_size=shard_size, progress=progress,
            )  # fmt: skip
    else:
        from contextual_bert.inference import complete_table

        reading = settings.catalogue_reading
        with working(f"loading {directory}"):
            pipeline = load_pipeline(
                directory, device=device, catalogue=catalogue, reading=reading, is_exact=settings.is_exact
            )
            calibrate_by(pipeline, directory, settings.coverage)
        with counting("completing") as progress:
            report = complete_table(pipeline, data, output, settings=settings, shard_size=shard_size, progress=progress)
    remark(*report.lines(), f"wrote {output}")


@with_recipe_options(only=READING)
def command(
    directory: options.RunOrExport,
    *,
    items: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="A,B,[MASK]",
            help="The set, or a JSON list of it; without a [MASK] one more item is proposed.",
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Who asks: {feature: value}; a feature that is not named is missing."),
    ] = None,
    times: options.Times = None,
    top: Annotated[int, typer.Option(min=1, help="Proposals a [MASK], or whole sets with --joint.")] = 10,
    allow: constraint_options.Allow = None,
    deny: constraint_options.Deny = None,
    owned: constraint_options.Owned = None,
    repeats: constraint_options.Repeats = False,
    guidance: constraint_options.Guidance = None,
    separator: Annotated[
        str | None,
        typer.Option(
            help="What stands between the items of --set, --allow, --deny, --owned and of text in --input and --data; "
            "left out, as the run was trained."
        ),
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=checking("table"),
            help=f"The shop's table, one row an item, for the options below: {options.DATA_FORMATS}. --delimiter to "
            "--missing-value say how it, and --data, are written; left out, --data is as the run's table was.",
        ),
    ] = None,
    in_stock: constraint_options.InStock = False,
    where: constraint_options.Where = None,
    max_price: constraint_options.MaxPrice = None,
    budget: constraint_options.Budget = None,
    budget_includes_visible: constraint_options.BudgetIncludesVisible = False,
    one_per: constraint_options.OnePer = None,
    coverage: options.Coverage = None,
    joint: Annotated[
        bool, typer.Option("--joint", help="Fill all [MASK] of a set together, and propose whole sets.")
    ] = False,
    diversity: Annotated[
        int | None, typer.Option(min=1, help="With --joint: so many items differ between any two sets (default 1).")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(**one_of(("auto", "exact", "beam", "gibbs")), help="With --joint: how to search (default auto)."),
    ] = None,
    max_forward_passes: Annotated[
        int | None, typer.Option(min=1, help="With --joint: partial sets the search puts through the model (1000).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="With --joint and gibbs: seed of the draws (default 0).")
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            callback=checking("file"),
            help="Many queries, one JSON object a line; answers are JSON Lines.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=checking("table"),
            help=f"Complete all rows of a table into --output: {options.DATA_FORMATS}.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            file_okay=False,
            help="Parquet files of --data; finished ones are kept when started again.",
        ),
    ] = None,
    item_column: Annotated[
        str | None,
        typer.Option("--items", metavar="COLUMN", help="Column of sets of --data; left out, as the run was trained."),
    ] = None,
    group_by: options.RunGroupBy = None,
    order: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of --data that puts the items of a set in order, as that of train; left out, the run's own "
            "where the table has it.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Columns of --data to write beside the proposals.")
    ] = None,
    shard_size: clusters.ShardSize = None,
    ray: clusters.Ray = False,
    ray_address: clusters.Address = None,
    workers: clusters.Workers = None,
    output_format: Annotated[
        str, typer.Option("--format", **one_of(("table", "json")), help="How to print the answer to one query.")
    ] = "table",
    exact: options.Exact = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Queries a forward pass.")] = 256,
    device: options.Device = "auto",
    given: Mapping[str, Any],
) -> None:
    """Propose the missing items of a set for the person who asks, with probabilities."""
    choices = {**locals(), **given}
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.inference.saved_files import trained_sets
    from contextual_bert.places import SettingsPlace

    calm_transformers()
    if [items, queries, data].count(None) != 2:
        raise ConfigurationError(
            "Give one of --set 'a,b,[MASK]' for one query, --input FILE.jsonl for many, --data FILE for a table.",
            place=SettingsPlace(("--set", "--input", "--data")),
        )
    if (data is None) != (output is None):
        raise ConfigurationError(
            "--data and --output belong together: a table, and the folder of its completions.",
            place=SettingsPlace(("--data", "--output")),
        )
    of_a_table = {"--items": item_column, "--group-by": group_by, "--order": order, "--keep": keep}
    of_a_table |= {"--shard-size": shard_size}
    lost = [option for option, value in of_a_table.items() if value is not None]
    if data is None and lost:
        raise ConfigurationError("is for --data", setting=lost[0], fix="Give that, or leave it out.")
    if data is not None and joint:
        raise ConfigurationError(
            "belongs to --set and --input", fix="With --data each blank is filled by itself.", setting="--joint"
        )
    if coverage is not None and joint:
        raise ConfigurationError("is not for whole sets", fix="Leave it or --joint out.", setting="--coverage")
    load_arrow()
    check_reads(choices, ("catalogue", "data"))
    reading = reading_of(choices)
    if ray and data is None:
        raise ConfigurationError(
            "is for --data: what --set and --input ask is answered here", fix="Leave it out.", setting="--ray"
        )
    cluster = clusters.chosen_cluster(ray, address=ray_address, workers=workers, device=device)
    search: dict[str, Any] = {
        "diversity": diversity, "method": method, "max_forward_passes": max_forward_passes, "seed": seed,
    }  # fmt: skip
    search = {name: value for name, value in search.items() if value is not None}
    if search and not joint:
        raise ConfigurationError(
            "is for --joint", fix="Give that, or leave it out.", setting=f"--{next(iter(search)).replace('_', '-')}"
        )
    trained = trained_sets(directory)
    between = separator or trained.separator
    if data is not None and context:
        raise ConfigurationError(
            "belongs to --set", fix="With --data, the columns of the table are the context.", setting="--context"
        )
    if data is not None and times is not None:
        raise ConfigurationError(
            "belongs to --set", fix="With --data, --order names the column of times.", setting="--times"
        )
    if data is not None and output is not None:
        constraints = given_constraints(choices, separator=between)
        settings: dict[str, Any] = {CONSTRAINT_OPTIONS[option]: value for option, value in constraints.items()}
        settings |= given_everywhere(choices)
        keys = trained.group_by if group_by is None else split_commas(group_by)
        in_cells = separator_of({"separator": separator, "group_by": keys}) if separator else trained.separator
        columns = {"items": item_column or trained.items or "items", "separator": in_cells}
        own = reading_over(reading_of_trained(trained, directory), choices)
        check_asked_columns(data, (columns["items"], *keys, order, *split_commas(keep)), settings=own)
        from contextual_bert.inference.tables.bulk import BulkSettings

        bulk = BulkSettings(
            **columns,
            group_by=keys,
            order=order,
            keep=split_commas(keep),
            constraints=settings,
            top_k=top,
            batch_size=batch_size,
            reading=own,
            catalogue_reading=reading,
            is_exact=exact,
            coverage=coverage,
        )
        complete_rows(
            directory, data, output, settings=bulk, catalogue=catalogue, shard_size=shard_size or 20_000,
            device=device, cluster=cluster,
        )  # fmt: skip
        return
    own = {"items": items_of(items, between)} if items is not None else {}
    asked = asked_queries(choices, SET, own, everywhere=given_everywhere(choices), separator=between)
    pipeline = load_with_notes(directory, device=device, catalogue=catalogue, reading=reading, is_exact=exact or joint)
    calibrate_by(pipeline, directory, coverage)
    noun = trained.row_noun
    with working(f"completing {counted(len(asked.queries), noun)}"), asked.placing:
        answers: Any
        if joint:
            answers = pipeline.complete_jointly(asked.queries, num_completions=top, batch_size=batch_size, **search)
        else:
            answers = pipeline(asked.queries, top_k=top, batch_size=batch_size)
    num_items = len(pipeline.processor.items.values)
    asked.show(
        answers,
        output_format,
        partial(show_joint_answer, noun=noun) if joint else partial(show_answer, num_items=num_items),
    )
