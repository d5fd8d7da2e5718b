"""``contextual-bert sample``: texts drawn from a masked model, under one context or several."""

from typing import Annotated, Any, cast

import typer

from contextual_bert.nouns import counted
from contextual_bert_cli import options
from contextual_bert_cli.arrow import load_arrow
from contextual_bert_cli.inputs import one_of
from contextual_bert_cli.output import calm_transformers, working
from contextual_bert_cli.written_texts import contexts_of, show_written, write_under

EXAMPLE = """\b
Example:
  contextual-bert sample runs/titles --context '{"year": 1800}' --context '{"year": 1990}' --tokens 8
  contextual-bert sample runs/titles --prompt 'the [MASK] of the [MASK]' --num-samples 10 --format json
  contextual-bert sample runs/titles --context '{"year": 1800}' --guidance 2  # trained with --set context_dropout=0.1
"""


def command(
    directory: options.ModelOfWords,
    *,
    contexts: Annotated[
        list[str] | None,
        typer.Option(
            "--context",
            metavar="JSON",
            help="Under what to draw: {feature: value}; repeatable, for samples beside each other.",
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="A text with [MASK] where a token is to be drawn; the rest stays.")
    ] = None,
    num_tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=1, help="Without a prompt: how many tokens to draw (default 12)."),
    ] = None,
    num_samples: Annotated[int, typer.Option(min=1, help="Texts a context.")] = 4,
    num_sweeps: Annotated[int, typer.Option("--sweeps", min=1, help="How often every token is drawn anew.")] = 20,
    temperature: Annotated[
        float, typer.Option(help="Above 0: below 1 likelier texts, above 1 more various ones.")
    ] = 1.0,
    guidance: Annotated[
        float,
        typer.Option(
            min=0, help="0: what would be said without the context, 1: the model as it is, above: more of the context."
        ),
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws: the same seed, the same texts.")] = 0,
    output_format: Annotated[
        str, typer.Option("--format", **one_of(("text", "json")), help="How to print the texts.")
    ] = "text",
    device: options.Device = "auto",
) -> None:
    """Draw texts from a masked model of texts under a context, by Gibbs sampling."""
    from contextual_bert.errors import ConfigurationError
    from contextual_bert.places import SettingPlace

    calm_transformers()
    if prompt is not None and num_tokens is not None:
        raise ConfigurationError(
            "says by itself how many tokens are drawn", fix="Leave --tokens out.", setting="--prompt"
        )
    load_arrow()
    records = contexts_of(contexts)

    from contextual_bert import ContextualBertForMaskedLM, TextSampling, sample_texts
    from contextual_bert.inference import load_text_model
    from contextual_bert.training import chosen_device

    sampling = TextSampling(num_sweeps=num_sweeps, temperature=temperature, guidance=guidance)
    with working(f"loading {directory}"):
        model, processor = load_text_model(directory, ContextualBertForMaskedLM)
    cast(Any, model).to(chosen_device(device))

    def write(context: dict[str, Any] | None) -> list[str]:
        asked = prompt if prompt is not None else num_tokens or 12
        settings: Any = {"num_samples": num_samples, "sampling": sampling, "seed": seed}
        try:
            return sample_texts(model, processor, context=context, prompt=asked, **settings)
        except ConfigurationError as error:
            is_number = error.location == ("prompt",) and prompt is None
            raise (error.at(SettingPlace("--tokens")) if is_number else error) from error

    doing = f"drawing {counted(num_samples, 'text')}"
    written = write_under(records, write, model=model, processor=processor, doing=doing)
    show_written(written, has_contexts=bool(contexts), output_format=output_format)
