"""The seam: what a conditioning method is, and the three slots it may fill.

A method is a small factory of modules. The model asks it once, at construction, for the modules of its slots and owns
them from then on, so a ``state_dict`` reads like Figure 1 of the paper. This module knows tensors, not BERT: no
transformers, no item, no feature.

Paper: Denk and Peleteiro Ramallo (2020), "Contextual BERT", section 3.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn

from contextual_bert.context.encoder import ContextEmbedding
from contextual_bert.errors import ConfigurationError, UnknownNameError, did_you_mean
from contextual_bert.places import SettingPlace
from contextual_bert.pydantic_findings import wanted

Point = Literal["attend", "read", "modulate"]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]  # of query, key and value, see BlockSlot


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """All that a method may know of the model around it: widths in numbers of components.

    Args:
        hidden_size: width of a position (d_model).
        context_size: width of the concatenated feature embeddings (d_context).
        feature_sizes: width of each feature's embedding, in the schema's order; sums to ``context_size``.
        intermediate_size: inner width of the feed-forward sub-layer.
        num_layers: number of blocks (N).
        num_heads: attention heads of a block.
        dropout: probability of dropping a component where the paper writes Dropout.
        layer_norm_eps: added to the variance in every LayerNorm.
        has_pretrained_start: whether the modules are laid out so that the model can start as a pretrained BERT.
        has_prenorm: whether a block normalises what it reads and adds to a stream that stays as it is.
        num_extra_layers: how many of the blocks, the last ones, are new on top of a pretrained BERT.
    """

    hidden_size: int
    context_size: int
    feature_sizes: tuple[int, ...]
    intermediate_size: int
    num_layers: int
    num_heads: int
    dropout: float
    layer_norm_eps: float
    has_pretrained_start: bool = False
    has_prenorm: bool = False
    num_extra_layers: int = 0


@dataclass(frozen=True, kw_only=True)
class MethodSettings:
    """Settings of a method beside the sizes of its model; a method with settings of its own has a subclass.

    A subclass is a frozen dataclass. Each field has a default and a type that pydantic can check.
    """


class StateSlot(nn.Module):
    """The global state: made once from the context, then carried from block to block.

    ``reads_sequence``: whether a transition looks at ``hidden`` or ``mask``. Where none does, the states of all blocks
    are computed before there is a set, with None for both. A class with a transition of its own is taken to read them
    unless it says False itself.
    """

    reads_sequence: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "transition" in vars(cls) and "reads_sequence" not in vars(cls):
            cls.reads_sequence = True

    def start_as_checkpoint(self) -> None:
        """Leave what the blocks compute as it is; called once, with BERT's weights in place."""

    def initial(self, context: ContextEmbedding) -> Tensor:
        """The state that the first block reads, (batch, ...)."""
        raise NotImplementedError

    def transition(self, layer: int, state: Tensor, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """The state that block ``layer + 1`` reads, given what block ``layer`` put out; unchanged unless overridden.

        Shapes:
            state (batch, ...), hidden (batch, length, hidden), mask (batch, length) of 0 and 1, None when nothing is
            padded.
        """
        return state


class InputSlot(nn.Module):
    """Changes the sequence before the first block.

    ``num_added_positions`` positions are put in front; the model drops them again after the last block.
    """

    num_added_positions: ClassVar[int] = 0

    def start_as_checkpoint(self, neutral: Tensor) -> None:
        """Leave the sequence as it is, as far as the method can; called once, with BERT's weights in place.

        Args:
            neutral: (hidden,), what BERT's embeddings make of [SEP]: a position that it attends to where there is
                nothing to attend to.
        """

    def forward(
        self, embeddings: Tensor, mask: Tensor | None, context: ContextEmbedding
    ) -> tuple[Tensor, Tensor | None]:
        """The sequence and its mask with ``num_added_positions`` more positions.

        Shapes:
            embeddings (batch, length, hidden), mask (batch, length) of 0 and 1 or None -> the same, longer.
        """
        raise NotImplementedError


class BlockSlot(nn.Module):
    """A module inside a block, entered at one named point of the block's fixed order.

    ``attend``: in place of self-attention, ``forward(hidden, attend, state)``; gives ``output_size`` components.
    ``attend(query, key, value)``, each (batch, heads, length, head size), is the model's attention with its mask,
    dropout and ``attn_implementation``, and gives (batch, length, heads * head size). More heads than the model has are
    groups of as many, one after another.
    ``read``: between attention and feed-forward, ``forward(hidden, state)``.
    ``modulate``: on the input of each of the two sub-layers, ``forward(hidden, state, sublayer)`` with sublayer 0 or 1;
    the residual path keeps the unmodulated input.

    ``held(state)`` may compute what depends on the state alone: a model that writes then does it once a text, and gives
    it to ``forward`` as ``held`` with each token.

    ``reads_context`` is False where its weights read the sequence alone, as of an attention that the state scales.
    ``hidden_act`` is the activation of the block's feed-forward network, "relu" for one; None: that of the model.
    ``taken_over`` names the modules in which ``start_as_checkpoint`` puts weights of the checkpoint: they are not new.
    """

    point: ClassVar[Point]
    reads_context: ClassVar[bool] = True
    taken_over: ClassVar[tuple[str, ...]] = ()
    output_size: int | None = None  # None: the model's width
    hidden_act: str | None = None

    def start_as_checkpoint(self, attention_norm: nn.LayerNorm | None) -> None:
        """Leave the block's function as it is; called once, with BERT's weights in place.

        Args:
            attention_norm: the LayerNorm after the block's self-attention, for a module that has to take it over; None
                where a block normalises in front of it.
        """

    def held(self, state: Tensor) -> Tensor | None:
        """What ``forward`` computes of a state alone, (batch, ...); None: nothing, or too little to be held."""
        return None


class ConditioningMethod:
    """Base class of conditioning methods. A method fills at most three slots; the others are None.

    Attributes:
        name: the word used in configs, arguments and flags.
        label: the paper's name in brackets, where it has one.
        has_context: False for the control that takes none.
        num_extra_layers: blocks that ``from_checkpoint`` puts on top of a checkpoint's, unless it is told otherwise.
        keeps_checkpoint: whether a model that starts from a checkpoint computes at first what the checkpoint does.
        has_unit_context: whether the features' embeddings then start with variance 1.
        settings_class: the dataclass of the method's own settings.

    Args:
        settings: of that class; None takes the defaults.

    Example:
        >>> class Silent(ConditioningMethod):
        ...     name = "silent"
        >>> Silent().state(sizes=None) is None and Silent().block(sizes=None, layer=0) is None
        True
    """

    name: ClassVar[str]
    label: ClassVar[str] = ""
    has_context: ClassVar[bool] = True
    keeps_checkpoint: ClassVar[bool] = False
    has_unit_context: ClassVar[bool] = True
    num_extra_layers: ClassVar[int] = 0
    settings_class: ClassVar[type[MethodSettings]] = MethodSettings

    def __init__(self, settings: MethodSettings | None = None) -> None:
        self.settings: Any = self.settings_class() if settings is None else settings

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """Return the names of the method's own settings."""
        return tuple(field.name for field in fields(cls.settings_class))

    @classmethod
    def with_settings(cls, given: Mapping[str, Any]) -> Self:
        """Return the method with settings of its own, checked by the types of their dataclass.

        Raises:
            UnknownNameError: it has no such setting.
            ConfigurationError: a value that the method does not take.
        """
        known = cls.setting_names()
        for name in given:
            if name not in known:
                allowed = did_you_mean(name, known) if known else "It has no settings."
                raise UnknownNameError(
                    f"has no setting {name!r}", place=SettingPlace("conditioning"), value=cls.name, allowed=allowed
                )
        types, values = get_type_hints(cls.settings_class), dict[str, Any]()
        for name, value in given.items():
            try:
                values[name] = TypeAdapter(types[name]).validate_python(value, strict=True)
            except ValidationError as error:
                if get_origin(types[name]) is Literal:
                    words = did_you_mean(str(value), get_args(types[name]))
                    raise ConfigurationError("is unknown", setting=name, value=value, allowed=words) from None
                raise ConfigurationError(
                    "is not allowed", setting=name, value=value, fix=wanted(error.errors())
                ) from None
        return cls(cls.settings_class(**values))

    def state(self, sizes: Sizes) -> StateSlot | None:
        """The module that makes and carries the global state."""
        return None

    def input(self, sizes: Sizes) -> InputSlot | None:
        """The module that changes the sequence before the first block."""
        return None

    def block(self, sizes: Sizes, layer: int) -> BlockSlot | None:
        """The module that block ``layer`` (counted from 0) owns."""
        return None

    def feature_width(self, hidden_size: int) -> int | None:
        """Return the width that each feature's embedding has in a model of this width; None: that of the schema."""
        return None

    def initialise_feature(self, weight: Tensor, sizes: Sizes) -> None:
        """Change the first values of a table of the context encoder, where BERT's normal 0.02 will not do."""


class FeedForward(nn.Sequential):
    """FNN(x) = W2 max(0, W1 x + b1) + b2, the paper's feed-forward network.

    Args:
        input_size: width of x.
        inner_size: width of the layer between.
        output_size: width of the result.

    Example:
        >>> import torch
        >>> FeedForward(6, 4, 2)(torch.zeros(3, 6)).shape
        torch.Size([3, 2])
    """

    def __init__(self, input_size: int, inner_size: int, output_size: int) -> None:
        super().__init__(nn.Linear(input_size, inner_size), nn.ReLU(), nn.Linear(inner_size, output_size))
