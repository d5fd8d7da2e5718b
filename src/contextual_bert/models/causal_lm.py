"""The next-token head: it writes a text from left to right under a context.

The context is encoded once a text; a cache holds keys and values of the tokens alone. No method is known here.
"""

from dataclasses import dataclass, replace
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, Cache, DynamicCache, GenerationMixin
from transformers.utils.generic import ModelOutput, can_return_tuple

from contextual_bert.candidates import MaskedScores, rank_targets
from contextual_bert.errors import ConfigurationError
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.context_state import ContextState
from contextual_bert.models.masked_lm import IGNORED_LABEL, has_hooks, score_blocks
from contextual_bert.models.masked_loss import can_be_fused, masked_cross_entropy
from contextual_bert.models.modeling_contextual_bert import Context, ContextualBertModel, ContextualBertPreTrainedModel


@dataclass
class ContextualCausalLMOutput(ModelOutput):
    """Output of the next-token head.

    Args:
        loss: cross-entropy in nats over the tokens that follow another, when labels were given.
        logits: (batch, length, vocabulary) of the token after each; while training on labels there may be none.
        past_key_values: keys and values of all tokens so far, where a cache was given or asked for.
        hidden_states: one (batch, length, hidden) for the input and each block, when asked for.
        attentions: one (batch, heads, length, length) for each block, when asked for.

    Relation to its siblings:
        Their ``state`` is not here: transformers takes an output of that name for a cache.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    past_key_values: Cache | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class ContextualBertForCausalLM(ContextualBertPreTrainedModel, GenerationMixin):
    """Says which token comes next, given those before it and the context.

    Formula:
        Pr(w_i | w_1 ... w_(i-1), c) = softmax(W x_(i-1)(N)), with W the matrix of the token embeddings where they are
        tied

    Shapes:
        input_ids (batch, length); labels (batch, length), those of input_ids, -100 where nothing is asked: they are
        shifted here; logits (batch, length, vocabulary).

    Args:
        config: ContextualBertConfig with ``backbone="gpt2"``.

    Relation to its siblings:
        ``ContextualBertForMaskedLM`` sees both sides of a token. With ``conditioning='none'`` this is GPT2LMHeadModel,
        bit for bit.

    Reference:
        Radford et al. (2019); Denk and Peleteiro Ramallo (2020), section 5, which proposes generation under a context.

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> gpt = {"backbone": "gpt2", "has_position_embeddings": True, "eos_token_id": 2}
        >>> model = ContextualBertForCausalLM(ContextualBertConfig(vocab_size=9, **gpt, **sizes))
        >>> model.generate(torch.tensor([[3, 4]]), max_new_tokens=2, do_sample=False, eos_token_id=None).shape
        torch.Size([1, 4])
    """

    _tied_weights_keys = {"lm_head.weight": "bert.embeddings.word_embeddings.weight"}  # noqa: RUF012
    is_causal = True
    auto_class = AutoModelForCausalLM

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__(config)
        self.bert = ContextualBertModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head = new_embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        context: "Context | ContextState | GuidedState | None" = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_key_values: Cache | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs: Any,
    ) -> ContextualCausalLMOutput:
        num_items_in_batch = kwargs.pop("num_items_in_batch", None)
        if kwargs.pop("use_cache", False) and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        rows = targets = None
        if labels is not None and self.has_fused_loss():
            rows, targets = asked_targets(labels)
        given = {
            "input_ids": input_ids,
            "position_ids": position_ids,
            "inputs_embeds": inputs_embeds,
            "attention_mask": attention_mask,
        }
        guided = context if isinstance(context, GuidedState) else None
        if guided is not None:
            context = guided.both
            given = {name: torch.cat([value, value]) if value is not None else None for name, value in given.items()}
        outputs = self.bert(
            context=context,
            rows=rows,
            past_key_values=past_key_values,
            return_dict=True,
            **given,
            **kwargs,
        )
        hidden, logits, loss = cast(Tensor, outputs.last_hidden_state), None, None
        if targets is not None:
            num_items = len(targets) if num_items_in_batch is None else num_items_in_batch
            bias = self.lm_head.weight.new_zeros(self.config.vocab_size)
            loss = masked_cross_entropy(hidden, self.lm_head.weight, bias, targets, num_items)
        else:
            kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) and logits_to_keep else slice(None)
            kept = logits_to_keep if isinstance(logits_to_keep, Tensor) else kept
            logits = self.lm_head(hidden[:, kept])
            if labels is not None:
                cross_entropy: Any = self.loss_function
                loss = cross_entropy(
                    logits, labels, vocab_size=self.config.vocab_size, num_items_in_batch=num_items_in_batch
                )
        if guided is not None and logits is not None:
            with_context, without = logits.chunk(2)
            logits = without + guided.weight * (with_context - without)
        return ContextualCausalLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )

    def has_fused_loss(self) -> bool:
        """Return True if the loss is computed without a table of logits: in training, unless it is compiled."""
        is_usual = type(self.lm_head) is nn.Linear and not has_hooks(self.lm_head)
        return self.training and can_be_fused(self.device.type) and is_usual

    @torch.no_grad()
    def score_next(
        self,
        input_ids: Tensor,
        labels: Tensor,
        attention_mask: Tensor | None = None,
        context: Context | ContextState | None = None,
    ) -> MaskedScores:
        """Rank each token with a label among all that could follow those before it, in constant memory.

        Returns:
            MaskedScores, (asked,) each, text after text; the first token of a text follows none and is not asked.
        """
        rows, targets = asked_targets(labels)
        hidden = self.bert(input_ids, attention_mask, context).last_hidden_state.flatten(0, 1)[rows]
        parts = [
            rank_targets(self.lm_head(hidden[block]).float(), targets[block], None, reserved=targets.new_zeros(0))
            for block in score_blocks(len(hidden), self.config.vocab_size)
        ]
        return MaskedScores(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

    def generate(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        inputs: Tensor | None = None,
        *,
        context: Context | ContextState | None = None,
        guidance: float = 1.0,
        **settings: Any,
    ) -> Any:
        """Write on, as transformers' ``generate`` does, under a context.

        Args:
            inputs: (batch, length) ids of the prompts; where they differ in length, padded in front, with an
                ``attention_mask``.
            context: a tensor a feature with a row a prompt or one for all, or what ``encode_context`` made of it, which
                is computed once, however much is written; None: nothing is known.
            guidance: how much what sets the context apart counts: logits are those without it + guidance times the
                difference; 1 is the model as it is. Another value takes about twice the time.
            **settings: of transformers' ``generate``.

        Raises:
            ConfigurationError: a context, or a guidance, of a model that reads none.
        """
        if not self.config.reads_context:
            if context or guidance != 1:
                raise ConfigurationError(
                    "is not allowed: this model reads no context",
                    setting="context" if context else "guidance",
                    fix="Leave it out.",
                )
            return cast(Any, super()).generate(inputs, **settings)
        given = (inputs, settings.get("input_ids"), settings.get("inputs_embeds"))
        num_rows = next((len(each) for each in given if each is not None), 1)
        encoder = cast(Any, self.bert.context_encoder)
        with torch.no_grad():
            state = context if isinstance(context, ContextState) else None
            if state is None:
                state = self.encode_context(cast(Context, context) or encoder.missing(1, device=self.device))
            own = self.holding(state.to(self.device))
            read: ContextState | GuidedState = own.for_sets(num_rows, conditioning=self.config.conditioning)
            if guidance != 1:
                without = self.holding(self.encode_context(encoder.missing(1, device=self.device)))
                read = GuidedState(read.joined(without), weight=guidance)
                if settings.get("use_cache", True):
                    settings["past_key_values"] = GuidedCache(config=self.config)
        return cast(Any, super()).generate(inputs, context=read, **settings)

    def holding(self, state: ContextState) -> ContextState:
        """The same state with what each block makes of it alone, so that no token has it computed anew."""
        return replace(state, held=self.bert.encoder.held(state.states))

    def _expand_inputs_for_generation(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, expand_size: int = 1, is_encoder_decoder: bool = False, input_ids: Tensor | None = None, **settings: Any
    ) -> Any:
        context = settings.get("context")
        if isinstance(context, ContextState | GuidedState) and input_ids is not None:
            rows = torch.arange(len(input_ids), device=self.device).repeat_interleave(expand_size)
            settings["context"] = context.rows(rows)
        return cast(Any, super())._expand_inputs_for_generation(
            expand_size=expand_size, is_encoder_decoder=is_encoder_decoder, input_ids=input_ids, **settings
        )


def asked_targets(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The positions from which a next token is asked, into the flattened (batch * length), and these tokens.

    Args:
        labels: (batch, length), those of input_ids, ``IGNORED_LABEL`` where nothing is asked.

    Example:
        >>> asked_targets(torch.tensor([[5, 6, -100], [7, -100, 8]]))
        (tensor([0, 4]), tensor([6, 8]))
    """
    following = nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED_LABEL).flatten()
    rows = (following != IGNORED_LABEL).nonzero(as_tuple=True)[0]
    return rows, following[rows]


@dataclass(frozen=True)
class GuidedState:
    """The states of texts that are written under a context and away from none.

    Args:
        both: the state of each text, and behind them as many of somebody of whom nothing is known.
        weight: how much the difference between the two counts.

    Reference:
        Ho and Salimans (2021), "Classifier-free diffusion guidance", equation 6, with w = 1 + their w.
    """

    both: ContextState
    weight: float

    def rows(self, index: Tensor) -> Self:
        """The chosen texts, by number."""
        return replace(self, both=self.both.rows(torch.cat([index, index + self.both.num_rows // 2])))


class GuidedCache(DynamicCache):
    """A cache of texts with a context, and of the same texts without one behind them."""

    def reorder_cache(self, beam_idx: Tensor) -> None:
        super().reorder_cache(cast(Any, torch.cat([beam_idx, beam_idx + len(beam_idx)])))
