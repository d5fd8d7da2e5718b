"""``contextual-bert predict``: texts, contexts and questions in; labels, tags or answers out, with probabilities."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from contextual_bert.models.truncation import Truncation
from contextual_bert_cli import clusters, options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.inputs import check_asked_columns, checking, one_of
from contextual_bert_cli.output import (
    calm_transformers,
    check_output_path,
    remark,
    remark_unknown,
    show,
    show_json,
    show_text,
    working,
)
from contextual_bert_cli.pipelines import calibrate_by, load_text_pipeline, load_text_with_notes, naming_option
from contextual_bert_cli.recipe_options import READING, with_recipe_options
from contextual_bert_cli.recipes import check_reads, reading_of_trained, reading_over, recipe_of_run
from contextual_bert_cli.records import at_options, read_context

if TYPE_CHECKING:
    from contextual_bert import TextToTextPipeline
    from contextual_bert.inference import FillMaskPipeline, PredictionSettings, RayCluster, TextAnswer, TextSpan
    from contextual_bert.inference.texts.base_question_answering import BaseQuestionAnsweringPipeline
    from contextual_bert.inference.texts.text_answers import SureTextAnswer, TextFilled, TextNumber, TextWritten

# Key of a query about a text -> the option that gives it.
QUERY_OPTIONS = {"text": "--text", "pair": "--pair", "question": "--question"}
SHOWN_BESIDE = 60  # characters of the text on both sides of an answer

BAR_WIDTH = 20
EXAMPLE = """\b
Example:
  contextual-bert predict runs/verdict --text 'The bar was open all night.' --context '{"guest": "student"}'
  contextual-bert predict runs/verdict --data reviews.parquet --output predictions.parquet
  contextual-bert predict runs/titles --text 'The [MASK] room.' --context '{"guest": "student"}'
  contextual-bert predict runs/answers --question 'What can I eat?' --text 'Soup or steak.' \\
      --context '{"guest": "vegan"}'
"""


def check_question(kind: str | None, given: dict[str, Any]) -> bool:
    """Return True if the options ask a question.

    Args:
        kind: of the task that the folder's model learned; None for a folder that does not say it.
        given: option -> its value, of those that go with a question or not.

    Raises:
        ConfigurationError: a run that learned no answers is asked a question, or one that did is asked none; an option
            that does not go with it.
    """
    from contextual_bert.errors import ConfigurationError

    asked = [option for option in ("--question", "--question-column") if given[option] is not None]
    is_answering = bool(asked) if kind is None else kind == "question_answering"
    if asked and not is_answering:
        raise ConfigurationError(
            "is for runs that answer questions, and this one does not", setting=asked[0], fix="Leave it out."
        )
    if not is_answering:
        return False
    if given["--text"] is not None and given["--question"] is None:
        raise ConfigurationError(
            "is missing: the run answers questions about texts", setting="--question", fix="Give one."
        )
    misplaced = [option for option in ("--pair", "--pair-column", "--truncation") if given[option] is not None]
    if misplaced:
        raise ConfigurationError(
            "is not for questions, whose texts are read whole", setting=misplaced[0], fix="Leave it out."
        )
    return True


def answer_query(pipeline: "BaseQuestionAnsweringPipeline", query: dict[str, Any], *, output_format: str) -> None:
    """Answer one question and print it."""
    with working("answering"), at_options(QUERY_OPTIONS):
        span = cast("TextSpan", pipeline(query))
    if output_format == "json":
        show_json(span, indent=1)
    else:
        show_span(span, query)


def write_query(pipeline: "TextToTextPipeline", query: dict[str, Any], *, output_format: str) -> None:
    """Write the text of one text and print it."""
    with working("writing"), at_options(QUERY_OPTIONS):
        found = cast("TextWritten", pipeline(query))
    if output_format == "json":
        show_json(found, indent=1)
        return
    show_text(found["written"])
    if not found["is_whole"]:
        remark("the text ends here because no more tokens are written, not because the model ended it")
    remark_unknown(found["unknown_context"])
    remark(*found["notes"])


def fill_query(pipeline: "FillMaskPipeline", query: dict[str, Any], *, top: int | None, output_format: str) -> None:
    """Fill the [MASK] of one text and print the words."""
    from contextual_bert.evaluation.tables import Table, render_rich

    pipeline.top_k = top or pipeline.top_k
    with working("filling"), at_options(QUERY_OPTIONS):
        found = cast("TextFilled", pipeline(query))
    if output_format == "json":
        show_json(found, indent=1)
        return
    for number, slot in enumerate(found["slots"], 1):
        rows = tuple(
            (each["word"], "█" * round(BAR_WIDTH * each["probability"]), f"{each['probability']:.2%}")
            for each in slot["candidates"]
        )
        title = found["filled"] if number == 1 else f"[MASK] {number}"
        show(render_rich(shorten(title, 80), [Table("", ("word", "", "probability"), rows, num_label_columns=2)], ()))
    remark_unknown(found["unknown_context"])
    remark(*found["notes"])


def show_span(span: "TextSpan", query: dict[str, Any]) -> None:
    """The answer, where it stands, and how likely it and no answer are."""
    from contextual_bert.evaluation.tables import Table, render_rich

    text, start, end = query["text"], span["start"], span["end"]
    before = ("..." if start > SHOWN_BESIDE else "") + text[max(0, start - SHOWN_BESIDE) : start]
    behind = text[end : end + SHOWN_BESIDE] + ("..." if len(text) > end + SHOWN_BESIDE else "")
    rows = (
        (span["answer"] or "(nothing)", f"{span['probability']:.2%}"),
        ("no answer", f"{span['no_answer_probability']:.2%}"),
    )
    show(render_rich(repr(shorten(query["question"], 80)), [Table("", ("answer", "probability"), rows)], ()))
    remark(f"{before}[{span['answer']}]{behind}".replace("\n", " "))
    remark_unknown(span["unknown_context"])
    remark(*span["notes"])


@with_recipe_options(only=READING)
def command(
    directory: options.ModelOfLabels,
    *,
    text: Annotated[str | None, typer.Option(help="One text; where words get tags, split at spaces.")] = None,
    pair: Annotated[str | None, typer.Option(help="Its second text, for a model of pairs.")] = None,
    question: Annotated[str | None, typer.Option(help="What is asked about --text, of a run that answers.")] = None,
    context: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Whose text: {feature: value}; a feature that is not named is missing."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=checking("table"),
            help=f"All rows of a table, with their contexts: {options.DATA_FORMATS}.",
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of texts of --data; left out, as the run was trained, else text."),
    ] = None,
    pair_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of second texts; left out, as the run was trained.")
    ] = None,
    question_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of questions; left out, as the run was trained."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIRECTORY",
            help="Where the table is written, with what was predicted: .parquet, .csv or .jsonl; or, without an "
            "ending, a folder of Parquet files, of which finished ones are kept when started again.",
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    shard_size: clusters.ShardSize = None,
    ray: clusters.Ray = False,
    ray_address: clusters.Address = None,
    workers: clusters.Workers = None,
    truncation: Annotated[
        str | None,
        typer.Option(
            **one_of(get_args(Truncation)), help="What is kept of longer texts; left out, as the run was trained."
        ),
    ] = None,
    output_format: Annotated[
        str, typer.Option("--format", **one_of(("table", "json")), help="How to print the answer to --text.")
    ] = "table",
    top: Annotated[
        int | None, typer.Option(min=1, help="Of a run on hidden words: words for each [MASK] (default: 5).")
    ] = None,
    coverage: options.Coverage = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts, or windows of them, a forward pass.")] = 64,
    device: options.Device = "auto",
    given: Mapping[str, Any],
) -> None:
    """Label a text, answer a question about it, write another or fill its [MASK], for whose it is; or for all rows."""
    from contextual_bert.errors import ConfigurationError, UnknownNameError
    from contextual_bert.inference.saved_files import FILLING, RECORD_FILE, learned_kind, trained_texts
    from contextual_bert.places import SettingsPlace

    calm_transformers()
    load_arrow()
    recipe, is_export = recipe_of_run(directory), (directory / RECORD_FILE).is_file()
    task = recipe.text_task if recipe is not None and not recipe.task.has_items else None
    learned = trained_texts(directory)
    kept: Any = truncation or (task.truncation if task is not None else None)
    if (text is None) == (data is None):
        raise ConfigurationError(
            "Give either --text 'a text' for one text or --data FILE with --output FILE for many.",
            place=SettingsPlace(("--text", "--data")),
        )
    check_reads({**given, "data": data}, ("data",))
    of_text = {"--pair": pair, "--question": question, "--context": context}
    of_text["--format"] = output_format if output_format != "table" else None
    of_data = {"--output": output, "--text-column": text_column, "--pair-column": pair_column}
    of_data |= {"--question-column": question_column, "--shard-size": shard_size}
    misplaced = [name for name, value in (of_text if text is None else of_data).items() if value is not None]
    if misplaced:
        raise ConfigurationError(
            f"belongs to {'--text' if text is None else '--data'}", setting=misplaced[0], fix="Leave it out."
        )
    kind = learned_kind(directory)
    writes, fills = kind == "text_to_text", kind in FILLING
    if (writes or fills) and truncation is not None:
        raise ConfigurationError(
            f"is not for texts {'with [MASK]' if fills else 'from which others are written'}: their ends are cut",
            setting="--truncation",
            fix="Leave it out.",
        )
    is_asking = check_question(kind, {**of_text, **of_data, "--text": text, "--truncation": truncation})
    if fills and (second := pair or pair_column) is not None:
        raise ConfigurationError(
            "is for runs on pairs of texts",
            setting="--pair" if pair else "--pair-column",
            value=second,
            fix="Leave it out.",
        )
    if top is not None and not fills:
        raise ConfigurationError("is for runs on hidden words", setting="--top", fix="Leave it out.")
    if not is_asking and not fills:
        check_pair(learned.pair is not None if task is not None or is_export else None, text, pair, pair_column)
    if data is not None and output is None:
        raise ConfigurationError("needs --output FILE, where the table is written with its labels.", setting="--data")
    if output is not None:
        check_output(output, overwrite=overwrite, is_sharded=shard_size is not None or ray)
    if ray and data is None:
        raise ConfigurationError("is for --data", setting="--ray", fix="Give that, or leave it out.")
    cluster = clusters.chosen_cluster(ray, address=ray_address, workers=workers, device=device)
    for option, value in {"--text": text, "--question": question}.items():
        if value is not None and not value.strip():
            raise ConfigurationError(
                f"is {value!r}, in which there is nothing to read", fix="Give words.", setting=option
            )
    own, reading = read_context(context), reading_over(reading_of_trained(learned, directory), given)
    if data is not None:
        named = {"--text-column": text_column, "--pair-column": pair_column, "--question-column": question_column}
        for option, name in named.items():
            try:
                check_asked_columns(data, (name,), settings=reading)
            except UnknownNameError as error:
                raise error.further(f"Name the right one with {option}.") from error

    if data is not None and output is not None:
        from contextual_bert.inference.tables.text_tables import PredictionSettings

        settings = PredictionSettings(
            text=text_column, pair=pair_column, question=question_column, truncation=kept, coverage=coverage,
            top_k=top, batch_size=batch_size, reading=reading,
        )  # fmt: skip
        predict_rows(directory, data, output, settings=settings, shard_size=shard_size, device=device, cluster=cluster)
        return
    pipeline: Any = load_text_with_notes(directory, device=device, kind=kind, truncation=kept)
    calibrate_by(pipeline, directory, coverage)
    query: dict[str, Any] = {"text": text, "context": own}
    if is_asking:
        answer_query(pipeline, {**query, "question": question}, output_format=output_format)
        return
    if writes:
        write_query(pipeline, query, output_format=output_format)
        return
    if fills:
        fill_query(pipeline, query, top=top, output_format=output_format)
        return
    with working("predicting"), at_options(QUERY_OPTIONS):
        answer = cast("TextAnswer | TextNumber", pipeline({**query, "pair": pair}))
    if output_format == "json":
        show_json(answer, indent=1)
    else:
        show_text_answer(answer, text or "")


def check_output(output: Path, *, overwrite: bool, is_sharded: bool) -> None:
    """Raise ConfigurationError where what is to be written cannot be: one file with files asked for, one that is there.

    Args:
        output: a file by its ending, or a folder.
        overwrite: of --overwrite.
        is_sharded: whether an option asks for files of a folder.
    """
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.inference.tables.text_tables import is_folder
    from contextual_bert.places import PathPlace

    if is_folder(output):
        if overwrite:
            raise ConfigurationError(
                "is for one file, and --output is a folder, which is gone on with",
                setting="--overwrite",
                fix="Leave it out, or remove the folder.",
            )
    elif is_sharded:
        raise ConfigurationError(
            "is one file, and --shard-size and --ray are for a folder of them",
            fix="Give --output a name without an ending.",
            place=PathPlace(output),
        )
    elif output.exists() and not overwrite:
        raise ConfigurationError(
            "exists already", fix="Give --overwrite to replace it, or another --output.", place=PathPlace(output)
        )
    check_output_path(output)


def predict_rows(
    directory: Path,
    data: Path,
    output: Path,
    *,
    settings: "PredictionSettings",
    shard_size: int | None,
    device: str,
    cluster: "RayCluster | None",
) -> None:
    """Predict the rows of a table into a file or a folder, and say what was done.

    Args:
        directory: of the run or export.
        data: the table.
        output: the file, or the folder.
        settings: columns and sizes.
        shard_size: rows of the table a file of a folder; None: the default.
        device: where to run.
        cluster: that of --ray; None: this process.

    Raises:
        ConfigurationError: an export with --ray.
    """
    from contextual_bert.inference.saved_files import learned_kind
    from contextual_bert.inference.tables.shards import SHARD_SIZE
    from contextual_bert.inference.tables.text_tables import TablePredictor, is_folder, predict_table
    from contextual_bert.training import counting

    size = shard_size or SHARD_SIZE
    if cluster is not None:
        clusters.check_is_run(directory)
        from contextual_bert.inference import predict_table_on_ray

        with naming_options(directory, settings, output), counting("predicting") as progress:
            report = predict_table_on_ray(
                directory, data, output, settings=settings, cluster=cluster, shard_size=size, progress=progress
            )
    else:
        with working(f"loading {directory}"):
            pipeline = load_text_pipeline(
                directory, device=device, kind=learned_kind(directory), truncation=settings.truncation
            )
            with naming_option("coverage"):
                predictor = TablePredictor(pipeline, directory, settings)
        with naming_options(directory, settings, output), counting("predicting") as progress:
            report = predict_table(predictor, data, output, shard_size=size, progress=progress)
    lines = report.lines() if is_folder(output) else report.unknown
    remark(*lines, f"wrote {output}, with the columns {', '.join(report.added)}")


def check_pair(has_pairs: bool | None, text: str | None, pair: str | None, pair_column: str | None) -> None:
    """Raise ConfigurationError where a run is asked for pairs and learned none, or the other way round.

    Args:
        has_pairs: whether it learned pairs; None: its folder does not say it.
        text, pair, pair_column: the options.
    """
    from contextual_bert.errors import ConfigurationError

    if has_pairs is None:
        return
    option, given = ("--pair-column", pair_column) if text is None else ("--pair", pair)
    if not has_pairs and given is not None:
        raise ConfigurationError(
            "is for runs on pairs of texts, and this one is on single ones", setting=option, fix="Leave it out."
        )
    if has_pairs and text is not None and pair is None:
        raise ConfigurationError(
            "is missing: the run was trained on pairs of texts", setting="--pair", fix="Give the second text."
        )


@contextmanager
def naming_options(directory: Path, settings: "PredictionSettings", output: Path) -> Generator[None]:
    """Say with which option the right column of texts is named, and that a file cannot be written is one of --output.

    Args:
        directory: of the run or export.
        settings: columns and sizes.
        output: the file, or the folder.
    """
    from contextual_bert.errors import DataError, UnknownNameError
    from contextual_bert.inference.saved_files import trained_texts
    from contextual_bert.places import TablePlace

    learned = trained_texts(directory)
    columns = {role: getattr(settings, role) or getattr(learned, role) or role for role in QUERY_OPTIONS}
    try:
        yield
    except UnknownNameError as error:
        lacking = error.place.lacking if isinstance(error.place, TablePlace) else ()
        if (role := next((role for role, name in columns.items() if name in lacking), None)) is None:
            raise
        raise error.further(f"Name the right one with --{role}-column.") from error
    except DataError as error:
        if error.file is None or not error.file.startswith(str(output)):
            raise
        raise error.moved(file=f"--output {output}") from error


def show_text_answer(answer: "TextAnswer | TextNumber | SureTextAnswer", text: str) -> None:
    """A table of labels, or of words, then in words what the model did not know or read."""
    from contextual_bert.evaluation.tables import Table, render_rich

    label, shares = answer["label"], answer["probabilities"]
    title, num_label_columns = repr(shorten(text, 80)), 2
    if isinstance(shares, list):
        words = zip(text.split(), cast("list[str | None]", label), shares, strict=True)
        heading = ("word", "tag", "probability")
        rows = tuple(
            (word, tag or "not read", f"{share:.2%}" if share is not None else "") for word, tag, share in words
        )
    elif shares:
        heading = ("label", "", "probability")
        ranked = sorted(shares.items(), key=lambda entry: -entry[1])
        rows = tuple((name, "█" * round(BAR_WIDTH * share), f"{share:.2%}") for name, share in ranked)
        title += f": {', '.join(map(str, label)) or 'no label' if isinstance(label, list) else label}"
        if "prediction_set" in answer:
            inside = {*answer["prediction_set"]}
            heading = (*heading, f"{answer['coverage']:.0%} set")
            rows = tuple((*row, "yes" if row[0] in inside else "") for row in rows)
    else:
        heading, num_label_columns = ("number",), 0
        numbers = [[number] for number in cast("list[float]", label if isinstance(label, list) else [label])]
        if "interval" in answer:
            heading, numbers = ("number", "90% from", "to"), [[*numbers[0], *answer["interval"]]]
        rows = tuple(tuple(f"{number:.6g}" for number in row) for row in numbers)
    show(render_rich(title, [Table("", heading, rows, num_label_columns=num_label_columns)], ()))
    remark_unknown(answer["unknown_context"])
    remark(*answer["notes"])
