"""Compatibility checks of a model with a processor, and with the context state that it reads."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from contextual_bert.context import ContextSchema, FeatureLayout
from contextual_bert.errors import ConfigurationError, Message


class ReadsContext(Protocol):
    """A config that says how its model reads a context."""

    @property
    def layout(self) -> tuple[FeatureLayout, ...]: ...

    @property
    def has_context_as_text(self) -> bool: ...


class GivesContext(Protocol):
    """Protocol of a processor that encodes a context."""

    @property
    def schema(self) -> ContextSchema | None: ...

    @property
    def has_context_as_text(self) -> bool: ...


def check_layout(config: ReadsContext, layout: tuple[FeatureLayout, ...]) -> None:
    """Raise ConfigurationError unless ``layout`` is what the model was built for."""
    mine: Mapping[str, FeatureLayout] = {feature.name: feature for feature in config.layout}
    width: int | None = getattr(config, "feature_width", None)  # of a method that sets it, whatever the schema says
    sized = layout if width is None else [replace(feature, embedding_size=width) for feature in layout]
    theirs = {feature.name: feature for feature in sized}
    if mine and mine != theirs:
        differing = sorted({*mine, *theirs} - {name for name in mine if theirs.get(name) == mine[name]})
        raise ConfigurationError(
            f"The model and the schema disagree on: {', '.join(differing)}",
            fix="Use the schema that the model was trained with.",
        )


def check_processor(config: ReadsContext, processor: GivesContext) -> None:
    """Raise ConfigurationError unless the processor gives a context as the model of this config reads it.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig, ContextualBertProcessor
        >>> check_processor(ContextualBertConfig(), ContextualBertProcessor.from_items(["coat"]))
    """
    check_layout(config, processor.schema.layout if processor.schema is not None else ())
    if config.has_context_as_text != processor.has_context_as_text:
        read, given = ("words", "values") if config.has_context_as_text else ("values", "words")
        raise ConfigurationError(
            f"The model reads the {read} of a context, and the processor gives {given}",
            fix="Give both the same has_context_as_text.",
        )


def check_state(*, made_with: str, conditioning: str, num_rows: int, num_sets: int) -> None:
    """Raise ConfigurationError unless a model can read a context state: one row for all sets, or a row a set.

    Args:
        made_with: the method of the model that made the state.
        conditioning: the method of the model that reads it.
        num_rows: of the state.
        num_sets: that are asked.

    Example:
        >>> check_state(made_with="film", conditioning="film", num_rows=1, num_sets=5)
    """
    if conditioning != made_with:
        raise ConfigurationError(
            Message(
                f"This context state was made with {{conditioning}}, and the model has {conditioning!r}",
                conditioning=made_with,
            ),
            fix="Call encode_context of the model that reads it.",
        )
    if num_rows not in (1, num_sets):
        raise ConfigurationError(
            f"context has {num_rows} rows and input_ids {num_sets}",
            fix="Give one context a row, or the state of one customer for all.",
        )
