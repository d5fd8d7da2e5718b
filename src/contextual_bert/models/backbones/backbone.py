"""A backbone: an architecture of transformers that a model of this package can start from.

It says how the fields and weights of a checkpoint are called here, and knows no method, no head and no tokenizer.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from contextual_bert.errors import CheckpointError

# Fields of a config that have the same names in every architecture.
COMMON_FIELDS = ("vocab_size", "max_position_embeddings", "initializer_range", "tie_word_embeddings")
WORDS = "bert.embeddings.word_embeddings.weight"
POSITIONS = "bert.embeddings.position_embeddings.weight"
SEGMENTS = "bert.embeddings.token_type_embeddings.weight"


class Backbone:
    """Base class of backbones whose blocks are BERT's: attention, add-and-norm, feed-forward, add-and-norm.

    A checkpoint of one becomes a model of this package by other names; what it computes stays as it is, bit for bit.

    Attributes:
        model_types: what ``config.json`` calls the architecture.
        names: of the weights, as (pattern, replacement) for ``re.sub``, applied one after another; with none, they have
            BERT's names and are loaded as they are.
        fields: of the config, here -> there, beside ``COMMON_FIELDS``.
        fixed_fields: of our config, which the architecture leaves no choice.
        masked_lm_weight: a weight that only a checkpoint with a head for hidden tokens has.
        made: names here of weights that the architecture lacks and ``weights`` makes.
        has_segments: whether it was trained to tell a pair of texts by segments; else separators alone tell them, and
            both segments start alike.

    Example:
        >>> from contextual_bert.models.backbones import get_backbone
        >>> get_backbone("distilbert").name_of("distilbert.transformer.layer.0.ffn.lin1.bias")
        'bert.encoder.layer.0.intermediate.dense.bias'
    """

    model_types: ClassVar[tuple[str, ...]] = ()
    names: ClassVar[tuple[tuple[str, str], ...]] = ()
    fields: ClassVar[Mapping[str, str]] = {}
    fixed_fields: ClassVar[Mapping[str, Any]] = {}
    masked_lm_weight: ClassVar[str] = ""
    made: ClassVar[tuple[str, ...]] = ()
    has_segments: ClassVar[bool] = True

    def check(self, config: Any, checkpoint: object) -> None:
        """Raise CheckpointError where a config asks for something that is not computed here.

        Args:
            config: of the checkpoint.
            checkpoint: its folder or name, for messages.
        """

    def config_fields(self, config: Any) -> dict[str, Any]:
        """The fields of ContextualBertConfig for a checkpoint's config."""
        named = {name: name for name in COMMON_FIELDS} | dict(self.fields)
        return {ours: getattr(config, theirs) for ours, theirs in named.items()} | dict(self.fixed_fields)

    def name_of(self, weight: str) -> str:
        """The name here of a checkpoint's weight."""
        for pattern, replacement in self.names:
            weight = re.sub(pattern, replacement, weight)
        return weight

    def weights(self, weights: Mapping[str, Tensor], config: Any) -> dict[str, Tensor]:
        """The weights of a checkpoint by their names here.

        Args:
            weights: by the names of the architecture.
            config: of the checkpoint.
        """
        return {self.name_of(name): weight for name, weight in weights.items()}


def refuse_activation(activation: str, *, head: str, checkpoint: object) -> None:
    """Raise CheckpointError where blocks and head of a checkpoint have other activations: a model here has one."""
    if activation != head:
        raise CheckpointError(
            f"{checkpoint}: its hidden_act is {activation!r}, and its head for hidden tokens has {head!r}",
            fix="Give a checkpoint with one activation.",
        )
