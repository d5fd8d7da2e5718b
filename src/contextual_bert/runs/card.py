"""The model card of a run: README.md with what it is, what it was trained on, how good it is and where it ends."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contextual_bert.baselines.names import BERTLESS_BASELINES, CONTEXT_AS_TEXT, POPULARITY, WITHOUT_BERT
from contextual_bert.errors import NAME, spelled
from contextual_bert.evaluation import Report
from contextual_bert.evaluation.tables import markdown_text
from contextual_bert.json_text import json_text
from contextual_bert.printable import printable
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.provenance import environment
from contextual_bert.runs.registry import keeps_weights, reads_elmo
from contextual_bert.runs.sequences import predicts_next
from contextual_bert.training.recipe import Recipe

CARD = """---
library_name: contextual-bert
{metadata}tags:
- contextual-bert
{tags}
---

# {title}

{about}

## Data

{data}

## Results

{results}

## Limits

- Probabilities are those of the population it was trained on: another shop, season or country needs another training
  or fine-tuning.
- {unknown_values}
- A context feature can be a stand-in for a person's group. Look at the segments above before you act on a difference.
{limits}

## Provenance

{provenance}
"""
_PATHS = (
    *("data", "split", "validation_data", "test_data"),
    *("checkpoint", "elmo", "init_from", "catalogue", "item_text_encoder"),
)
_OR_ON_HUB = ("checkpoint", "item_text_encoder")
NO_RESULTS = "None: all rows were trained on, and nothing was held out to measure it by."
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")  # or a relative folder, which exists
SET_TAGS, TEXT_TAGS = ("masked-language-model", "recommendation"), ("text",)
SET_LIMITS = """- Items that were not in the training part are unknown to it.
- Several masks of one set are filled each by itself, not jointly."""
_LIMITS_OF_LOSS: Mapping[str, tuple[str, ...]] = {
    "sampled_softmax": (
        "- Its probabilities were learned by a sampled softmax, corrected for how often each item is drawn: look at\n"
        "  the calibration error above before you count on them.",
    ),
    "gbce": ("- It learned to rank items by gBCE. Its softmax over all items is no probability of theirs.",),
}
TEXT_LIMITS = "- It starts from `{checkpoint}`, with what that has learned of people and of language."
UNKNOWN_VALUES = """Values of the context that it never saw are treated as `unknown`, a state that is learned only where
  the training part had rare values, or with `field_dropout`."""
UNKNOWN_VALUES_AS_WORDS = "Values of the context that it never saw are read as words, as those that it knows."
OF_CHECKPOINT = "Of `{checkpoint}` it has the tokenizer alone."
OWN_WORDS = "Its tokens are words of its training texts. Words that few customers wrote are read as `[UNK]`."
BESIDE = " Beside its words it reads the vectors of `{elmo}` (ELMo), which are within this folder and were not trained."
STARTED = "It started from `{checkpoint}`."
NEW = "Its weights are new, and its tokens are pieces of words of its training texts that several customers wrote."
DRAWN = "It has the sizes and the tokenizer of `{checkpoint}`; its weights were drawn anew."
MODEL = """A {kind} of items, conditioned by `{conditioning}`.
{does}, given {given}{context}.

## Use

```python
from contextual_bert import {use}

{code}
```"""
TEXT_MODEL = """A BERT that {task}, conditioned by `{conditioning}`{context}.
{start}

## Use

```python
from {package} import {use}

{code}
```"""
BOTH_WAYS = """Language models over whole words, from left to right and from right to left (ELMo), without a context.
{does}.
Their weights are new. They read any word by its characters, and predict those that several customers wrote.

## Use

```python
from contextual_bert.models.bidirectional_lm import {use}
{code}
```"""
TEXT_BASELINE = """The baseline `{conditioning}`, which {task}{context}.
{tokens}

## Use

```python
from contextual_bert import TextPipeline

{code}
```"""
BASELINE = (
    "The baseline `{conditioning}`: what others are compared with. Its scores and metrics are kept, not its weights."
)


def write_card(
    directory: Path, recipe: Recipe, reports: Mapping[str, Report], lines: Sequence[str], *, loss: str = ""
) -> None:
    """Write README.md into the run directory; every number in it comes from the reports.

    Folders of this machine are named by their last part: a card travels.

    Args:
        directory: of the run.
        recipe: of the run.
        reports: part -> report.
        lines: what was read, for people.
        loss: the name of that by which masked items were learned.
    """
    metadata = {"pipeline_tag": pipeline_tag(recipe), "base_model": base_model(recipe)}
    text = CARD.format(
        metadata="".join(f"{name}: {value}\n" for name, value in metadata.items() if value is not None),
        title=f"contextual-bert, {recipe.conditioning}, seed {recipe.seed}",
        tags="\n".join(f"- {tag}" for tag in (SET_TAGS if recipe.task.has_items else TEXT_TAGS)),
        about=about(recipe),
        limits=limits_of(recipe, loss),
        unknown_values=UNKNOWN_VALUES_AS_WORDS if recipe.conditioning == CONTEXT_AS_TEXT else UNKNOWN_VALUES,
        data="\n".join(
            f"- {one_line(spelled(line, in_recipe))}" for line in (f"table: {Path(recipe.data).name}", *lines)
        ),
        results="\n\n".join(f"### {part}\n\n{report.to_markdown(num_segments=10)}" for part, report in reports.items())
        or NO_RESULTS,
        provenance="\n".join(f"- {name}: {value}" for name, value in environment().items()),
    )
    (directory / "README.md").write_text(printable(without_folders(text, recipe)), encoding="utf-8")


def pipeline_tag(recipe: Recipe) -> str | None:
    """The Hub's name of what the run does, None where its weights are not kept."""
    return recipe.task.hub_tag if keeps_weights(recipe) else None


def base_model(recipe: Recipe) -> str | None:
    """The name on the Hub of the checkpoint whose weights the run started from; None of a folder, or of new weights."""
    start = recipe.task.checkpoint_to_start_from
    if start is None or recipe.conditioning in WITHOUT_BERT:
        return None
    return start if is_on_hub(start) else None


def is_on_hub(name: str) -> bool:
    """Return True for the name of a checkpoint on the Hub, False for a folder.

    Example:
        >>> is_on_hub("google/electra-small-discriminator"), is_on_hub("/models/bert")
        (True, False)
    """
    return HUB_NAME.fullmatch(name) is not None and not Path(name).exists()


def in_recipe(name: str, value: object) -> str:
    """Return a setting as ``recipe.json`` spells it, which lies beside the card.

    Example:
        >>> print(in_recipe("num_train_epochs", 3), in_recipe("split_by", "time"), in_recipe("time", ...))
        "num_train_epochs": 3 "split_by": "time" "time"
    """
    key = json_text(name)
    return key if value is NAME or value is ... else f"{key}: {json_text(value, default=str)}"


def without_folders(text: str, recipe: Recipe) -> str:
    """The text with the last part of each path that the recipe has in place of the path."""
    places = paths_in(vars(recipe), vars(recipe.task)).values()
    for place in sorted({place for place in places if Path(place).name}, key=len, reverse=True):
        for spelling in {place, one_line(place)}:  # a line of the card has the name of a file as Markdown
            text = text.replace(spelling, Path(place).name)
    return text


def paths_in(recipe: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a recipe, and of its task, that hold a path; a name on the Hub is none.

    Example:
        >>> paths_in({"data": "/home/ann/texts.csv", "split": None}, {"checkpoint": "google/bert_uncased_L-2"})
        {'data': '/home/ann/texts.csv'}
    """
    found = {name: value for values in (recipe, task) for name, value in values.items() if name in _PATHS and value}
    return {name: path for name, path in found.items() if name not in _OR_ON_HUB or not is_on_hub(path)}


def one_line(text: str) -> str:
    """Words with names of data in them, as a line of Markdown: a name ends no line and is no HTML.

    Example:
        >>> print(one_line("items: coat\\n# <b>"))
        items: coat # \\<b>
    """
    return markdown_text(" ".join(text.split("\n")))


def _set_wording(recipe: Recipe) -> dict[str, str]:
    """Return what a model of items is, what it does, and what it is given."""
    kind, does, given = "masked model of sets", "It fills the masked items of a set", "the other items"
    if recipe.set_task.order is not None:
        kind = "model of sequences" if predicts_next(recipe) else "masked model of sequences"
    if recipe.set_task.hide == "next":
        does, given = "It proposes the next item of a sequence", "the items before it"
    if recipe.set_task.time_gaps:
        given += " and how much time passed between them"
    if recipe.set_task.hide == "set":
        does, given = "It proposes the items of a whole set", "none of them"
    return {"kind": kind, "does": does, "given": given}


def limits_of(recipe: Recipe, loss: str) -> str:
    """Return the limits of the model, beyond those of every run, where its items were learned by some loss."""
    if recipe.task.has_items:
        limits = SET_LIMITS if not predicts_next(recipe) else SET_LIMITS.split("\n")[0]
        return "\n".join([limits, *_LIMITS_OF_LOSS.get(loss, ())])
    start = recipe.task.checkpoint_to_start_from
    return TEXT_LIMITS.format(checkpoint=start) if start and recipe.conditioning not in WITHOUT_BERT else ""


def about(recipe: Recipe) -> str:
    """Return the card's description of the model and its use."""
    if not keeps_weights(recipe):
        return BASELINE.format(conditioning=recipe.conditioning)
    features = [feature["name"] for feature in (recipe.schema or {}).get("features", ())]
    sees_context = bool(features) and has_context(recipe)
    context = ": " + one_line(", ".join(features)) if sees_context else ", without a context"
    does, code = recipe.task.purpose, recipe.task.example_code(has_context=sees_context)
    use = recipe.task.imported
    if recipe.task.has_items:
        known = " and the context" + context if sees_context else context
        wording = _set_wording(recipe)
        return MODEL.format(conditioning=recipe.conditioning, context=known, use=use, code=code, **wording)
    task = recipe.text_task
    if not task.reads_context:
        return BOTH_WAYS.format(does=does[0].upper() + does[1:], use=use, code=code)
    if recipe.conditioning in BERTLESS_BASELINES:
        does = does if recipe.conditioning not in POPULARITY else f"finds `{task.label}` without reading the text"
        tokens = OF_CHECKPOINT.format(checkpoint=task.checkpoint) if task.checkpoint is not None else OWN_WORDS
        tokens += BESIDE.format(elmo=task.elmo) if reads_elmo(recipe) else ""
        settings = {"conditioning": recipe.conditioning, "context": context, "tokens": tokens}
        return TEXT_BASELINE.format(task=does, code=code, **settings)
    start = NEW
    if task.checkpoint is not None:
        start = (DRAWN if task.is_from_scratch else STARTED).format(checkpoint=task.checkpoint)
    return TEXT_MODEL.format(
        task=does,
        conditioning=recipe.conditioning,
        context=context,
        start=start,
        package=task.package,
        use=use,
        code=code,
    )
