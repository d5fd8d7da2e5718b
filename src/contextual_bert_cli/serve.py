"""``contextual-bert serve``: a run over HTTP."""

import os
import signal
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.failures import Interrupted
from contextual_bert_cli.inputs import checking, is_asked_by_predict
from contextual_bert_cli.output import calm_transformers, remark, working
from contextual_bert_cli.pipelines import calibrate_by, load_pipeline, load_text_pipeline
from contextual_bert_cli.recipe_options import READING, with_recipe_options
from contextual_bert_cli.recipes import check_reads, reading_of

if TYPE_CHECKING:
    from contextual_bert.server.state import AnyServedPipeline

EXAMPLE = """\b
Example:
  contextual-bert serve runs/gsu --catalogue items.parquet
  curl localhost:8000/v1/complete -H 'Content-Type: application/json' -d '{"items": ["coat-1"], "context": {"age": 34}}'
  contextual-bert serve runs/reviews
  curl localhost:8000/v1/predict -H 'Content-Type: application/json' -d '{"text": "A bar.", "context": {"age": 34}}'
"""
KEY_VARIABLE = "CONTEXTUAL_BERT_API_KEY"
_OF_SETS = ("catalogue", "max_set", "max_blanks", "max_top", "max_completions", "max_forward_passes", "exact")
_OF_TEXTS = ("max_text", "max_all_texts")
_EXTRA = ("fastapi", "starlette", "uvicorn", "prometheus_client")


@with_recipe_options(only=READING)
def command(
    context: typer.Context,
    directory: options.ServedRunOrExport,
    *,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=checking("table"),
            help=f"The shop's table, one row an item: {options.DATA_FORMATS}; --delimiter to --missing-value say how "
            "it is written.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=checking("file"),
            help=f"File with the API key; left out, {KEY_VARIABLE} is read.",
        ),
    ] = None,
    max_batch: Annotated[int, typer.Option(min=1, help="Queries that are computed together.")] = 64,
    max_wait: Annotated[
        float, typer.Option(min=0, metavar="MILLISECONDS", help="How long an idle model waits for more queries.")
    ] = 2.0,
    max_queue: Annotated[int, typer.Option(min=1, help="Queries that wait; more are refused with 429.")] = 1024,
    deadline: Annotated[float, typer.Option(metavar="SECONDS", help="Most time from request to answer.")] = 5.0,
    max_body: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Largest request.")] = 1 << 20,
    max_queries: Annotated[int, typer.Option(min=1, help="Queries of a request.")] = 64,
    max_set: Annotated[int, typer.Option(min=1, help="Items of a set.")] = 64,
    max_blanks: Annotated[int, typer.Option(min=1, help="[MASK] of a set.")] = 8,
    max_top: Annotated[int, typer.Option(min=1, help="Proposals a [MASK].")] = 100,
    max_text: Annotated[int, typer.Option(min=1, metavar="CHARACTERS", help="Longest text of a query.")] = 20_000,
    max_all_texts: Annotated[
        int, typer.Option(min=1, metavar="CHARACTERS", help="All texts of a request together.")
    ] = 100_000,
    max_completions: Annotated[int, typer.Option(min=1, help="Whole sets that a request may ask for.")] = 20,
    max_forward_passes: Annotated[
        int, typer.Option(min=1, help="Partial sets that the search for whole sets may put through the model.")
    ] = 1000,
    max_exact_fields: Annotated[
        int,
        typer.Option(min=1, max=12, help="Explanations ask for all subsets of so many given fields; beyond, a sample."),
    ] = 10,
    max_computations: Annotated[
        int, typer.Option(min=1, help="Whole sets and explanations that wait; more are refused with 429.")
    ] = 16,
    computation_deadline: Annotated[
        float, typer.Option(metavar="SECONDS", help="As --deadline, for whole sets and explanations.")
    ] = 30.0,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Answer requests for this host, too: shop.example, *.shop.example, with :port or without. "
            "May be repeated. Known without: localhost and the address that is listened on.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Let pages of this website ask: https://shop.example. May be repeated."),
    ] = None,
    max_connections: Annotated[
        int, typer.Option(min=1, help="Open connections; beyond it the oldest that wait are closed.")
    ] = 1000,
    header_deadline: Annotated[
        float, typer.Option(metavar="SECONDS", help="Most time for the head of a request.")
    ] = 10.0,
    idle: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long a kept connection waits for its next request.")
    ] = 75.0,
    stop_grace: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How long kept connections may send one more request during a stop."),
    ] = 2.0,
    max_json_values: Annotated[
        int, typer.Option(min=1, help="Values, lists and records in the body of a request.")
    ] = 50_000,
    log_contexts: Annotated[
        bool, typer.Option("--log-contexts", help="Write the contexts of queries to the log; they may be personal.")
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            min=1, help="Processes that answer, each with a model, on one port; as many as processors are fastest."
        ),
    ] = 1,
    exact: options.Exact = False,
    coverage: options.Coverage = None,
    device: options.Device = "auto",
    given: Mapping[str, Any],
) -> None:
    """Answer queries over HTTP until Ctrl-C or SIGTERM; SIGHUP loads run, or export, and catalogue again."""
    choices = {**locals(), **given}
    from contextual_bert.inference.saved_files import learned_kind

    check_reads(choices, ("catalogue",))
    load_arrow()
    check_options(context, is_for_texts=is_asked_by_predict(directory))
    key = read_key(api_key_file)
    try:
        from contextual_bert.server import (
            ServerSettings,
            check_can_fork,
            check_can_listen,
            create_app,
            exposure,
            is_for_texts,
            serve,
            serve_with_workers,
            tried,
            with_one_thread,
            workers_remark,
        )
    except ModuleNotFoundError as error:
        raise _missing(error) from None

    calm_transformers()
    # A signal that comes while the run is read would end the process. What it is about may not have been read yet.
    hangups: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: hangups.append(number))
    context.call_on_close(lambda: signal.signal(signal.SIGHUP, before))
    settings = ServerSettings(
        max_batch=max_batch,
        max_wait_milliseconds=max_wait,
        max_queue=max_queue,
        deadline_seconds=deadline,
        max_body_bytes=max_body,
        max_queries=max_queries,
        max_set_length=max_set,
        max_blanks=max_blanks,
        max_top_k=max_top,
        max_text_characters=max_text,
        max_all_characters=max_all_texts,
        max_completions=max_completions,
        max_forward_passes=max_forward_passes,
        max_exact_fields=max_exact_fields,
        max_computations=max_computations,
        computation_deadline_seconds=computation_deadline,
        max_connections=max_connections,
        max_json_values=max_json_values,
        header_seconds=header_deadline,
        idle_seconds=idle,
        stop_grace_seconds=stop_grace,
        allowed_hosts=tuple(allow_host or ()),
        allowed_origins=tuple(allow_origin or ()),
        api_key=key,
        has_contexts_in_logs=log_contexts,
    )

    reading = reading_of(choices)
    remark(*exposure(settings, host), *workers_remark(workers, os.cpu_count()))
    check_can_listen(host, port)

    def load() -> "AnyServedPipeline":
        # A link may lead to another run from one moment to the next: all files are read from where it leads now.
        place = directory.resolve() if directory.resolve() != directory.absolute() else directory
        if is_asked_by_predict(place):
            found: Any = load_text_pipeline(place, device=device, kind=learned_kind(place))
        else:
            found = load_pipeline(place, device=device, catalogue=catalogue, reading=reading, is_exact=exact)
        calibrate_by(found, place, coverage)
        return found

    with working(f"loading {directory}"), with_one_thread() if workers > 1 else nullcontext():
        pipeline = tried(load())
        if workers > 1:
            check_can_fork(pipeline, workers)
    remark(*pipeline.notes())
    if coverage is not None:
        remark("whole sets and explanations are as the model gives them: tempered are the probabilities of answers")
    if not is_for_texts(pipeline) and pipeline.max_top_k is not None and pipeline.max_top_k < max_top:
        remark(f"exported with --top {pipeline.max_top_k}: no query gets more proposals a [MASK]")
    if workers > 1:
        try:
            serve_with_workers(pipeline, load=load, settings=settings, num_workers=workers, host=host, port=port)
        except KeyboardInterrupt:
            raise Interrupted("Stopped. What was accepted has been answered.") from None
        return
    app = create_app(pipeline, load=load, settings=settings)
    signal.signal(signal.SIGHUP, lambda *_: app.reload())
    if hangups:
        app.reload()
    del pipeline  # after a reload nobody needs it
    try:
        serve(app, host=host, port=port)
    except KeyboardInterrupt:
        raise Interrupted("Stopped. What was accepted has been answered.") from None


def check_options(context: typer.Context, *, is_for_texts: bool) -> None:
    """Raise ConfigurationError where an option was given that says nothing for this kind of run."""
    from contextual_bert.errors import ConfigurationError

    for name in _OF_SETS if is_for_texts else _OF_TEXTS:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            served, others = ("texts", "sets") if is_for_texts else ("sets", "texts")
            raise ConfigurationError(
                f"is for runs of {others}, and this one is of {served}",
                setting=f"--{name.replace('_', '-')}",
                fix="Leave it out.",
            )


def read_key(path: Path | None) -> str | None:
    """The API key of the file, or of the environment; None where there is none.

    Raises:
        ConfigurationError: no such file, or nothing in it.
    """
    from contextual_bert.errors import ConfigurationError

    if path is None:
        return os.environ.get(KEY_VARIABLE) or None
    try:
        key = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is no text" if isinstance(error, UnicodeDecodeError) else error.strerror
        problem = f"cannot be read: {reason}"
        raise ConfigurationError(problem, setting="--api-key-file", value=str(path), fix="Give a text file.") from error
    if not key:
        raise ConfigurationError("is empty", setting="--api-key-file", value=str(path), fix="Write the key into it.")
    return key


def _missing(error: ModuleNotFoundError) -> Exception:
    """Return an error with advice for a missing package of the extra. Other errors are returned as they are."""
    from contextual_bert.errors import ConfigurationError

    if (error.name or "").partition(".")[0] not in _EXTRA:
        return error
    return ConfigurationError(f"serve needs {error.name}", fix="Install it: pip install 'contextual-bert[serve]'.")
