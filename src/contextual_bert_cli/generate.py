"""``contextual-bert generate``: texts that a causal model writes, under one context or several."""

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
  contextual-bert generate runs/speeches --context '{"year": 1800}' --context '{"year": 2010}'
  contextual-bert generate runs/speeches --prompt 'We must' --temperature 0.7 --top-p 0.9 --num-samples 32 --format json
  contextual-bert generate runs/speeches --context '{"year": 1800}' --num-beams 4 --num-samples 1
  contextual-bert generate runs/speeches --context '{"year": 1800}' --guidance 2
"""


def command(
    directory: options.ModelThatWrites,
    *,
    contexts: Annotated[
        list[str] | None,
        typer.Option(
            "--context",
            metavar="JSON",
            help="Under what to write: {feature: value}; repeatable, for texts beside each other.",
        ),
    ] = None,
    prompt: Annotated[str, typer.Option(help="How the texts begin; left out, they are written from the start.")] = "",
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many tokens to write at most; a text may end before (default 60, or what there is room for).",
        ),
    ] = None,
    num_samples: Annotated[int, typer.Option(min=1, help="Texts a context, written in one batch.")] = 4,
    temperature: Annotated[
        float,
        typer.Option(min=0, help="Below 1 likelier texts, above 1 more various ones; 0: always the likeliest token."),
    ] = 1.0,
    top_p: Annotated[
        float, typer.Option(help="Draw among the fewest tokens that together have this probability.")
    ] = 1.0,
    num_beams: Annotated[
        int, typer.Option(min=1, help="Keep so many beginnings, for the likeliest texts; 1 draws token by token.")
    ] = 1,
    guidance: Annotated[
        float,
        typer.Option(
            min=0,
            help="0: what would be written without the context, 1: the model as it is, above: more of the context.",
        ),
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws: the same seed, the same texts.")] = 0,
    output_format: Annotated[
        str, typer.Option("--format", **one_of(("text", "json")), help="How to print the texts.")
    ] = "text",
    device: options.Device = "auto",
) -> None:
    """Write texts with a causal model (train --objective causal) under a context, from left to right."""
    calm_transformers()
    load_arrow()
    records = contexts_of(contexts)

    from contextual_bert import ContextualBertForCausalLM, TextGeneration, generate_texts
    from contextual_bert.inference import load_text_model
    from contextual_bert.training import chosen_device

    generation = TextGeneration(
        max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p, num_beams=num_beams, guidance=guidance
    )
    with working(f"loading {directory}"):
        model, processor = load_text_model(directory, ContextualBertForCausalLM)
    cast(Any, model).to(chosen_device(device))

    def write(context: dict[str, Any] | None) -> list[str]:
        return generate_texts(
            model,
            processor,
            context=context,
            prompt=prompt,
            num_samples=num_samples,
            generation=generation,
            seed=seed,
        )

    doing = f"writing {counted(num_samples, 'text')}"
    written = write_under(records, write, model=model, processor=processor, doing=doing)
    show_written(written, has_contexts=bool(contexts), output_format=output_format)
