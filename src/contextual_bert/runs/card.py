"""The model card of a run: README.md with what it is, what it was trained on, how good it is and where it ends."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from contextual_bert.evaluation import Report
from contextual_bert.evaluation.tables import markdown_text
from contextual_bert.printable import printable
from contextual_bert.runs.environment import environment
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.registry import (
    BERTLESS_BASELINES,
    CONTEXT_AS_TEXT,
    POPULARITY,
    WITHOUT_BERT,
    keeps_weights,
)
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import MaskedText, QuestionAnswering, TextTask

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
- {strangers}
- A context feature can be a stand-in for a person's group. Look at the segments above before you act on a difference.
{limits}

## Provenance

{provenance}
"""
NO_RESULTS = "None: all rows were trained on, and nothing was held out to measure it by."
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")  # or a relative folder, which exists
SET_TAGS, TEXT_TAGS = ("masked-language-model", "recommendation"), ("text",)
SET_LIMITS = """- Items that were not in the training part are unknown to it.
- Several masks of one set are filled each by itself, not jointly."""
TEXT_LIMITS = "- It starts from `{checkpoint}`, with what that has learned of people and of language."
STRANGERS = """Values of the context that it never saw are treated as `unknown`, a state that is learned only where the
  training part had rare values, or with `field_dropout`."""
STRANGE_WORDS = "Values of the context that it never saw are read as words, as those that it knows."
OF_CHECKPOINT = "Of `{checkpoint}` it has the tokenizer alone."
OWN_WORDS = "Its tokens are words of its training texts. Words that few customers wrote are read as `[UNK]`."
STARTED = "It started from `{checkpoint}`."
DRAWN = "It has the sizes and the tokenizer of `{checkpoint}`; its weights were drawn anew."
MODEL = """A masked model of sets of items, conditioned by `{conditioning}`.
It fills the masked items of a set, given the other items{context}.

## Use

```python
from contextual_bert import CompletionPipeline

pipeline = CompletionPipeline.from_pretrained("path/to/this/folder")
pipeline({{"items": ["...", "[MASK]"]{example}}}, top_k=5)
```"""
TEXT_MODEL = """A BERT that {task}, conditioned by `{conditioning}`{context}.
{start}

## Use

```python
from contextual_bert import {use}

{code}
```"""
LABELS = """pipeline = TextPipeline.from_pretrained("path/to/this/folder")
pipeline({{"text": "..."{example}}})"""
QUESTIONS = """pipeline = QuestionAnsweringPipeline.from_pretrained("path/to/this/folder")
pipeline({{"question": "...", "text": "..."{example}}})"""
SAMPLES = """model = ContextualBertForMaskedLM.from_pretrained("path/to/this/folder")
processor = ContextualBertProcessor.from_pretrained("path/to/this/folder")
sample_texts(model, processor{example})"""
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
# Kind of task -> the Hub's name of it.
PIPELINE_TAGS: Mapping[str, str] = {
    "classification": "text-classification",
    "tagging": "token-classification",
    "question_answering": "question-answering",
}


def write_card(directory: Path, recipe: Recipe, reports: Mapping[str, Report], lines: Sequence[str]) -> None:
    """Write README.md into the run directory; every number in it comes from the reports.

    Folders of this machine are named by their last part: a card travels.

    Args:
        directory: of the run.
        recipe: of the run.
        reports: part -> report.
        lines: what was read, for people.
    """
    metadata = {"pipeline_tag": pipeline_tag(recipe), "base_model": base_model(recipe)}
    text = CARD.format(
        metadata="".join(f"{name}: {value}\n" for name, value in metadata.items() if value is not None),
        title=f"contextual-bert, {recipe.conditioning}, seed {recipe.seed}",
        tags="\n".join(f"- {tag}" for tag in (TEXT_TAGS if isinstance(recipe.task, TextTask) else SET_TAGS)),
        about=about(recipe),
        limits=limits_of(recipe),
        strangers=STRANGE_WORDS if recipe.conditioning == CONTEXT_AS_TEXT else STRANGERS,
        data="\n".join(f"- {one_line(line)}" for line in (f"table: {Path(recipe.data).name}", *lines)),
        results="\n\n".join(f"### {part}\n\n{report.to_markdown(num_segments=10)}" for part, report in reports.items())
        or NO_RESULTS,
        provenance="\n".join(f"- {name}: {value}" for name, value in environment().items()),
    )
    (directory / "README.md").write_text(printable(without_folders(text, recipe)), encoding="utf-8")


def pipeline_tag(recipe: Recipe) -> str | None:
    """The Hub's name of what the run does, None where its weights are not kept."""
    if not keeps_weights(recipe):
        return None
    return PIPELINE_TAGS.get(recipe.task.kind, "fill-mask")


def base_model(recipe: Recipe) -> str | None:
    """The name on the Hub of the checkpoint whose weights the run started from; None of a folder, or of new weights."""
    task = recipe.task
    if not isinstance(task, TextTask) or task.is_from_scratch or recipe.conditioning in WITHOUT_BERT:
        return None
    is_name = HUB_NAME.fullmatch(task.bert) is not None and not Path(task.bert).exists()
    return task.bert if is_name else None


def without_folders(text: str, recipe: Recipe) -> str:
    """The text with the last part of each path that the recipe has in place of the path."""
    checkpoint = recipe.task.checkpoint if isinstance(recipe.task, TextTask) else None
    places = [recipe.data, recipe.split, recipe.task.run_to_start_from]
    if checkpoint is not None and (HUB_NAME.fullmatch(checkpoint) is None or Path(checkpoint).exists()):
        places.append(checkpoint)
    for place in sorted({place for place in places if place and Path(place).name}, key=len, reverse=True):
        for spelling in {place, one_line(place)}:  # a line of the card has the name of a file as Markdown
            text = text.replace(spelling, Path(place).name)
    return text


def one_line(text: str) -> str:
    """Words with names of data in them, as a line of Markdown: a name ends no line and is no HTML.

    Example:
        >>> print(one_line("items: coat\\n# <b>"))
        items: coat # \\<b>
    """
    return markdown_text(" ".join(text.split("\n")))


def limits_of(recipe: Recipe) -> str:
    """Return the limits of the model, beyond those of every run."""
    task = recipe.task
    if not isinstance(task, TextTask):
        return SET_LIMITS
    has_bert_start = not task.is_from_scratch and recipe.conditioning not in WITHOUT_BERT
    return TEXT_LIMITS.format(checkpoint=task.bert) if has_bert_start else ""


def about(recipe: Recipe) -> str:
    """Return the card's description of the model and its use."""
    if not keeps_weights(recipe):
        return BASELINE.format(conditioning=recipe.conditioning)
    features = [feature["name"] for feature in (recipe.schema or {}).get("features", ())]
    sees_context = bool(features) and has_context(recipe)
    context = ": " + one_line(", ".join(features)) if sees_context else ", without a context"
    if not isinstance(recipe.task, TextTask):
        example = ', "context": {...}' if sees_context else ""
        known = " and the context" + context if sees_context else context
        return MODEL.format(conditioning=recipe.conditioning, context=known, example=example)
    task = recipe.text_task
    if isinstance(task, QuestionAnswering):
        does, use = f"answers `{task.question}` with a piece of `{task.text}`", "QuestionAnsweringPipeline"
        code = QUESTIONS.format(example=', "context": {...}' if sees_context else "")
    elif isinstance(task, MaskedText):
        does, use = "fills hidden words", "ContextualBertForMaskedLM, ContextualBertProcessor, sample_texts"
        code = SAMPLES.format(example=", context={...}" if sees_context else "")
    else:
        does, use = f"finds `{task.label}` from `{task.text}`", "TextPipeline"
        pair = ', "pair": "..."' if task.pair is not None else ""
        code = LABELS.format(example=pair + (', "context": {...}' if sees_context else ""))
    if recipe.conditioning in BERTLESS_BASELINES:
        does = does if recipe.conditioning not in POPULARITY else f"finds `{task.label}` without reading the text"
        tokens = OF_CHECKPOINT.format(checkpoint=task.checkpoint) if task.checkpoint is not None else OWN_WORDS
        settings = {"conditioning": recipe.conditioning, "context": context, "tokens": tokens}
        return TEXT_BASELINE.format(task=does, code=code, **settings)
    return TEXT_MODEL.format(
        task=does,
        conditioning=recipe.conditioning,
        context=context,
        start=(DRAWN if task.is_from_scratch else STARTED).format(checkpoint=task.bert),
        use=use,
        code=code,
    )
