"""A backbone: an architecture of transformers that a model of this package can start from.

It says how the fields and weights of a checkpoint are called here, and where the three slots enter its blocks. It
knows no method and no tokenizer.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from torch import Tensor, nn
from transformers import Cache

from contextual_bert.errors import CheckpointError, ConfigurationError
from contextual_bert.places import PathPlace

# Fields of a config that have the same names in every architecture.
COMMON_FIELDS = ("vocab_size", "max_position_embeddings", "initializer_range", "tie_word_embeddings")
WORDS = "bert.embeddings.word_embeddings.weight"
POSITIONS = "bert.embeddings.position_embeddings.weight"
SEGMENTS = "bert.embeddings.token_type_embeddings.weight"


@dataclass(frozen=True)
class LayerInput:
    """Input of one block beside the hidden states: a mask, as ``attn_implementation`` takes it, and others by name."""

    mask: Tensor | None
    others: Mapping[str, Any] = field(default_factory=dict)


class Attended(nn.Module):
    """Output and weights of a method's own attention, passed on as they are: what ``output_attentions`` records."""

    def forward(self, output: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return output, weights


class ConditionedLayer(nn.Module):
    """A block with a method's module: attention, reading the state, feed-forward.

    ``forward(hidden, mask, state, rows, **others)`` takes hidden states (batch, length, hidden), the mask and others of
    its ``LayerInput``, a state or None; with ``rows``, into the flattened (batch * length), only these come out.
    """

    conditioning: Any  # BlockSlot, or None where `point` is None
    point: str | None
    attended: Any  # Attended where ``point`` is "attend", else None

    def add_conditioning(self, config: Any, layer_idx: int) -> None:
        """Add the module that the method of the config, if any, has for this block."""
        self.conditioning = config.method.block(config.sizes, layer_idx)
        self.point = self.conditioning.point if self.conditioning is not None else None
        self.attended = Attended() if self.point == "attend" else None
        name = self.conditioning.hidden_act if self.conditioning is not None else None
        if name is not None and not self.use_activation(name):
            raise ConfigurationError(
                f"The settings of {config.conditioning!r} ask for the activation {name!r}, and the blocks of "
                f"{config.backbone!r} take none but their own",
                fix="Leave that setting out, or start from a BERT.",
            )

    def use_activation(self, name: str) -> bool:
        """Give the feed-forward network another activation, and return whether it takes one.

        Args:
            name: of the activation, as transformers calls it.
        """
        return False

    @property
    def attention_norm(self) -> nn.LayerNorm | None:
        """The LayerNorm after attention, which the reading of a state may take over; None in front of attention."""
        raise NotImplementedError


class PrenormLayer(ConditionedLayer):
    """A block whose halves each read the normalised stream and add to it; between them the state adds what is read of
    it. The method's module, if any, is entered at the point it names: ``attend``, ``read`` or ``modulate``.

    Attributes:
        norms: names of the modules that normalise for attention and for the feed-forward.
    """

    norms: ClassVar[tuple[str, str]]
    attn: Any
    mlp: Any

    def forward(
        self,
        hidden: Tensor,
        mask: Tensor | None = None,
        state: Tensor | None = None,
        rows: Tensor | None = None,
        *,
        held: Tensor | None = None,
        **others: Any,
    ) -> Tensor:
        """Hidden states (batch, length, hidden); with ``rows``, into the flattened (batch * length), only these.

        ``held`` is what the method's module made of the state before, if it is held.
        """
        ahead = {"held": held} if held is not None else {}
        read = self._read(hidden, state, 0, **ahead)
        if self.point == "attend":
            attended = self.project(self.conditioning(read, partial(self.attend, mask=mask, **others), state))
        else:
            attended, _ = self.attn(read, attention_mask=mask, **others)
        hidden = hidden + attended
        if rows is not None:
            hidden, state = asked_rows(rows, hidden, state)
        if self.point == "read":
            hidden = self.conditioning(hidden, state, **ahead)
        hidden = hidden + self.mlp(self._read(hidden, state, 1, **ahead))
        return hidden.squeeze(1) if rows is not None else hidden

    @property
    def attention_norm(self) -> None:
        return None

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None, **others: Any) -> Tensor:
        """The architecture's attention: heads (batch, heads, length, head size) -> (batch, length, heads * head size).

        Args:
            query, key, value: of the heads.
            mask: of the ``LayerInput``.
            **others: of the ``LayerInput``, by name.
        """
        raise NotImplementedError

    def project(self, attended: Tensor) -> Tensor:
        """What attention adds to the stream, of what its heads give."""
        raise NotImplementedError

    def _read(self, hidden: Tensor, state: Tensor | None, half: int, **ahead: Tensor) -> Tensor:
        read = getattr(self, self.norms[half])(hidden)
        return self.conditioning(read, state, half, **ahead) if self.point == "modulate" else read


class Backbone:
    """Base class of backbones. A checkpoint of one becomes a model of this package by other names; what it computes
    stays as it is, bit for bit.

    Attributes:
        model_types: what ``config.json`` calls the architecture.
        names: of the weights, as (pattern, replacement) for ``re.sub``, applied one after another; with none, they have
            BERT's names and are loaded as they are.
        fields: of the config, here -> there, beside ``COMMON_FIELDS``.
        fixed_fields: of our config, which the architecture leaves no choice.
        masked_lm_weight: a weight that only a checkpoint with a head for hidden tokens has.
        is_causal: whether it reads from left to right, and writes.
        made: names here of weights that the architecture lacks and ``weights`` makes: segments that start as zero, so
            that separators alone tell the halves of a pair until training tells more.
        padding_id: the only one that transformers' class counts positions by; None: the config's.
        is_exact: whether sums are made here in the order of transformers' class.

    Example:
        >>> from contextual_bert.models.backbones import BACKBONES
        >>> BACKBONES["distilbert"].name_of("distilbert.transformer.layer.0.ffn.lin1.bias", {})
        'bert.encoder.layer.0.intermediate.dense.bias'
    """

    model_types: ClassVar[tuple[str, ...]] = ()
    names: ClassVar[tuple[tuple[str, str], ...]] = ()
    fields: ClassVar[Mapping[str, str]] = {}
    fixed_fields: ClassVar[Mapping[str, Any]] = {}
    masked_lm_weight: ClassVar[str] = ""
    is_causal: ClassVar[bool] = False
    made: ClassVar[tuple[str, ...]] = ()
    padding_id: ClassVar[int | None] = None
    is_exact: ClassVar[bool] = True

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

    def name_of(self, weight: str, head: Mapping[str, str]) -> str:
        """The name here of a checkpoint's weight.

        Args:
            weight: its name there.
            head: what parts of a head that has the same names under several heads are called here.
        """
        for pattern, replacement in self.names:
            weight = re.sub(pattern, replacement, weight)
        return weight

    def weights(self, weights: Mapping[str, Tensor], config: Any, head: Mapping[str, str]) -> dict[str, Tensor]:
        """The weights of a checkpoint by their names here.

        Args:
            weights: by the names of the architecture.
            config: of the checkpoint.
            head: as of ``name_of``.
        """
        found = {self.name_of(name, head): weight for name, weight in weights.items()}
        if SEGMENTS in self.made and WORDS in found:
            found[SEGMENTS] = found[WORDS].new_zeros(2, found[WORDS].shape[1])
        return found


class Blocks:
    """Modules that a model of a ``ContextualBertConfig`` is built of, but for its embeddings.

    Attributes:
        pools_mean: whether the pooler also reads the mean of a text.
        is_causal: whether a position sees those before it alone.
        can_hide_later: whether they can do so where a config says ``predicts_next``.
        has_prenorm: whether a block normalises what it reads and adds to a stream that stays as it is.
        has_position_table: whether positions are embedded beside the tokens; else the blocks know them.
        has_embedding_norm: whether a LayerNorm follows the embeddings.
        needs_settings: whether there is none without the settings of a checkpoint.
        has_attention: whether positions attend to each other; else they are read one after another.
    """

    pools_mean: ClassVar[bool] = False
    is_causal: ClassVar[bool] = False
    can_hide_later: ClassVar[bool] = False
    has_prenorm: ClassVar[bool] = False
    has_position_table: ClassVar[bool] = True
    has_embedding_norm: ClassVar[bool] = True
    needs_settings: ClassVar[bool] = False
    has_attention: ClassVar[bool] = True

    def layer(self, config: Any, index: int) -> ConditionedLayer:
        """The block of this index."""
        raise NotImplementedError

    def shared(self, config: Any) -> nn.Module | None:
        """Return what all blocks share."""
        return None

    def layer_inputs(
        self,
        config: Any,
        hidden: Tensor,
        real: Tensor | None,
        position_ids: Tensor | None,
        cache: Cache | None = None,
        shared: nn.Module | None = None,
    ) -> Sequence[LayerInput]:
        """The inputs of all blocks beside the hidden states.

        Args:
            config: of the model.
            hidden: (batch, length, hidden) of the first block.
            real: (batch, length) of 0 and 1, None where nothing is padded; with a cache, of its positions, too.
            position_ids: (batch or 1, length), None where they are counted from 0.
            cache: keys and values of the positions before; only blocks that are causal are given one.
            shared: the module of ``shared``.
        """
        raise NotImplementedError

    def initialise(self, module: nn.Module, config: Any) -> None:
        """Draw the weights of a module that these blocks alone have; called of every module."""

    def final_norm(self, config: Any) -> nn.Module | None:
        """What follows the last block."""
        return None

    def pooler(self, config: Any) -> nn.Module:
        """The module that makes (batch, hidden) of hidden states' first position; causal blocks have none."""
        raise NotImplementedError

    def masked_lm_transform(self, config: Any) -> nn.Module | None:
        """What stands between the blocks and the output layer of hidden tokens; None: what BERT has there."""
        return None

    def token_head(self, config: Any) -> nn.Module | None:
        """What stands between the blocks and the layer that labels tokens or finds spans."""
        return None


def follow_attention(native: Any, config: Any) -> None:
    """Give the config of an architecture the attention of the model, which ``set_attn_implementation`` may change.

    Args:
        native: config of transformers' class.
        config: ContextualBertConfig of the model.
    """
    if native._attn_implementation != config._attn_implementation:
        native._attn_implementation = config._attn_implementation


def refuse_activation(activation: str, *, head: str, checkpoint: object) -> None:
    """Raise CheckpointError where blocks and head of a checkpoint have other activations: a model here has one."""
    if activation != head:
        raise CheckpointError(
            f"its hidden_act is {activation!r}, and its head for hidden tokens has {head!r}",
            fix="Give a checkpoint with one activation.",
            place=PathPlace(str(checkpoint), is_subject=False),
        )


def asked_rows(rows: Tensor, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The asked positions of a batch, each a sequence of length 1, and the state that each of them reads.

    What follows attention treats each position by itself.

    Args:
        rows: (asked,) into the flattened (batch * length).
        hidden: (batch, length, hidden) -> (asked, 1, hidden).
        state: (batch, ...) -> (asked, ...).
    """
    if state is not None:
        sets = rows.div(hidden.shape[1], rounding_mode="trunc")  # one node when exported; // makes ten
        state = state.index_select(0, sets)
    return hidden.flatten(0, 1).index_select(0, rows).unsqueeze(1), state
