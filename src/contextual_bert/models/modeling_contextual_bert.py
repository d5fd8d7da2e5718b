"""Contextual BERT, top to bottom: the path of a batch through Layer, Encoder and Model.

BERT's own parts (attention, feed-forward, embeddings' names, initialisation) are those of transformers; what is here is
where the context enters. The conditioning method fills three slots: ``state`` (Encoder), ``input`` (Model) and
``block`` (Layer); this file does not know which method it serves. It knows nothing of items, words or feature values,
only of ids; the heads on top are in files of their own.

Paper: Denk and Peleteiro Ramallo (2020), section 3, Figure 1.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn
from transformers import AutoModel, Cache
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.bert.modeling_bert import (
    BertLMPredictionHead,
    BertModel,
    BertPreTrainedModel,
)
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from contextual_bert.atomic_files import share_files
from contextual_bert.conditioning import StateSlot
from contextual_bert.context import ContextEmbedding, ContextEncoder, ContextSchema
from contextual_bert.context.forms import MeanEmbedding, ValueEmbedding
from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.item_features import ItemAttributes, ItemEncoder
from contextual_bert.memory import memory_bytes
from contextual_bert.models.backbones import Attended, ConditionedLayer, get_blocks
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.context_state import ContextState
from contextual_bert.models.gap_dropout import with_unknown_gaps
from contextual_bert.models.learned_absence import LearnedAbsence
from contextual_bert.models.positions import position_table
from contextual_bert.models.pretrained import load_checkpoint

Context = Mapping[str, Tensor]


class ContextualBertEmbeddings(nn.Module):
    """x_i = LayerNorm(item embedding [+ that of its segment or time gap] [+ position embedding]), under BERT's names.
    Blocks that normalise what they read themselves may have embeddings without a LayerNorm, as GPT-2's.

    With an ``embedding_size`` of its own the sum has that width, and ``projection`` maps x_i to the blocks'.
    """

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__()
        size = config.embedding_size or config.hidden_size
        # A model that reads from left to right sees no padding, whose id may be that of the end of a text.
        padding_id = None if config.blocks.is_causal else config.pad_token_id
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=padding_id)
        self.position_embeddings = position_table(config, size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size) if config.type_vocab_size else None
        self.has_time_gaps = config.time_gaps is not None
        settings = config.backbone_settings or {}
        has_bias = settings.get("norm_bias", True)
        self.LayerNorm = (
            nn.LayerNorm(size, eps=config.layer_norm_eps, bias=has_bias)
            if config.blocks.has_embedding_norm
            else nn.Identity()
        )
        self.dropout = nn.Dropout(settings.get("embedding_dropout", config.hidden_dropout_prob))
        self.projection = nn.Linear(size, config.hidden_size) if config.embedding_size is not None else None
        layout, num_reserved = config.item_layout, len(config.reserved_token_ids)
        self.attributes = (
            ItemAttributes(layout, config.vocab_size, num_reserved=num_reserved) if layout is not None else None
        )
        self.item_encoder = ItemEncoder(layout, size) if layout is not None else None

    def embed_items(self, input_ids: Tensor, is_without_own: Tensor | None = None) -> Tensor:
        """Return the vectors of items or words, before segments and positions: (batch, length, size)."""
        if self.item_encoder is None or self.attributes is None:
            return self.word_embeddings(input_ids)
        table = self.item_encoder(self.word_embeddings.weight, self.attributes, is_without_own)
        return nn.functional.embedding(input_ids, table, self.word_embeddings.padding_idx)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        embeddings = self.embed_items(cast(Tensor, input_ids)) if inputs_embeds is None else inputs_embeds
        for name, ids, table in (
            ("token_type_ids", token_type_ids, self.token_type_embeddings),
            ("position_ids", position_ids, self.position_embeddings),
        ):
            if ids is not None and table is None:
                raise ConfigurationError(
                    f"{name} was given, and this model has no embeddings for it", fix="Leave it out."
                )
        if self.token_type_embeddings is not None:
            if token_type_ids is None:
                token_type_ids = embeddings.new_zeros(embeddings.shape[:2], dtype=torch.long)
            if self.training and self.has_time_gaps:
                token_type_ids = with_unknown_gaps(token_type_ids)
            embeddings = embeddings + self.token_type_embeddings(token_type_ids)
        if self.position_embeddings is not None:
            if position_ids is None:
                position_ids = torch.arange(embeddings.shape[1], device=embeddings.device).unsqueeze(0)
            embeddings = embeddings + self.position_embeddings(position_ids)
        embeddings = self.dropout(self.LayerNorm(embeddings))
        return self.projection(embeddings) if self.projection is not None else embeddings


class ContextualBertEncoder(nn.Module):
    """The stack of blocks, and the global state that travels beside the sequence."""

    conditioning: Any  # StateSlot or None

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__()
        self.config, self.blocks = config, get_blocks(config.backbone)
        self.layer = nn.ModuleList(self.blocks.layer(config, index) for index in range(config.num_hidden_layers))
        self.shared = self.blocks.shared(config)
        self.final_norm = self.blocks.final_norm(config)
        self.conditioning = config.method.state(config.sizes)
        reads_on = "predicts_next" if config.predicts_next else "backbone"
        if config.is_left_to_right and self.conditioning is not None and self.conditioning.reads_sequence:
            raise ConfigurationError(
                Message(
                    "lets a state that read the whole sequence into each block, and with {" + reads_on + "} a position "
                    "would see those that follow it",
                    **{reads_on: getattr(config, reads_on)},
                ),
                setting="conditioning",
                value=config.conditioning,
                fix=Message("Take {conditioning}.", conditioning="global_state_update"),
            )

    def forward(
        self,
        hidden: Tensor,
        real: Tensor | None,
        states: Sequence[Tensor],
        rows: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        held: Sequence[Tensor | None] = (),
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """``real``: (batch, length) of 0 and 1, None: nothing padded; or a mask that ``attn_implementation`` takes."""
        state = None
        inputs = self.blocks.layer_inputs(self.config, hidden, real, position_ids, past_key_values, self.shared)
        for index, layer in enumerate(self.layer):
            if index < len(states):
                state = states[index]
            elif self.conditioning is not None:
                state = self.conditioning.transition(index - 1, state, hidden, real)
            is_last = index == len(self.layer) - 1
            others = {**inputs[index].others, "held": held[index]} if held else inputs[index].others
            hidden = layer(hidden, inputs[index].mask, state, rows if is_last else None, **others, **kwargs)
        return self.final_norm(hidden) if self.final_norm is not None else hidden, state

    def states(self, context: ContextEmbedding | None, *, is_ahead: bool) -> tuple[Tensor, ...]:
        """The state of the first block; ``is_ahead``: of all blocks, unless the method's state reads the sequence."""
        if self.conditioning is None:
            return ()
        states = [self.conditioning.initial(context)]
        if is_ahead and not self.conditioning.reads_sequence:
            for index in range(len(self.layer) - 1):
                states.append(self.conditioning.transition(index, states[-1], None, None))
        return tuple(states)

    def held(self, states: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
        """What each block makes of its state alone, given the states of all blocks; empty where none makes anything."""
        layers = cast(list[ConditionedLayer], list(self.layer))
        pairs = zip(layers, states, strict=False)  # a method without states has none
        found = tuple(each.conditioning.held(state) if each.conditioning is not None else None for each, state in pairs)
        return found if any(each is not None for each in found) else ()


@dataclass
class ContextualBertModelOutput(BaseModelOutputWithPooling):
    """Output of BERT, and the state that the last block read (None without a state slot). The pooler's output is None
    without a pooler, and if only some positions were wanted; the cache that was given has now these positions, too; the
    context vector is there for ``has_context_at_output``."""

    state: Tensor | None = None
    past_key_values: Cache | None = None
    context_vector: Tensor | None = None


class ContextualBertPreTrainedModel(LearnedAbsence, BertPreTrainedModel):
    """Initialisation (normal, 0.02, as BERT), loading and saving for the model and its heads."""

    config: ContextualBertConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    head_keys: ClassVar[tuple[str, ...]] = ()  # how the names of a head's own weights start
    head_parts: ClassVar[Mapping[str, str]] = {}  # parts of ModernBERT's heads -> what they are called here
    head_fields: ClassVar[tuple[str, ...]] = ()  # fields of the config that this head alone reads
    num_segments: ClassVar[int] = 0  # that a checkpoint must tell apart
    auto_class: ClassVar[Any] = AutoModel  # that finds the same head of other architectures
    checkpoint_class: ClassVar[Any] = None  # that reads their checkpoints; None: auto_class
    is_causal: ClassVar[bool | None] = None  # whether the head needs blocks that read from left to right; None: any
    is_for_items: ClassVar[bool] = False  # whether it takes ``predicts_next`` and ``has_context_at_output``
    has_new_head: bool = True  # a weight of the head did not come from the checkpoint; the loaders of ours set it
    config_class = ContextualBertConfig
    # HF reads a plain list and a plain dict.
    _no_split_modules = ["ContextualBertEmbeddings", "ContextualBertLayer", "ContextualModernBertLayer"]  # noqa: RUF012
    _no_split_modules += ["ContextualGpt2Layer", "RecurrentLayer"]
    _skip_keys_device_placement = ["past_key_values"]  # noqa: RUF012
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": ConditionedLayer,
        "attentions": [".attention.self", ".attn", Attended],
    }

    def __init__(self, config: ContextualBertConfig, *arguments: Any, **settings: Any) -> None:
        check_head(type(self), config)
        # Not super(): for the model that would be BertModel, which builds a BERT of its own.
        BertPreTrainedModel.__init__(self, config, *arguments, **settings)

    def save_pretrained(self, save_directory: Any, *arguments: Any, **settings: Any) -> None:
        """Save as transformers does, in files with the mode of the umask: safetensors makes private ones."""
        super().save_pretrained(save_directory, *arguments, **settings)
        share_files(*Path(save_directory).glob("model*.safetensors"))

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, BertLMPredictionHead) and "bias" not in dict(module.named_parameters(recurse=False)):
            return  # an untied head keeps its bias in the decoder
        super()._init_weights(module)
        self.config.blocks.initialise(module, self.config)
        if isinstance(module, ValueEmbedding | MeanEmbedding):
            self.config.method.initialise_feature(module.weight, self.config.sizes)
        # A method's own leaf module may know better, for instance a gate that starts at zero.
        initialise = getattr(module, "initialise", None)
        if callable(initialise):
            initialise(self.config.initializer_range)

    def encode_context(self, context: Context) -> ContextState:
        """Return the encoding of a context, to be given as ``context`` for many sets.

        Context encoder and state are then computed once a customer. Where the state reads the sequence
        (``state_flow``), only the state of the first block is; the method's input slot is computed with each set.

        Example:
            >>> from contextual_bert.context import Categorical
            >>> schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
            >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
            >>> config = ContextualBertConfig.from_schema(schema, conditioning="film", vocab_size=9, **sizes)
            >>> model = ContextualBertModel(config).eval()
            >>> customer = model.encode_context({"sex": torch.tensor([2])})
            >>> model(input_ids=torch.tensor([[3, 1], [4, 1]]), context=customer).last_hidden_state.shape
            torch.Size([2, 2, 8])
        """
        if self.config.has_context_as_text:
            raise ConfigurationError(
                "A context that is read as words is read with each text", fix="Give it to the model."
            )
        model = cast(ContextualBertModel, self.base_model)
        num_rows = next(iter(context.values())).shape[0] if context else 1
        embedding = model.embed_context(context, batch_size=num_rows)
        return ContextState(
            self.config.conditioning, num_rows, embedding, model.encoder.states(embedding, is_ahead=True)
        )

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: str | Path,
        *,
        schema: ContextSchema | None = None,
        conditioning: str = "global_state_update",
        **settings: Any,
    ) -> Self:
        """A model with a context that starts from a plain checkpoint of BERT's family, its weights and its function.

        Weights that the checkpoint lacks are new: those of the method, of the context encoder and, unless it has them,
        of the head. A method with ``keeps_checkpoint`` computes at first what the checkpoint computes, up to rounding,
        whatever the context is (docs/decisions/011). ``from_bert`` is the same by its former name.

        Args:
            checkpoint: folder with config.json, weights and tokenizer, or a name on the Hub, of an architecture in
                ``models.backbones.BACKBONES``; a run of ``none`` that started so is one too.
            schema: the features of the context; leave it out for ``none``.
            conditioning: name of the method.
            **settings: fields of ContextualBertConfig, ``num_labels`` for one; anything else goes to
                ``from_pretrained``, ``revision`` for one. The weights are float32 unless ``dtype`` says otherwise,
                whatever the checkpoint is stored in.

        Raises:
            CheckpointError: no checkpoint there, one of another architecture, no tokenizer, weights that are missing.
            ConfigurationError: a method that takes a context, without a schema; a field that this head does not read,
                or with a value that cannot work.

        Reference:
            docs/guides/text.md; the paper's section 5, which expects its methods to carry over to text.
        """
        model = load_checkpoint(cls, checkpoint, schema=schema, conditioning=conditioning, **settings)
        model.start_as_checkpoint()
        return model

    from_bert = from_checkpoint

    @torch.no_grad()
    def start_as_checkpoint(self) -> None:
        """Set the method's weights so that they leave the checkpoint's function as it is, where the method can."""
        for module in self.modules():
            if isinstance(module, ContextEncoder) and self.config.method.has_unit_context:
                module.draw_at_unit_scale()
            if isinstance(module, StateSlot):
                module.start_as_checkpoint()
            if isinstance(module, ConditionedLayer) and module.conditioning is not None:
                module.conditioning.start_as_checkpoint(module.attention_norm)
            if isinstance(module, ContextualBertModel) and module.conditioning is not None:
                separator, second = torch.tensor([[[self.config.eos_token_id]], [[1]]], device=self.device)
                places = {"position_ids": second} if self.config.has_position_table else {}
                module.conditioning.start_as_checkpoint(module.embeddings(separator, **places)[0, 0])


def check_head(head: type[ContextualBertPreTrainedModel], config: ContextualBertConfig) -> None:
    """Raise ConfigurationError where a head and the blocks of a config read in different directions."""
    of_items = [name for name in ("predicts_next", "has_context_at_output") if getattr(config, name)]
    if of_items and not head.is_for_items:
        raise ConfigurationError(
            f"is for masked items, and this is {head.__name__}",
            setting=of_items[0],
            value=True,
            fix="Take ContextualBertForMaskedLM.",
        )
    if head.is_causal in (None, config.blocks.is_causal) or config.predicts_next:
        return
    ways = ("in both directions", "from left to right")
    fix, pairs = "Take {backbone}", {"bilstm": "lstm", "bigru": "gru", "lstm": "bilstm", "gru": "bigru"}
    other: dict[str, Any] = {"backbone": pairs.get(config.backbone, "gpt2" if head.is_causal else "bert")}
    if head.is_for_items and config.blocks.can_hide_later:
        fix, other = f"{fix}; to learn the next item, {{predicts_next}}", {**other, "predicts_next": True}
    raise ConfigurationError(
        f"reads {ways[not head.is_causal]}, and {head.__name__} {ways[bool(head.is_causal)]}",
        setting="backbone",
        value=config.backbone,
        fix=Message(f"{fix}.", **other),
    )


def check_memory(config: ContextualBertConfig) -> None:
    """Raise ConfigurationError where a model's weights alone are more than the machine has memory.

    On the meta device, on which ``from_pretrained`` builds, they take none.
    """
    needed, memory = 4 * config.num_weights, memory_bytes()
    if memory is not None and needed > memory and torch.empty(0).device.type != "meta":
        raise ConfigurationError(
            Message(
                f"A model of {{hidden_size}}, {{num_hidden_layers}}, {{intermediate_size}}, "
                f"vocab_size={config.vocab_size:,} and a context of {config.context_size:,} components has "
                f"{config.num_weights:,} weights or more",
                hidden_size=config.hidden_size,
                num_hidden_layers=config.num_hidden_layers,
                intermediate_size=config.intermediate_size,
            ),
            fix=f"They take {needed / 2**30:,.0f} GiB, and this machine has {memory / 2**30:,.0f} GiB. "
            "Give smaller sizes.",
        )


class ContextualBertModel(ContextualBertPreTrainedModel, BertModel):  # pyright: ignore[reportIncompatibleVariableOverride]
    """BERT's encoder with a context.

    Formula:
        c = [e_1; ...; e_F];  X0 = input(Embeddings(items), c);  s = state(c);  X(l+1) = Block_l(X(l), s(l))

    Symbols:
        =====================  ==================================
        here                   paper
        =====================  ==================================
        ``context_encoder``    the feature embeddings, giving c
        ``state``              c~, c~(l)
        ``last_hidden_state``  X(N)
        =====================  ==================================

    Shapes:
        input_ids (batch, length) int64; attention_mask (batch, length) of 0 and 1, or None; context: a tensor a
        feature, with batch rows, what ``encode_context`` made of it, or None where nothing is known of any row;
        last_hidden_state (batch, length, hidden), or (rows, hidden) where ``rows``, indices into the flattened (batch *
        length), says which positions are wanted: the last block then spares the others.

    Args:
        config: ContextualBertConfig.
        has_pooler: whether it has BERT's pooler, which makes ``pooler_output`` (batch, hidden) of the first position.

    Relation to its siblings:
        With ``conditioning='none'`` and position embeddings it computes what transformers' BertModel computes, bit for
        bit.

    Reference:
        Denk and Peleteiro Ramallo (2020), section 3.

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertModel(ContextualBertConfig(vocab_size=9, **sizes))
        >>> model(input_ids=torch.tensor([[3, 4, 1]])).last_hidden_state.shape
        torch.Size([1, 3, 8])
    """

    reads_words: ClassVar[bool] = False
    is_for_items: ClassVar[bool] = True

    def __init__(self, config: ContextualBertConfig, *, has_pooler: bool = False) -> None:
        if config.has_context_as_text and not self.reads_words:
            raise ConfigurationError(
                "The config says has_context_as_text, and this model by itself would pass over the context",
                fix="Load it with one of the heads, whose attribute `bert` reads the words.",
            )
        check_memory(config)
        ContextualBertPreTrainedModel.__init__(self, config)
        method = config.method
        self.embeddings = ContextualBertEmbeddings(config)
        item_size = config.embedding_size or config.hidden_size
        self.context_encoder = ContextEncoder(config.layout, item_size=item_size) if method.has_context else None
        self.conditioning = method.input(config.sizes)
        self.encoder = ContextualBertEncoder(config)
        self.pooler = get_blocks(config.backbone).pooler(config) if has_pooler else None
        self.post_init()

    @can_return_tuple
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        context: Context | ContextState | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        rows: Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> ContextualBertModelOutput:
        if (input_ids is None) == (inputs_embeds is None):
            raise ConfigurationError("Give either input_ids or inputs_embeds.")
        if past_key_values is not None and not self.config.blocks.is_causal:
            raise ConfigurationError(
                "is for models that read from left to right", setting="past_key_values", fix="Leave it out."
            )
        before = past_key_values.get_seq_length() if past_key_values is not None else 0
        if before and position_ids is None:
            first = before - self.num_added_positions
            length = cast(Tensor, input_ids if input_ids is not None else inputs_embeds).shape[1]
            position_ids = torch.arange(first, first + length, device=self.device).unsqueeze(0)
        if self.config.predicts_next:
            input_ids, inputs_embeds = self.one_place_back(input_ids, inputs_embeds)
        placed = position_ids if self.config.has_position_table or not self.config.has_position_embeddings else None
        embeddings = self.embeddings(input_ids, token_type_ids, placed, inputs_embeds)
        has_all_states = bool(kwargs.get("output_hidden_states", self.config.output_hidden_states))
        kwargs["return_dict"] = True  # of this inner call, whatever the config says of the outer one
        wanted = None if has_all_states else rows
        outputs = self.encode(
            embeddings, attention_mask, context, wanted, position_ids, past_key_values=past_key_values, **kwargs
        )
        if outputs.attentions is not None and len(outputs.attentions) < self.config.num_hidden_layers:
            raise ConfigurationError(
                "gives no weights of attention, for which output_attentions asks",
                setting="attn_implementation",
                value=self.config._attn_implementation,  # pyright: ignore[reportPrivateUsage]
                allowed="Allowed: eager.",
                fix='Call model.set_attn_implementation("eager").',
            )
        if self.pooler is not None and rows is None:
            outputs.pooler_output = self.pooler(outputs.last_hidden_state)
        if has_all_states and rows is not None:
            hidden = cast(Tensor, outputs.last_hidden_state)
            outputs.last_hidden_state = cast(Any, hidden.flatten(0, 1)[rows])
        if has_all_states and self.num_added_positions:
            # None where the caller chose other layers: output_hidden_states may be a list of indices.
            all_states: Any = outputs.hidden_states
            outputs.hidden_states = tuple(  # pyright: ignore[reportAttributeAccessIssue]
                states if states is None else states[:, states.shape[1] - embeddings.shape[1] :]
                for states in all_states
            )
        return ContextualBertModelOutput(**outputs)  # in the order of the fields, whatever came first

    @merge_with_config_defaults
    @capture_outputs
    def encode(
        self,
        embeddings: Tensor,
        attention_mask: Tensor | None,
        context: Context | ContextState | None,
        rows: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> ContextualBertModelOutput:
        """From embedded items to hidden states: where the context enters. Called by ``forward``."""
        if isinstance(context, ContextState):
            context = context.for_sets(embeddings.shape[0], conditioning=self.config.conditioning)
            embedded_context, states, held = context.embedding, context.states, context.held
        else:
            held = ()
            embedded_context = self.embed_context(context, batch_size=embeddings.shape[0], device=embeddings.device)
            states = self.encoder.states(embedded_context, is_ahead=False)
        added = self.num_added_positions
        if rows is not None and added:
            rows = rows + added * (rows // embeddings.shape[1] + 1)
        slot = self.encoder.conditioning
        needs_rows = added > 0 or (slot is not None and slot.reads_sequence)
        if needs_rows and attention_mask is not None and attention_mask.ndim != 2:
            raise ConfigurationError(
                Message(
                    f"attention_mask has the shape {tuple(attention_mask.shape)}: {{conditioning}} takes (batch, "
                    "length), 1 where a row has a position and 0 elsewhere.",
                    conditioning=self.config.conditioning,
                )
            )
        if self.conditioning is not None:
            embeddings, attention_mask = self.conditioning(embeddings, attention_mask, embedded_context)
        if past_key_values is not None and past_key_values.get_seq_length():
            embeddings, added = embeddings[:, added:], 0  # what is put in front is in the cache
        if position_ids is not None and added:
            first = position_ids.new_zeros(()).expand(*position_ids.shape[:-1], added)
            position_ids = torch.cat([first, position_ids + added], dim=-1)
        hidden, state = self.encoder(
            embeddings,
            attention_mask,
            states,
            rows,
            position_ids=position_ids,
            past_key_values=past_key_values,
            held=held,
            **kwargs,
        )
        return ContextualBertModelOutput(
            last_hidden_state=hidden if rows is not None else hidden[:, added:],
            state=state,
            past_key_values=past_key_values,
            context_vector=embedded_context.vector if embedded_context and self.config.has_context_at_output else None,
        )

    def one_place_back(
        self, input_ids: Tensor | None, inputs_embeds: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the inputs behind a [MASK], without the last: with a causal mask a position reads those before it.

        Gaps of time stay in their places: a position knows how long after the item before it the next one comes.
        """
        if input_ids is not None:
            start = torch.full_like(input_ids[:, :1], self.config.mask_token_id)
            return torch.cat([start, input_ids[:, :-1]], dim=1), None
        embeds = cast(Tensor, inputs_embeds)
        start = self.embeddings.embed_items(
            torch.full((len(embeds), 1), self.config.mask_token_id, device=embeds.device)
        )
        return None, torch.cat([start.to(embeds.dtype), embeds[:, :-1]], dim=1)

    @property
    def num_added_positions(self) -> int:
        """Positions that the input slot puts in front, dropped again at the end."""
        return self.conditioning.num_added_positions if self.conditioning is not None else 0

    def embed_context(
        self, context: Context | None, *, batch_size: int, device: torch.device | None = None
    ) -> ContextEmbedding | None:
        """The feature embeddings of a batch, None where the method takes no context; None is: all is missing.

        Raises:
            ConfigurationError: a context with another number of rows, or something else than a context.
        """
        given = cast(object, context)
        if given is not None and not isinstance(given, Mapping):
            raise ConfigurationError(
                "is not allowed",
                setting="context",
                value=type(given).__name__,
                fix="Give a tensor a feature by name. After input_ids and attention_mask comes the context, and not "
                "token_type_ids as in BERT: name what you give.",
            )
        if self.context_encoder is None:
            return None
        if context is None:
            if self.training:
                warn_without_context(f"conditioning={self.config.conditioning!r}")
            context = self.context_encoder.missing(batch_size, device=device)
        embedded = self.context_encoder(context, self.embeddings.embed_items)
        if embedded.vector.shape[0] != batch_size:
            raise ConfigurationError(
                f"context has {embedded.vector.shape[0]} rows and input_ids {batch_size}", fix="Give one context a row."
            )
        return embedded


def warn_without_context(what: str) -> None:
    """Warn of a batch without a context in training; ``what`` would have read it."""
    warnings.warn(
        f"{what} takes a context, and a batch came without: every feature counts as missing. Give the data set a "
        "context if that is not meant.",
        stacklevel=3,
    )
