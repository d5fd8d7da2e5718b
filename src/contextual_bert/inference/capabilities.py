"""Capabilities of a pipeline beside single completions, with the reason for each that is missing.

The reasons are those with which the others refuse, or with which they say that nothing changed. It knows what a model
has learned and no tensor. Paper: not there.
"""

from typing import Any, Protocol

from contextual_bert.errors import Message
from contextual_bert.inference.query_schema import GUIDANCE

# What the queries of a run of texts are answered with, where that is no label of a text -> in words.
_UNEXPLAINED = {
    "number": "numbers",
    "tags": "tags of words",
    "answer": "answers to questions",
    "text": "texts",
    "words": "words for each [MASK]",
}


class Model(Protocol):
    """Protocol of a model that says what it was trained on; a baseline for texts and an export meet it, too."""

    @property
    def config(self) -> Any: ...

    @property
    def has_learned_anonymous(self) -> bool: ...

    @property
    def has_learned_absent_fields(self) -> bool: ...


class Pipeline(Protocol):
    """Protocol of a pipeline whose capabilities are asked for."""

    @property
    def model(self) -> Any: ...

    @property
    def no_logits(self) -> str | None: ...


def missing_capabilities(pipeline: Pipeline) -> dict[str, str | None]:
    """Return each further capability with the reason why this pipeline lacks it; None where it has it.

    Example:
        >>> from contextual_bert.inference import CompletionPipeline
        >>> from contextual_bert.testing import miniature_model, miniature_processor
        >>> pipeline = CompletionPipeline(miniature_model("concat", field_dropout=0.2), miniature_processor())
        >>> [name for name, reason in missing_capabilities(pipeline).items() if reason is None]
        ['complete_jointly', 'explain', 'similar', 'context']
    """
    config = pipeline.model.config
    no_context = f"This model was trained with conditioning={config.conditioning!r} and reads no context."
    return {
        "complete_jointly": pipeline.no_logits,
        "explain": why_no_explanation(pipeline),
        "similar": pipeline.no_logits,
        "guidance": pipeline.no_logits or why_no_guidance(pipeline.model),
        "context": no_context if not config.layout else None,
        "times": None if config.time_gaps is not None else "Trained without --time-gaps, the model reads no times.",
    }


def why_no_explanation(pipeline: Pipeline) -> str | None:
    """Why nothing can be explained; None where it can."""
    config = pipeline.model.config
    if not config.reads_context:
        return (
            f"This model was trained with conditioning={config.conditioning!r} and reads no context: there is no field "
            "that could explain anything. Name the run of another method."
        )
    if not pipeline.model.has_learned_absent_fields:
        return (
            "This model was trained without field_dropout: it has never been shown a context with a field absent, so "
            "what it says without a field means nothing, and an explanation would be invented. Train it with "
            "--set field_dropout=0.1 --set context_dropout=0.1."
        )
    return pipeline.no_logits


def why_no_text_explanation(pipeline: Any) -> str | None:
    """Why nothing can be explained of a pipeline for texts; None where it can.

    Example:
        >>> from types import SimpleNamespace
        >>> why_no_text_explanation(SimpleNamespace(form=SimpleNamespace(gives="tags")))
        'Labels of texts are explained, and this run gives tags of words.'
    """
    found = _UNEXPLAINED.get(pipeline.form.gives)
    return f"Labels of texts are explained, and this run gives {found}." if found else why_no_explanation(pipeline)


def guidance_notes(model: Model, guidance: float) -> list[str]:
    """Return notes on a guided answer for its reader."""
    reason = why_no_guidance(model, asked=f"{GUIDANCE}={guidance:g}") if guidance != 1 else None
    return [reason] if reason is not None else []


def why_no_guidance(model: Model, *, asked: str = GUIDANCE) -> str | None:
    """Why a guidance, written as it was asked for, means nothing to this model; None where it does mean something."""
    if not model.config.reads_context:
        return f"{asked} changes nothing: this model was trained with conditioning={model.config.conditioning!r}."
    if not model.has_learned_anonymous:
        return Message(
            f"{asked} starts from what the model says when nothing is known of a person, and it was trained without "
            "context_dropout: this state was never learned. Train with {context_dropout}.",
            context_dropout=0.1,
        )
    return None
